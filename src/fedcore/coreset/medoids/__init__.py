"""The k-medoids solver: exact on a distance matrix."""
