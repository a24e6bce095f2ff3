"""The straggler study: every method on one clock, each at its best step size."""
