"""The CPUs that this process may use, which in a container are fewer than the machine has.

Reference: docs.kernel.org/admin-guide/cgroup-v2.html, "CPU Interface Files".
"""

import math
import os
from pathlib import Path

_ROOT = Path("/")
_UNIFIED = "0::"  # begins the line of a process's group in version 2


def available_cpus(root: Path = _ROOT) -> int:
    """Return the number of CPUs: those that the system lets this process run on, or a smaller quota of time.

    Args:
        root: the folder with `proc` and `sys`.

    Example:
        >>> 1 <= available_cpus() <= os.cpu_count()
        True
    """
    return max(1, min([_allowed_cpus(), *map(math.ceil, _quotas(root))]))


def limit_tensorflow() -> None:
    """Let TensorFlow start no more threads than a quota allows, in a process that has run no graph yet.

    It counts the CPUs that the system lets the process run on, and knows no quota.
    """
    cpus = available_cpus()
    if cpus < _allowed_cpus():
        for name in ("TF_NUM_INTEROP_THREADS", "TF_NUM_INTRAOP_THREADS"):
            os.environ.setdefault(name, str(cpus))


def _allowed_cpus() -> int:
    affinity = getattr(os, "sched_getaffinity", None)  # of Linux
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _quotas(root: Path) -> list[float]:
    """Return the quotas of this process's group and of those around it, in CPUs."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    name = next((line.removeprefix(_UNIFIED) for line in lines if line.startswith(_UNIFIED)), None)
    if name is None:
        return []
    top = root / "sys/fs/cgroup"
    group = top / name.strip("/")
    return [quota for each in (group, *group.parents) if each.is_relative_to(top) for quota in _quota(each)]


def _quota(group: Path) -> list[float]:
    """Return the quota of one group in CPUs; nothing without one."""
    try:
        quota, period = (group / "cpu.max").read_text().split()
        return [] if quota == "max" else [int(quota) / int(period)]
    except (OSError, ValueError, ZeroDivisionError):
        return []
