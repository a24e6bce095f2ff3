"""One coreset method per file; the file name is the method's name."""
