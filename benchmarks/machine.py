"""The machine and the versions that figures were taken with."""

import os
import platform
import subprocess
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from keras_selfattn import __version__

_PACKAGES = (
    "tensorflow",
    "keras",
    "keras-hub",
    "numpy",
    "scikit-learn",
    "jax",
    "torch",
    "ctranslate2",
    "transformers",
    "sentence-transformers",
    "openvino",
    "onnxruntime",
    "grpcio",
    "fastapi",
    "ray",
)
_MODEL = "model name"


def cores() -> int:
    """Return the number of cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine() -> str:
    """Return the processor, the number of its cores that may be used, and the GPUs of NVIDIA, if any."""
    return ", ".join([f"{_processor()}, {cores()} of {os.cpu_count()} cores", *_gpus()])


def versions() -> str:
    """Return Python's version and those of the packages that are installed, on one line."""
    found = [f"Python {platform.python_version()}", f"keras-selfattn {__version__}"]
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found.append(f"{name} {metadata.version(name)}")
    return ", ".join(found)


def _gpus() -> list[str]:
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in found.stdout.splitlines() if line.strip()]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith(_MODEL)]
    return models[0] if models else platform.machine()
