"""Ways to train a cohort: one client after another, or many side by side."""
