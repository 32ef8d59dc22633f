"""Cores and threads: what this process may use, and what a process that it starts is told to use."""

import os


def thread_variables(cores: int) -> dict[str, str]:
    """Return the environment of a process that computes on so many cores, on any backend of Keras.

    It must be set before the backend is imported. On a machine with more cores each process would otherwise
    start a thread for each of them.

    Example:

        >>> thread_variables(2)["TF_NUM_INTRAOP_THREADS"]
        '2'
    """
    return {
        "TF_NUM_INTRAOP_THREADS": str(cores),
        "TF_NUM_INTEROP_THREADS": str(cores),
        "NPROC": str(cores),  # JAX's CPU client
        "OMP_NUM_THREADS": str(cores),  # PyTorch, and the linear algebra of NumPy
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_ENABLE_ONEDNN_OPTS": "1",  # as the commands have it: see `import_tensorflow`
    }


def use_cores(cores: int) -> None:
    """Set what of `thread_variables` the environment of this process leaves open."""
    for name, value in thread_variables(cores).items():
        os.environ.setdefault(name, value)


def usable_cores() -> int:
    """Return the number of cores that this process may use, which a scheduler can limit."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
