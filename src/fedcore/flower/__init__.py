"""FedCore on real machines: a Flower strategy and what its clients need; ``fedcore[flower]``."""
