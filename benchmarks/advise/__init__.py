"""Whether the deadline that is advised needs the time that was predicted."""
