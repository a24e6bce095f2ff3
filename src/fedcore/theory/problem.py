"""Strongly convex federated problems, their exact optimum, and L and μ: Assumptions A.1 and A.2."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import grad
from torch.func import jacrev, vmap
from torch.nn.functional import one_hot

from fedcore.arrays import as_tensor
from fedcore.errors import BadData

EXACT = 1e-10  # largest norm of the gradient where a minimum is taken for found
MOST_PARAMETERS = 2000  # of which second derivatives are held at once
Losses = Callable[[Tensor, Tensor], Tensor]  # of scores [..., m, c] and targets [m, c]: [..., m]


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
        for number, (x, y) in enumerate(clients):
            inputs = as_tensor(f"inputs of client {number}", x).double().flatten(1)
            targets = as_tensor(f"targets of client {number}", y).double().reshape(len(inputs), -1)
            weights = inputs.new_full((len(inputs),), 1 / len(inputs))
            self.clients.append(Part(inputs, targets, weights))
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
    known = [(x, as_tensor("labels", y).long()) for x, y in clients]
    hot = [(x, one_hot(y, 1 + max(int(own.max()) for _, own in known))) for x, y in known]
    return Problem(hot, lambda z, y: torch.logsumexp(z, -1) - (z * y).sum(-1), 0.0, 0.5, l2)


def ridge(clients: Sequence[tuple[Any, Any]], l2: float = 0.01) -> Problem:
    """Half the squared error of inputs [m, p] and targets [m] or [m, c], one pair a client."""
    return Problem(clients, lambda z, y: (z - y).square().sum(-1) / 2, 1.0, 1.0, l2)
