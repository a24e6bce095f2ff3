"""The convergence theorem (section 5, Theorem A.7) on a convex problem: docs/theory.md.

Its bound, with constants as the paper has them and corrected, beside FedCore on full gradients:

    E||w_t - w_*||² <= A_1 + A_2 / (t + β)        t = E R after R rounds of E epochs
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import grad
from torch.func import jacrev, vmap
from torch.nn.functional import one_hot

from fedcore import plugins
from fedcore.arrays import as_labels, as_samples
from fedcore.coreset.api import select_coreset
from fedcore.errors import BadData, BadOption
from fedcore.types import ClientProfile
from fedcore.values import above_zero

Floats = NDArray[np.float64]
Budgets = list[list[int]]  # samples of each client's epochs: m^i all, b^i a coreset, 0 no step
Losses = Callable[[Tensor, Tensor], Tensor]  # of scores [..., m, c] and targets [m, c]: [..., m]
EXACT = 1e-10  # largest norm of the gradient where a minimum is taken for found
MOST_PARAMETERS = 2000  # of which second derivatives are held at once


class Constants(NamedTuple):
    """What the theorem assumes of a problem and a run, and what follows."""

    smoothness: float  # L, of every L^i
    convexity: float  # μ, of every L^i
    # Largest in the paper. Corrected, roots of mean squares by p^i and paths, at the worst step:
    gradient: float  # D: norm of a client's gradient, on all its samples or on its coreset
    heterogeneity: float  # Γ = L(w_*) - Σ p^i min L^i
    error: float  # ε: (1/m) ||Σ_j ∇L_j - Σ_k δ_k ∇L_k||, absolute
    distance: float  # E||w_0 - w_*||²
    epochs: int  # E
    clients: int  # K, drawn for a round

    def alpha(self) -> float:
        """α = 2 / μ."""
        return 2 / self.convexity

    def beta(self) -> float:
        """β = max(E, 8 L / μ): η_0 is at most 1 / (4 L), and η halves in no round."""
        return max(self.epochs, 8 * self.smoothness / self.convexity)

    def step(self, t: Any) -> Any:
        """η_t = α / (t + β), with t counted in epochs from 0."""
        return self.alpha() / (t + self.beta())

    def schedule(self) -> dict[str, Any]:
        """Options of any run for η_t held over a round: η_0 / (1 + v E / β) from version v."""
        decay = self.epochs / self.beta()
        return {"learning_rate": self.step(0), "schedule": "inverse-time", "schedule_decay": decay}

    def a_5(self, kappa: float = 4.0) -> float:
        """A_5 = κ E² D² / K + A_4, A_4 = 2 κ (E-1)² D² + 6 L Γ + ε² + 2 ε D; the paper's κ is 4."""
        drawn = kappa * (self.epochs * self.gradient) ** 2 / self.clients  # Lemma A.9
        drift = 2 * kappa * ((self.epochs - 1) * self.gradient) ** 2  # clients part in a round
        wrong = self.error**2 + 2 * self.error * self.gradient
        return drawn + drift + 6 * self.smoothness * self.heterogeneity + wrong

    def a_1_and_a_2(self, *, corrected: bool = True) -> tuple[float, float]:
        """A_1 = 2 ε D / μ² and A_2 = max(β E||w_0 - w_*||², 4 A_5 / μ²).

        Corrected: A_1 = ε² / (c (1 - c) μ²), A_2 = max(β E||w_0 - w_*||², 4 A_5 / ((1 - 2 c) μ²))
        with κ = (1 + (E - 1) / β)² and c = 1/4, or 0 where there is no error.
        """
        beta, square = self.beta(), self.convexity**2
        floor, kappa, c = 2 * self.error * self.gradient / square, 4.0, 0.0
        if corrected:
            kappa, c = (1 + (self.epochs - 1) / beta) ** 2, 1 / 4 if self.error else 0.0
            floor = self.error**2 / (c * (1 - c) * square) if c else 0.0
        return floor, max(beta * self.distance, 4 * self.a_5(kappa) / ((1 - 2 * c) * square))

    def recursion(self, rounds: int) -> list[float]:
        """Δ_{t+1} = (1 - (1 - c) η μ) Δ_t + η ε²/(c μ) + η² A_5, by the epochs since a draw."""
        kappa, c = (1 + (self.epochs - 1) / self.beta()) ** 2, 1 / 4 if self.error else 0.0
        lost, found = self.a_1_and_a_2()[0] * (1 - c) * self.convexity, [self.distance]
        for t in range(rounds * self.epochs):
            eta, so_far = self.step(t), self._replace(epochs=t % self.epochs + 1)
            kept = (1 - (1 - c) * eta * self.convexity) * found[-1]
            found.append(kept + eta * lost + eta**2 * so_far.a_5(kappa))
        return found[:: self.epochs]

    def distance_bound(self, t: Any, *, corrected: bool = True) -> Any:
        """A_1 + A_2 / (t + β), on E||w_t - w_*||²."""
        floor, falling = self.a_1_and_a_2(corrected=corrected)
        return floor + falling / (t + self.beta())

    def loss_bound(self, t: Any, *, corrected: bool = True) -> Any:
        """L/2 times it, on E[L(w_t) - L(w_*)]."""
        return self.smoothness / 2 * self.distance_bound(t, corrected=corrected)


class Part(NamedTuple):
    """Samples whose weights sum to one: all of a client's, its coreset, or everybody's."""

    inputs: Tensor  # [m, p]
    targets: Tensor  # [m, c]
    weights: Tensor  # [m]: 1 / m, or δ / m


class Problem:
    """L = Σ p^i L^i, L^i(w) = (1/m^i) Σ_j l(x_j w, y_j) + l2/2 ||w||², for w [p, c] in float64."""

    def __init__(
        self, clients: Sequence[Any], losses: Losses, low: float, high: float, l2: float = 0.01
    ) -> None:
        """Clients' inputs [m, p] and targets [m] or [m, c]; l'' by scores is low I to high I."""
        self.clients, self.losses, self.l2 = [], losses, l2
        for number, pair in enumerate(clients):
            data = as_samples(f"client {number}", pair, torch.float64, classes=False)
            inputs, targets = (part.double().reshape(len(data), -1) for part in (data.x, data.y))
            self.clients.append(Part(inputs, targets, inputs.new_full((len(data),), 1 / len(data))))
            if not bool(torch.isfinite(inputs).all()) or len(inputs.T) != len(self.clients[0][0].T):
                raise BadData(f"inputs of client {number} must be finite, as many as client 0's")
        if not self.clients:
            raise BadData("clients must hold at least one client, got none")
        self.shape = inputs.shape[1], targets.shape[1]
        if (size := self.shape[0] * self.shape[1]) > MOST_PARAMETERS:
            most = f"w_* is solved for up to {MOST_PARAMETERS:,}; take fewer features"
            raise BadData(f"the model has {size:,} parameters, and {most}")
        x, y = (torch.cat([part[n] for part in self.clients]) for n in (0, 1))
        self.everybody = Part(x, y, x.new_full((len(x),), 1 / len(x)))
        self.shares = x.new_tensor([len(part.inputs) / len(x) for part in self.clients])  # p^i
        grams = (part.inputs.T @ part.inputs / len(part.inputs) for part in self.clients)
        spectra = torch.stack([torch.linalg.eigvalsh(gram).clamp(min=0) for gram in grams])
        self.smoothness = high * float(spectra.max()) + l2  # L: an upper bound, for all w
        self.convexity = low * float(spectra.min()) + l2  # μ: a lower bound, for all w

    def value(self, part: Part, w: Tensor) -> Tensor:
        """Σ weight_j l_j + l2/2 ||w||² at each w of [..., p, c]."""
        losses = self.losses(part.inputs @ w, part.targets) @ part.weights
        return losses + self.l2 / 2 * w.square().sum((-2, -1))

    def gradient(self, part: Part, w: Tensor) -> Tensor:
        """Its gradient: G_t^i of all samples of a client, g_t^i of its coreset."""
        scores = torch.einsum("mp,...pc->...mc", part.inputs, w).requires_grad_()  # @ takes twice
        residuals = grad((self.losses(scores, part.targets) @ part.weights).sum(), scores)[0]
        return torch.einsum("mp,...mc->...pc", part.inputs, residuals) + self.l2 * w

    def hessian(self, part: Part, w: Tensor) -> Tensor:
        """Its second derivatives [p c, p c], at one w [p, c]."""
        second = vmap(jacrev(jacrev(lambda z, y: self.losses(z[None], y[None])[0])))
        curved = second(part.inputs @ w, part.targets) * part.weights[:, None, None]
        x, of = part.inputs, "mp,mb,mq->pqb"  # a class at a time: all at once take much memory
        found = torch.stack([torch.einsum(of, x, rows, x) for rows in curved.unbind(1)], dim=1)
        return found.reshape(w.numel(), -1) + self.l2 * torch.eye(w.numel()).double()

    def minimiser(self, part: Part) -> Tensor:
        """Where the gradient's norm is below 1e-10: Newton, steps halved until the norm falls."""
        w = torch.zeros(self.shape).double()
        gradient = self.gradient(part, w)
        while (norm := float(gradient.norm())) >= EXACT:
            towards = torch.linalg.solve(self.hessian(part, w), gradient.flatten()).view_as(w)
            length = 1.0
            while not (after := self.gradient(part, w - length * towards)).norm() < norm:
                length /= 2
                if length < EXACT:
                    stays = f"no minimum was found, the gradient's norm stays at {norm:.1e}"
                    raise BadData(f"{stays}; see whether the loss is convex and smooth")
            w, gradient = w - length * towards, after
        return w


def logistic(clients: Sequence[tuple[Any, Any]], l2: float = 0.01) -> Problem:
    """Cross-entropy of inputs [m, p] and labels 0, 1, ... [m], one pair a client."""
    known = [(x, as_labels("labels", y)) for x, y in clients]
    hot = [(x, one_hot(y, 1 + max(int(own.max()) for _, own in known))) for x, y in known]
    return Problem(hot, lambda z, y: torch.logsumexp(z, -1) - (z * y).sum(-1), 0.0, 0.5, l2)


def ridge(clients: Sequence[tuple[Any, Any]], l2: float = 0.01) -> Problem:
    """Half the squared error of inputs [m, p] and targets [m] or [m, c], one pair a client."""
    return Problem(clients, lambda z, y: (z - y).square().sum(-1) / 2, 1.0, 1.0, l2)


class Bound(NamedTuple):
    """A bound and the runs it is about, at every synchronisation from t = 0."""

    paper: Constants  # D and ε: the largest met
    corrected: Constants  # D and ε: roots of mean squares, at the worst step
    budgets: Budgets
    distance: Floats  # [R + 1, paths] ||w - w_*||²
    gap: Floats  # [R + 1, paths] L(w) - L(w_*)
    curves: Floats  # [3, R + 1] bounds on the mean: recursion, corrected, the paper's


def budgets_of(problem: Problem, speeds: Sequence[float], deadline: float, epochs: int) -> Budgets:
    """What the strategy ``fedcore`` plans for every client, epoch by epoch."""
    plan, found = plugins.load("strategy", "fedcore").build().plan, []
    for part, speed in zip(problem.clients, speeds, strict=True):
        size = len(part.inputs)
        phases = plan(ClientProfile(size, speed), deadline, epochs).phases
        each = ((p.coreset.budget if p.coreset else size, p.epochs) for p in phases)
        own = [budget for budget, times in each for _ in range(times)]
        found.append((own + epochs * [0])[:epochs])
    return found


def part_of(part: Part, budget: int) -> Part | None:
    """Everything, nothing, or the k-medoids of the inputs, the same in all rounds (section 4.3)."""
    if budget in (0, len(part.inputs)):
        return part if budget else None
    chosen = select_coreset(part.inputs, budget)
    weights = chosen.weights.double() / len(part.inputs)
    return Part(part.inputs[chosen.indices], part.targets[chosen.indices], weights)


def run(
    problem: Problem, budgets: Budgets, steps: Floats, draws: NDArray[np.int_], track: Any = iter
) -> tuple[Tensor, Tensor]:
    """All clients step from 0 by η_t of ``steps`` [R, E]; ``draws`` [paths, R, K] are averaged."""
    mean, largest = torch.zeros(2, 3).double()
    pairs = list(zip(problem.clients, budgets, strict=True))
    parts = [{size: part_of(part, size) for size in set(own)} for part, own in pairs]
    models = [torch.zeros(len(draws), *problem.shape).double()]
    for number, etas in enumerate(track(steps.tolist())):
        local = [models[-1]] * len(pairs)
        for epoch, eta in enumerate(etas):
            norms = []
            for i, (everything, own) in enumerate(pairs):
                exact = taken = problem.gradient(everything, local[i])
                part = parts[i][own[epoch]]
                if part is not everything:
                    taken = 0 * exact if part is None else problem.gradient(part, local[i])
                norms.append(torch.stack([exact, taken, exact - taken]).square().sum((-2, -1)))
                local[i] = local[i] - eta * taken
            squares = torch.stack(norms)  # [clients, 3, paths]
            mean = torch.maximum(mean, problem.shares @ squares.mean(2))
            largest = torch.maximum(largest, squares.amax((0, 2)))
        drawn = torch.from_numpy(draws[:, number].T)
        models.append(torch.stack(local)[drawn, torch.arange(len(draws))].mean(0))
    # [R + 1, paths, p, c]; norms of G, g and G - g [2, 3]: worst root of a mean square, largest
    return torch.stack(models), torch.stack([mean, largest]).sqrt()


def bound(
    problem: Problem,
    speeds: Sequence[float],
    deadline: float,
    *,
    epochs: int = 10,
    rounds: int = 50,
    clients_per_round: int = 10,
    paths: int = 5,
    seed: int = 0,
    track: Any = iter,
) -> Bound:
    """Run full-gradient FedCore on a convex problem, and put the theorem's bound beside it.

    Client i trains c^i of ``speeds`` samples a second; whom τ, the ``deadline``, is too short for
    trains on a coreset. ``paths`` differ in who is drawn; ``track`` is as rich's.
    """
    if len(speeds) != len(problem.clients):
        raise BadOption(f"speeds must be {len(problem.clients)}, one a client, got {len(speeds)}")
    for number in (*speeds, deadline, problem.convexity, epochs, rounds, clients_per_round, paths):
        above_zero("each of speeds, deadline, l2, epochs, rounds, clients_per_round, paths", number)
    optimum = problem.minimiser(problem.everybody)
    own = [float(problem.value(part, problem.minimiser(part))) for part in problem.clients]
    least, shares = problem.value(problem.everybody, optimum), problem.shares.numpy()
    gamma = max(float(least) - float(np.dot(shares, own)), 0.0)
    known, start = (problem.smoothness, problem.convexity), float(optimum.square().sum())
    of = Constants(*known, 0.0, gamma, 0.0, start, epochs, clients_per_round)
    steps = of.step(np.arange(rounds * epochs).reshape(rounds, epochs))
    budgets = budgets_of(problem, speeds, deadline, epochs)
    size = paths, rounds, clients_per_round
    draws = np.random.default_rng(seed).choice(len(shares), size, p=shares)
    models, norms = run(problem, budgets, steps, draws, track)
    usual, most = (of._replace(gradient=max(row[:2]), error=row[2]) for row in norms.tolist())
    distance = (models - optimum).square().sum((-2, -1)).numpy()
    gap = torch.stack([problem.value(problem.everybody, w) for w in models]) - least
    t = epochs * np.arange(rounds + 1)
    closed = usual.distance_bound(t), most.distance_bound(t, corrected=False)
    curves = np.array([usual.recursion(rounds), *closed])
    return Bound(most, usual, budgets, distance, gap.numpy(), curves)
