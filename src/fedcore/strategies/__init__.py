"""One strategy per file; each decides, per client, how much work on how much data."""
