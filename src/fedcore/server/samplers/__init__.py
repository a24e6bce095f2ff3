"""Who takes part in a round (Algorithm 1, line 3): one sampler per file."""
