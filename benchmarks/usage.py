"""CPU time and memory of a process and all processes it has started, as Linux reports them."""

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100  # a second
# Fields of /proc/PID/stat, counted after the name, which may contain spaces; proc(5).
_STATE, _PARENT, _SESSION = 0, 1, 3
_ENDED = "Z"  # ended, and its parent has not waited for it yet
_CPU = slice(11, 15)  # utime, stime, and those of children that have ended and were waited for


class Usage(NamedTuple):
    """Resources of one process: open descriptors, threads, and unshared memory in bytes."""

    descriptors: int
    threads: int
    anonymous: int


def usage(pid: int) -> Usage:
    """Return the resources of a process; zeros if it has ended."""
    try:
        descriptors = len(os.listdir(PROC / str(pid) / "fd"))
    except OSError:
        descriptors = 0
    return Usage(descriptors, _status(pid, "Threads"), _rss_anon(pid))


def children(pid: int) -> set[int]:
    """Return the running processes that a process has started."""
    return {member for member, fields in _everyone().items() if _is_child(fields, pid)}


def tree(pid: int) -> set[int]:
    """Return the process, the processes of the session that it leads, and all their descendants."""
    return {*_tree(pid)}


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and its tree, in steps of 0.01."""
    return sum(sum(map(int, fields[_CPU])) for fields in _tree(pid).values()) / _TICKS


def anonymous_bytes(pid: int) -> int:
    """Return RssAnon of a process and its tree, in bytes: the memory that no other process shares."""
    return sum(map(_rss_anon, _tree(pid)))


def _tree(pid: int) -> dict[int, list[str]]:
    """The fields of each process of the tree."""
    everyone = _everyone()
    found = {member for member, fields in everyone.items() if pid in (member, int(fields[_SESSION]))}
    while more := {m for m, fields in everyone.items() if int(fields[_PARENT]) in found} - found:
        found |= more
    return {member: everyone[member] for member in found}


def _everyone() -> dict[int, list[str]]:
    """The fields of every process on this machine."""
    everyone = {}
    for path in PROC.glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has ended
            everyone[int(path.parent.name)] = path.read_text("utf-8", "replace").rpartition(")")[2].split()
    return everyone


def _is_child(fields: list[str], pid: int) -> bool:
    return int(fields[_PARENT]) == pid and fields[_STATE] != _ENDED


def _rss_anon(pid: int) -> int:
    return _status(pid, "RssAnon") * 1024


def _status(pid: int, name: str) -> int:
    """A number of /proc/PID/status; 0 if the process has ended."""
    with suppress(OSError):
        for line in (PROC / str(pid) / "status").read_text("utf-8", "replace").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
    return 0
