"""Selectors of the study alone, loaded by their paths."""
