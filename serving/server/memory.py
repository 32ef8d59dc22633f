"""Memory that was freed, given back to the system; and what stays, out of Python's way."""

import ctypes
import gc
import sys


def give_memory_back() -> None:
    """Has the C library return what an unloaded model held: by itself it keeps most of it for later.

    Reference: malloc_trim(3); other systems than Linux with glibc do so by themselves, or cannot.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def keep_from_collections() -> None:
    """Has Python's garbage collector pass over all that there is now.

    For a process that only serves: what TensorFlow's Python holds takes the collector 60 ms to walk through,
    with its whole API a quarter of a second, in which nothing else runs, every few thousand requests. Call it
    after each load.

    Reference: gc.freeze.
    """
    gc.collect()
    gc.freeze()
