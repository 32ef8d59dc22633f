"""Return freed memory to the system, and exclude loaded objects from Python's garbage collection."""

import ctypes
import gc
import sys

_ARENA_MAX = -8  # of malloc.h
# During requests each load leaves some 7 KB; a full collection takes 0.1 s, in which nothing else runs.
_LOADS_BETWEEN_LOOKS = 64


def give_memory_back() -> None:
    """Make the C library return freed memory, most of which it would keep, after a load or an unload.

    Reference: malloc_trim(3); systems other than Linux with glibc do so by themselves, or cannot.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def limit_arenas(count: int) -> None:
    """Limit the number of the C library's arenas from now on; its default is eight for each CPU.

    Each arena keeps some of its freed memory, and loaded versions spread over more and more of them. The
    limit has no effect on existing arenas, and none on systems other than Linux with glibc.

    Reference: M_ARENA_MAX in mallopt(3).
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_ARENA_MAX, count)


class LoadedObjects:
    """Exclude loaded objects from Python's garbage collector: call `keep` after each load.

    For a process that only serves. Every few thousand requests the collector would walk through the objects
    of TensorFlow's Python: nothing else runs for 60 ms, or with the whole API for a quarter of a second.

    Reference: gc.freeze.
    """

    def __init__(self) -> None:
        self._loads = 0

    def keep(self) -> None:
        """Exclude all current objects from the collector, and give freed memory back.

        This includes objects of running requests, whose garbage would stay for ever, so after every few loads
        a full collection runs.
        """
        self._loads += 1
        if self._loads % _LOADS_BETWEEN_LOOKS == 0:
            gc.unfreeze()
        gc.collect()
        gc.freeze()
        give_memory_back()
