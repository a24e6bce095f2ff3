"""``fedcore bound``: the theorem's constants, its bound beside what was measured, and a plot."""

from functools import partial
from pathlib import Path

import numpy as np
import torch
from rich.progress import track

from fedcore.cli.grid import prepare
from fedcore.cli.job import console, notices
from fedcore.config import Experiment
from fedcore.errors import BadOption
from fedcore.report.plots import HEIGHT, WIDTH, canvas
from fedcore.sim.fleet import fleet_of
from fedcore.sources.clients import sizes_of
from fedcore.theory import bound, logistic
from fedcore.values import at_least

NAMES = ("measured", "recursion", "corrected", "the paper's")


def show_bound(experiment: Experiment, l2: float, paths: int, out: Path | None) -> None:
    """Measure and show it for one share of stragglers; ``out`` gets the table and a plot."""
    try:
        if out is not None:
            figure, ((axes,),) = canvas(1, 1, WIDTH, HEIGHT)  # no matplotlib: before all else
            out.mkdir(parents=True, exist_ok=True)
    except (ImportError, OSError) as error:
        raise BadOption(f"out {str(out)!r} cannot be written: {error}") from None
    at_least(2)("rounds", experiment.rounds)  # between which there is a slope
    data, seed = prepare(experiment)[experiment.seed[0]].dataset.clients, experiment.seed[0]
    pairs = (own.take(slice(None)) for own in data.values())
    flat = [(torch.cat([x.flatten(1), torch.ones(len(x), 1)], dim=1), y) for x, y in pairs]
    level, *_ = experiment.stragglers or (0.0,)
    fleet = fleet_of(sizes_of(data), experiment, level, seed)
    speeds = [client.capability for client in fleet.profiles.values()]
    show = partial(track, console=notices, transient=True, disable=not notices.is_terminal)
    asked = {n: getattr(experiment, n) for n in ("rounds", "epochs", "clients_per_round")}
    asked |= {"paths": paths, "seed": seed, "track": show}
    found = bound(logistic(flat, l2), speeds, fleet.deadline, **asked)
    of, most, rounds = found.corrected, found.paper, range(len(found.distance))
    curves = np.stack([found.distance.mean(1), *found.curves])
    later, without = rounds[len(rounds) // 2 :], of._replace(error=0.0).recursion(rounds[-1])[-1]
    slopes = np.polyfit(np.log(later), np.log(curves[:, later].T), 1)[0]
    lines = (*enumerate(curves.T), ("slope", slopes), ("times", curves[:, -1] / curves[0, -1]))
    rows = [f"{name:>5}" + (4 * " {:11.5g}").format(*values) for name, values in lines]
    options = " ".join(f"--{name} {value}" for name, value in of.schedule().items())
    a, b = of.a_1_and_a_2(), most.a_1_and_a_2(corrected=False)
    told = f"""round {" ".join(f"{name:>11}" for name in NAMES)}
{chr(10).join(rows)}
E||w - w*||² and three bounds on it; slope: log-log, later half; times: of the measured, in the end
ε's share of the recursion in the end: {100 - 100 * without / curves[1, -1]:.2g} %
l2 {l2:g}; {len(fleet.slow)} of {len(speeds)} clients are slower than τ = {fleet.deadline:.4g}
L  {of.smoothness:<9.4g} smoothness of every client's loss: an upper bound, for all w
μ  {of.convexity:<9.4g} strong convexity of every client's loss: exact, for all w
Γ  {of.heterogeneity:<9.4g} how much lower clients' own minima are: exact
D  {of.gradient:<9.4g} clients' gradients where {paths} paths went, rms; largest {most.gradient:.4g}
ε  {of.error:<9.4g} error of coresets, (1/m) ||Σ ∇L - Σ δ ∇L||, likewise; largest {most.error:.4g}
β  {of.beta():<9.4g} steps are α / (t + β), t in epochs; in any run, held over a round:
   {options.replace("_", "-")}
A_1 {a[0]:.4g}, A_2 {a[1]:.4g} corrected; A_1 {b[0]:.4g}, A_2 {b[1]:.4g} in the paper
Loss above the least: {found.gap[-1].mean():.4g}, bound {of.smoothness / 2 * curves[1, -1]:.4g}"""
    console.print(told, highlight=False, soft_wrap=True)
    if out is not None:
        (out / "bound.txt").write_text(told + "\n", encoding="utf-8")
        axes.loglog(rounds[1:], curves.T[1:], label=NAMES)
        axes.set(xlabel="Round (log)", ylabel="||w - w*||² (log)")
        axes.legend(frameon=False)
        figure.savefig(out / "bound.png")
