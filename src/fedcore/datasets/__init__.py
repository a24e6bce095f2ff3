"""One dataset per file; each has ``load`` and names its benchmarks."""
