"""Memory that was freed, given back to the system."""

import ctypes
import sys


def give_memory_back() -> None:
    """Has the C library return what an unloaded model held: by itself it keeps most of it for later.

    Reference: malloc_trim(3); other systems than Linux with glibc do so by themselves, or cannot.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
