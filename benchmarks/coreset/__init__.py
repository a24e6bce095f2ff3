"""The k-medoids solver against a distance matrix and the public FasterPAM."""
