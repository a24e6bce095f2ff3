"""One model per file; each has ``build``."""
