"""The peak of a process' memory, and a limit to it."""

import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"  # proc(5): sets the peak resident set to its current value


def peak_growth(call: Callable[[], Any]) -> int:
    """Return the bytes by which the peak of the resident set grows while `call` runs.

    If the system cannot reset the peak, an earlier, higher peak hides some of the growth.
    """
    with suppress(OSError):
        _RESET.write_text(_RESET_PEAK, encoding="ascii")
    before = _peak()
    call()
    return max(0, _peak() - before)


def limit_memory() -> None:
    """Limit this process to the memory that is free now: it fails alone, before the machine swaps."""
    available = _field(Path("/proc/meminfo"), "MemAvailable")
    if available is None:
        return
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = available if most == resource.RLIM_INFINITY else min(available, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


def _peak() -> int:
    found = _field(_STATUS, "VmHWM")
    if found is not None:
        return found
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _field(path: Path, name: str) -> int | None:
    """Return a field of a file like /proc/self/status in bytes, or None if there is no such file."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    values = [int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")]
    return values[0] if values else None
