"""A Flower app whose rounds end on time."""
