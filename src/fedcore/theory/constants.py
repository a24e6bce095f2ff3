"""The constants of Theorem A.7 and its bound, as the paper has them and corrected (docs/theory.md).

E||w_t - w_*||² <= A_1 + A_2 / (t + β)        t = E R after R rounds of E epochs
"""

from typing import Any, NamedTuple


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
