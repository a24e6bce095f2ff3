"""Measurements; each package is run as a module and writes to ``benchmarks/results``."""
