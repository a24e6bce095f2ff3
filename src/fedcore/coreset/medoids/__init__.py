"""The k-medoids solver; ``solve.solve`` is the door."""
