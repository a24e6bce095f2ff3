"""The convergence theorem (section 5, Theorem A.7) on a convex problem: docs/theory.md."""

from fedcore.theory.constants import Constants
from fedcore.theory.measured import Bound, bound
from fedcore.theory.problem import Problem, logistic, ridge

__all__ = ["Bound", "Constants", "Problem", "bound", "logistic", "ridge"]
