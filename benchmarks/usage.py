"""What a process and all that it started use, as Linux tells it: the CPU time and the memory of a server."""

import os
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100  # a second
# Fields of /proc/PID/stat, counted behind the name, which may hold spaces; proc(5).
_PARENT, _SESSION = 1, 3
_CPU = slice(11, 15)  # utime, stime, and those of children that have ended and were waited for


def tree(pid: int) -> set[int]:
    """Returns the process, those of the session that it leads and the descendants of all of them."""
    return {*_tree(pid)}


def cpu_seconds(pid: int) -> float:
    """Returns the CPU time that a process and its tree have taken, in seconds; in steps of a hundredth."""
    return sum(sum(map(int, fields[_CPU])) for fields in _tree(pid).values()) / _TICKS


def anonymous_bytes(pid: int) -> int:
    """Returns RssAnon of a process and its tree, in bytes: what no other process shares."""
    return sum(map(_rss_anon, _tree(pid)))


def _tree(pid: int) -> dict[int, list[str]]:
    """The fields of each process of the tree."""
    everyone = {}
    for path in PROC.glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            everyone[int(path.parent.name)] = path.read_text("utf-8", "replace").rpartition(")")[2].split()
    found = {member for member, fields in everyone.items() if pid in (member, int(fields[_SESSION]))}
    while more := {m for m, fields in everyone.items() if int(fields[_PARENT]) in found} - found:
        found |= more
    return {member: everyone[member] for member in found}


def _rss_anon(pid: int) -> int:
    with suppress(OSError):
        for line in (PROC / str(pid) / "status").read_text("utf-8", "replace").splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return 0
