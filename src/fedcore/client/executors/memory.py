"""Freed memory kept for the next step instead of given back to the system.

A step of a large network allocates some megabytes and frees them. Where the C library hands them
back, the next step's first touch of every page is a fault: up to a fifth of the time.
"""

from __future__ import annotations

import ctypes
import sys

# From <malloc.h> of the GNU C library; other libraries have no such function or ignore it.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST_TRIM = 2**31 - 1  # bytes that may lie free at the end of a heap
LARGEST_MMAP = 2**25  # bytes from which a piece of memory is the system's own: the most allowed


def keep_freed_memory() -> bool:
    """Ask the C library, for the whole process, not to give memory back; whether it agreed."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    mallopt.argtypes, mallopt.restype = [ctypes.c_int, ctypes.c_int], ctypes.c_int
    kept = mallopt(M_TRIM_THRESHOLD, LARGEST_TRIM), mallopt(M_MMAP_THRESHOLD, LARGEST_MMAP)
    return all(kept)
