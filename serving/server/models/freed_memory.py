"""Memory that was freed, given back to the system; and what stays, out of Python's way."""

import ctypes
import gc
import sys

_ARENA_MAX = -8  # of malloc.h
# Under load each leaves some 7 KB; a look takes 0.1 s, in which nothing else runs.
_LOADS_BETWEEN_LOOKS = 64


def give_memory_back() -> None:
    """Have the C library return what an unloaded model held: by itself it keeps most of it for later.

    Reference: malloc_trim(3); other systems than Linux with glibc do so by themselves, or cannot.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def limit_arenas(count: int) -> None:
    """Have threads share so many of the C library's arenas from now on; by itself it makes eight a CPU.

    Each keeps some of what was freed in it: every version that is loaded spreads over more of them, until all
    have been used. Has no effect on arenas that there are, nor elsewhere than on Linux with glibc.

    Reference: M_ARENA_MAX in mallopt(3).
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_ARENA_MAX, count)


class LoadedObjects:
    """Loaded objects, which Python's garbage collector passes over: call `keep` after each load.

    For a process that only serves: what TensorFlow's Python holds takes the collector 60 ms to walk through,
    with its whole API a quarter of a second, in which nothing else runs, every few thousand requests.

    Reference: gc.freeze.
    """

    def __init__(self) -> None:
        self._loads = 0

    def keep(self) -> None:
        """Have the collector pass over all that there is now.

        That includes what requests are using at that moment, whose garbage would stay for ever: every so many
        loads all is looked at.
        """
        self._loads += 1
        if self._loads % _LOADS_BETWEEN_LOOKS == 0:
            gc.unfreeze()
        gc.collect()
        gc.freeze()
