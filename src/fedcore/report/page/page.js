"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const names = Object.keys(data.strategies);
const hidden = new Set(); // strategies that are switched off
const charts = []; // {figure, canvas, make, chart}: drawn when it comes into view
const LABELS = { round: "Round", time: "Time in deadlines (log)", train_loss: "Training loss", test_accuracy: "Accuracy", epsilon: "ε (log)" };
const short = (v) => Number(v < 1000 ? v.toPrecision(3) : Math.round(v)).toLocaleString("en", { maximumFractionDigits: 9 });

// The colours of the pictures, lighter on a dark ground; beyond the eighth strategy lines are dashed.
const paint = (colour) => Chart.helpers.color(colour);
const seen = (tag, name) => getComputedStyle(document.querySelector(tag))[name];
const shade = (colour) => paint(colour).lighten(paint(seen("body", "backgroundColor")).rgb.r < 128 ? 0.35 : 0).rgbString();
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
  return { type: log ? "logarithmic" : "linear", title: { display: Boolean(text), text }, ticks: { callback: short, precision: 0 },
    afterBuildTicks: thin, ...more };
}

function lines(panel, y, x) {
  const sets = [];
  const add = (strategy, label, data, borderWidth, order, more) => sets.push({ strategy, label, data, borderWidth, order,
    borderColor: colourOf(strategy), borderDash: names.indexOf(strategy) < 8 ? [] : [7, 3], showLine: true, pointRadius: data.length > 1 ? 0 : 3, ...more });
  for (const [name, runs] of Object.entries(panel.curves)) {
    const curves = runs.map((run) => run[x].map((at, n) => ({ x: at, y: run[y][n] })));
    if (!curves.flat().some((point) => point.y !== null)) continue;
    const least = Math.min(...curves.map((points) => points.length));
    const middle = (n, key) => median(curves.map((points) => points[n][key]));
    if (curves.length > 1) curves.forEach((points) => add(name, `${data.strategies[name]}, a seed`, points, 0.7, 2));
    add(name, data.strategies[name], curves[0].slice(0, least).map((_, n) => ({ x: middle(n, "x"), y: middle(n, "y") })), 2.2, 1);
    const paper = x === "round" && panel.paper[name]?.[y];
    const look = { borderColor: faint(name), borderDash: [2, 3] };
    if (paper) add(name, `${data.strategies[name]}, paper`, paper[0].map((at, n) => ({ x: at, y: paper[1][n] })), 1.5, 3, look);
  }
  const ends = sets.filter((set) => set.order !== 2).map((set) => `${set.label} ${short(set.data.at(-1).y ?? NaN)}`);
  const scales = { x: axis(LABELS[x], x === "time"), y: axis(LABELS[y], y === "epsilon", y === "epsilon" ? {} : { ticks: {} }) };
  return { sets, scales, alt: `${LABELS[y]} at the end: ${ends.join(", ")}` };
}

function times(panel) {
  const found = Object.entries(panel.times).filter(([, one]) => one.shape);
  const sets = found.map(([name, one], place) => {
    const side = (sign) => one.shape.map(([time, width]) => ({ x: place + sign * 0.4 * width, y: time }));
    const label = `${data.strategies[name]}: median ${short(one.median)}, longest ${short(one.most)}`;
    return { strategy: name, label, data: [...side(-1), ...side(1).reverse()], showLine: true, pointRadius: 0, fill: "shape",
      borderColor: colourOf(name), backgroundColor: faint(name) };
  });
  const [min, max] = [-0.6, found.length - 0.4];
  const deadline = { label: "deadline", data: [{ x: min, y: 1 }, { x: max, y: 1 }], showLine: true, pointRadius: 0, borderDash: [6, 4], borderColor: Chart.defaults.color };
  const ticks = { callback: (place) => data.strategies[found[place][0]] };
  const x = axis("", false, { min, max, ticks, grid: { display: false }, afterBuildTicks: (own) => (own.ticks = found.map((_, value) => ({ value }))) });
  const alt = `Of clients: ${sets.map((set) => set.label).join("; ")}`;
  return { sets: sets.length ? [...sets, deadline] : [], alt, scales: { x, y: axis("Time of a client in deadlines (log)", true) } };
}

function steps(panel) {
  const sets = Object.entries(panel.steps).filter(([, points]) => points.length).map(([name, points]) => ({ strategy: name,
    label: data.strategies[name], data: points.map(([x, y]) => ({ x, y })), backgroundColor: faint(name), borderColor: colourOf(name), pointRadius: 4 }));
  const scales = { x: axis("Epochs that FedProx has time for"), y: axis("Gradient steps in a round") };
  return { sets, scales, alt: "Gradient steps of slow clients with FedProx and with FedCore" };
}

// Rows of [what, from, to] as bars, with a colour for each kind of what.
function spans(rows, colours, text, labelled, max) {
  const labels = Object.keys(rows);
  const sets = Object.entries(colours).map(([what, colour]) => ({ label: what, grouped: false, barPercentage: 0.9, categoryPercentage: 1, backgroundColor: shade(colour),
    data: labels.flatMap((y) => rows[y].filter((span) => span[0] === what).map(([, from, to]) => ({ x: [from, to], y }))) })).filter((set) => set.data.length);
  const y = { type: "category", labels, ticks: { display: labelled }, grid: { display: false } };
  return { type: "bar", indexAxis: "y", sets, scales: { x: axis(text, false, { min: 0, max }), y }, alt: `${text}: ${sets.map((set) => set.label).join(", ")}` };
}

function ways(panel) {
  const rows = Object.entries(panel.ways).map(([name, lengths]) => {
    let end = 0;
    return [data.strategies[name], lengths.map(([what, count]) => [what, end, (end += count)])];
  });
  return spans(Object.fromEntries(rows), data.ways, "Clients, from slow to fast", true);
}

function timeline(panel, name) {
  const rows = {};
  for (const [row, ...span] of panel.timeline[name]) (rows[`client ${row + 1}`] ??= []).push(span);
  return spans(rows, data.doing, "Time in deadlines", false, data.shown);
}

function sizes(bins) {
  const label = ([low, high]) => (low === high ? short(low) : `${short(low)}-${short(high)}`);
  const sets = [{ label: "clients", data: bins.map((bin) => ({ x: label(bin), y: bin[2] })), backgroundColor: shade(data.colours[2]) }];
  return { type: "bar", sets, alt: "How many clients have how many samples", scales: { x: { type: "category", labels: bins.map(label) }, y: axis("Clients") } };
}

function draw(one) {
  one.chart?.destroy();
  Object.assign(Chart.defaults, { color: seen("body", "color"), borderColor: seen("nav", "borderTopColor"), animation: false, maintainAspectRatio: false });
  const { type = "scatter", sets, scales, indexAxis = "x" } = one.make();
  for (const set of sets) set.hidden = hidden.has(set.strategy);
  const interaction = { mode: "nearest", axis: type === "bar" ? "xy" : "x", intersect: type === "bar" };
  const plugins = { legend: { display: indexAxis === "y", labels: { boxWidth: 12 } } };
  one.chart = new Chart(one.canvas, { type, data: { datasets: sets }, options: { indexAxis, scales, interaction, plugins } });
}

function element(tag, parent, text = "", attributes = {}) {
  const made = parent.appendChild(document.createElement(tag));
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function place(parent, title, make) {
  const { sets, alt } = make();
  if (!sets.length) return;
  const figure = element("figure", parent);
  element("figcaption", figure, title);
  const canvas = element("canvas", element("div", figure), "", { role: "img", "aria-label": `${title}. ${alt}` });
  charts.push({ figure, canvas, make });
}

const several = new Set(data.panels.map((panel) => panel.options)).size > 1;
for (const section of document.querySelectorAll("[data-figure]")) {
  const { figure, by } = section.dataset;
  const grid = element("div", section, "", { class: "panels" });
  for (const panel of data.panels) {
    const title = panel.title + (several ? `; ${panel.options}` : "");
    if (by) place(grid, title, () => lines(panel, figure, by));
    else if (figure === "timeline") for (const name of Object.keys(panel.timeline)) place(grid, `${data.strategies[name]}: ${title}`, () => timeline(panel, name));
    else if (figure !== "sizes") place(grid, title, () => ({ times, steps, ways })[figure](panel));
  }
  for (const [name, bins] of figure === "sizes" ? Object.entries(data.sizes) : []) place(grid, name, () => sizes(bins));
  if (!grid.children.length) element("p", grid, "Not in these folders.");
}

const redraw = () => charts.filter((one) => one.chart).forEach(draw);
for (const name of names) {
  const button = element("button", document.getElementById("toggles"), data.strategies[name], { "aria-pressed": true });
  button.prepend(element("i", button, "", { style: `background: ${colourOf(name)}` }));
  button.onclick = () => {
    if (!hidden.delete(name)) hidden.add(name);
    button.setAttribute("aria-pressed", !hidden.has(name));
    redraw();
  };
}
const watch = new IntersectionObserver((entries) => {
  for (const entry of entries.filter((one) => one.isIntersecting)) {
    watch.unobserve(entry.target);
    draw(charts.find((one) => one.figure === entry.target));
  }
}, { rootMargin: "400px" });
charts.forEach((one) => watch.observe(one.figure));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
addEventListener("beforeprint", () => charts.forEach(draw));
addEventListener("afterprint", redraw);
