"""Cores, threads and GPUs: what this process may use, and what a process that it starts is told to use."""

import os
from pathlib import Path


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


def nvidia_gpus(devices: Path = Path("/dev")) -> int:
    """Return the number of NVIDIA's GPUs that this process may use, without a library of theirs.

    Args:
        devices: the folder where the driver shows each as a file.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([each for each in visible.split(",") if each.strip() not in ("", "-1")])
    return len(list(devices.glob("nvidia[0-9]*")))
