"""Ours against the plain loop, Flower's simulation and pfl, on the same work in one run."""
