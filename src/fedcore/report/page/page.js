"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const names = Object.keys(data.strategies);
const hidden = new Set(); // strategies that are switched off
const charts = []; // {figure, canvas, make, chart}: drawn when it comes into view
const LABELS = { round: "Round", time: "Time in deadlines (log)", train_loss: "Training loss", test_accuracy: "Accuracy", epsilon: "ε" };
const short = (v) => Number(v < 1000 ? v.toPrecision(3) : Math.round(v)).toLocaleString("en", { maximumFractionDigits: 9 });

// The colours of the pictures: on a dark ground colours are lighter, and greys the other way round.
const paint = (colour) => Chart.helpers.color(colour);
let dark = false;
function look() {
  const { color, backgroundColor } = getComputedStyle(document.body);
  dark = paint(backgroundColor).rgb.r < 128;
  document.querySelectorAll("nav i").forEach((dot, n) => (dot.style.background = colourOf(names[n])));
  Object.assign(Chart.defaults, { color, borderColor: paint(color).alpha(0.2).rgbString(), animation: false, maintainAspectRatio: false });
}
function shade(colour) {
  const { r, g, b } = paint(colour).rgb;
  if (!dark) return colour;
  return (r === g && g === b ? paint(colour).negate() : paint(colour).lighten(0.3)).rgbString();
}
const colourOf = (name) => shade(data.colours[names.indexOf(name) % data.colours.length]);
const faint = (name) => paint(colourOf(name)).alpha(0.5).rgbString();

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return values.includes(null) ? null : (sorted[Math.floor(middle)] + sorted[Math.ceil(middle)]) / 2;
}

function axis(text, log, more) {
  const isRound = ({ value }) => [1, 2, 5].includes(Number((value / 10 ** Math.floor(Math.log10(value))).toPrecision(3)));
  const thin = (own) => { // of a logarithm 1, 2 and 5 are enough, where there are three of them
    const few = own.ticks.filter(isRound);
    if (log && few.length > 2) own.ticks = few;
  };
  const ticks = { callback: short, precision: /^(Round|Epochs|Clients)/.test(text) ? 0 : undefined };
  return { type: log ? "logarithmic" : "linear", title: { display: Boolean(text), text }, ticks, afterBuildTicks: thin, ...more };
}

// Seeds thin, their median strong, in rounds that all measured; beyond the eighth strategy dashed; the paper's dotted. No time has no logarithm.
function lines(panel, y, x) {
  const sets = [];
  const add = (strategy, more, data, borderWidth, order, look) => sets.push({ strategy, label: more, data: data.filter((point) => point.x > 0 || x === "round"), borderWidth, order, showLine: true,
    borderColor: colourOf(strategy), borderDash: names.indexOf(strategy) < 8 ? [] : [7, 3], pointRadius: data.length > 1 ? 0 : 3, ...look });
  for (const [name, runs] of Object.entries(panel.curves)) {
    const known = (run) => (_, n) => [run[y], ...(y === "epsilon" ? [] : [run.train_loss, run.test_accuracy])].some((own) => own[n] !== null);
    const curves = runs.map((run) => new Map(run[x].map((at, n) => [run.round[n], { x: at, y: run[y][n] }]).filter(known(run))));
    if (!curves.some((own) => [...own.values()].some((point) => point.y !== null))) continue;
    const shared = [...curves[0].keys()].filter((round) => curves.every((own) => own.has(round)));
    const middle = (round, key) => median(curves.map((own) => own.get(round)[key]));
    if (curves.length > 1) for (const own of curves) add(name, `${data.strategies[name]}, a seed`, [...own.values()], 0.7, 2);
    add(name, data.strategies[name], shared.map((round) => ({ x: middle(round, "x"), y: middle(round, "y") })), 2.2, 1);
    const paper = x === "round" && panel.paper[name]?.[y];
    const points = paper && paper[0].map((at, n) => ({ x: at, y: paper[1][n] }));
    if (paper) add(name, `${data.strategies[name]}, paper`, points, 1.5, 3, { borderColor: faint(name), borderDash: [2, 3] });
  }
  const ends = sets.filter((set) => set.order !== 2).map((set) => `${set.label} ${short(set.data.at(-1)?.y ?? NaN)}`);
  return { sets, scales: { x: axis(LABELS[x], x === "time"), y: axis(LABELS[y]) }, alt: `${LABELS[y]} at the end: ${ends.join(", ")}` };
}

function times(panel) {
  const found = Object.entries(panel.times).filter(([, one]) => one.shape);
  const sets = found.map(([strategy, one], place) => {
    const side = (sign) => one.shape.map(([time, width]) => ({ x: place + sign * 0.4 * width, y: time }));
    const label = `${data.strategies[strategy]}: median ${short(one.median)}, longest ${short(one.most)}`;
    return { strategy, label, data: [...side(-1), ...side(1).reverse()], fill: "shape", borderColor: colourOf(strategy), backgroundColor: faint(strategy) };
  });
  const [min, max] = [-0.6, found.length - 0.4];
  const deadline = { label: "deadline", data: [{ x: min, y: 1 }, { x: max, y: 1 }], borderDash: [6, 4], borderColor: Chart.defaults.color };
  const every = [...sets, deadline].map((set) => ({ showLine: true, pointRadius: 0, ...set }));
  const x = axis("", false, { min, max, grid: { display: false }, ticks: { callback: (place) => data.strategies[found[place][0]] },
    afterBuildTicks: (own) => (own.ticks = found.map((_, value) => ({ value }))) });
  const scales = { x, y: axis("Time of a client in deadlines (log)", true) };
  return { sets: sets.length ? every : [], scales, alt: sets.map((set) => set.label).join("; ") };
}

function steps(panel) {
  const sets = Object.entries(panel.steps).filter(([, points]) => points.length).map(([strategy, points]) => ({ strategy, pointRadius: 4,
    label: data.strategies[strategy], data: points.map(([x, y]) => ({ x, y })), backgroundColor: faint(strategy), borderColor: colourOf(strategy) }));
  const scales = { x: axis("Epochs that FedProx has time for"), y: axis("Gradient steps in a round") };
  return { sets, scales, alt: "Gradient steps of slow clients with FedProx and with FedCore" };
}

// By row, [what, from, to] as bars, with a colour for each kind of what.
function spans(rows, colours, text, max) {
  const labels = Object.keys(rows);
  const of = (what) => labels.flatMap((y) => rows[y].filter((span) => span[0] === what).map(([, ...x]) => ({ x, y })));
  const sets = Object.entries(colours).map(([what, colour]) => ({ label: what, data: of(what), backgroundColor: shade(colour) }));
  const y = { type: "category", labels, ticks: { display: !max }, grid: { display: false } };
  return { type: "bar", sets: sets.filter((set) => set.data.length), scales: { x: axis(text, false, { min: 0, max }), y }, alt: text };
}

function sizes(bins) {
  const labels = bins.map(([low, high]) => (low === high ? short(low) : `${short(low)}-${short(high)}`));
  const sets = [{ label: "clients", data: bins.map(([, , y], n) => ({ x: labels[n], y })), backgroundColor: shade(data.colours[2]) }];
  return { type: "bar", sets, scales: { x: { type: "category", labels }, y: axis("Clients") }, alt: "How many have how many samples" };
}

function draw(one) {
  one.chart?.destroy();
  const { type = "scatter", sets, scales } = one.make();
  for (const set of sets) Object.assign(set, { hidden: hidden.has(set.strategy), grouped: false, barPercentage: 0.9, categoryPercentage: 1 });
  const [lying, bar] = [scales.y.type === "category", type === "bar"];
  const interaction = { mode: "nearest", axis: bar ? "xy" : "x", intersect: bar };
  const plugins = { legend: { display: lying, labels: { boxWidth: 12 } } };
  one.chart = new Chart(one.canvas, { type, data: { datasets: sets }, options: { indexAxis: lying ? "y" : "x", scales, interaction, plugins } });
}

function element(tag, parent, text = "", attributes = {}) {
  const made = parent.appendChild(document.createElement(tag));
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function place(parent, title, make, panel = {}) {
  const { sets, alt } = make();
  if (!sets.length) return;
  const figure = element("figure", parent);
  element("figcaption", figure, title);
  const canvas = element("canvas", element("div", figure), "", { role: "img", "aria-label": `${title}. ${alt}` });
  charts.push({ figure, canvas, make, panel });
}

look();
const figures = { times, steps, ways: (panel) => spans(panel.ways, data.ways, "Clients, from slow to fast") };
for (const section of document.querySelectorAll("[data-figure]")) {
  const { figure, by } = section.dataset;
  const grid = element("div", section, "", { class: "panels" });
  for (const panel of figure === "sizes" ? [] : data.panels) {
    const rows = figure === "timeline" ? Object.entries(panel.timeline) : [];
    for (const [name, own] of rows) place(grid, `${name}: ${panel.title}`, () => spans(own, data.doing, "Time in deadlines", data.shown), panel);
    if (figure !== "timeline") place(grid, panel.title, () => (by ? lines(panel, figure, by) : figures[figure](panel)), panel);
  }
  for (const [name, bins] of figure === "sizes" ? Object.entries(data.sizes) : []) place(grid, name, () => sizes(bins));
  if (!grid.children.length) element("p", grid, "Not in these folders.");
}

const nav = document.querySelector("nav");
const renew = (paper = false, which = (one) => one.chart) => // paper is white and has a width of its own
  (document.documentElement.classList.toggle("printed", paper), look(), charts.filter(which).forEach(draw));
for (const name of names) {
  const button = element("button", nav, data.strategies[name], { "aria-pressed": true });
  button.prepend(element("i", button, "", { style: `background: ${colourOf(name)}` }));
  button.onclick = () => {
    if (!hidden.delete(name)) hidden.add(name);
    button.setAttribute("aria-pressed", !hidden.has(name));
    renew();
  };
}
// Where there are several, charts are of one set of options, and of all benchmarks or one.
for (const key of ["options", "benchmark"]) {
  const values = [...new Set(data.panels.map((panel) => panel[key]))];
  const select = values.length > 1 && element("select", nav, "", { "aria-label": key, name: key });
  for (const value of select ? [...(key === "benchmark" ? ["every benchmark"] : []), ...values] : []) element("option", select, value);
}
nav.onchange = () => {
  for (const { figure, panel } of charts)
    figure.hidden = [...nav.querySelectorAll("select")].some(({ name, value }) => panel[name] && !value.startsWith("every ") && panel[name] !== value);
};
nav.onchange();
const watch = new IntersectionObserver((entries) => {
  for (const { target } of entries.filter((one) => one.isIntersecting)) {
    watch.unobserve(target);
    draw(charts.find((one) => one.figure === target));
  }
}, { rootMargin: "400px" });
charts.forEach((one) => watch.observe(one.figure));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => renew());
addEventListener("beforeprint", () => renew(true, (one) => !one.figure.hidden));
addEventListener("afterprint", () => renew());
