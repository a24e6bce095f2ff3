"""Plug-ins: one file per way to set the deadline of the next round."""
