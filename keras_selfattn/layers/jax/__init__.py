"""The only module of the layers that names JAX: `jax` and Pallas, or None where Keras runs on another backend."""

import functools
from typing import Any

import keras

jax: Any = None
if keras.backend.backend() == "jax":
    import jax

# Compute capability of the GPUs on which the kernels were seen to be right: Hopper, such as the H100.
_CAPABILITY = "9.0"


@functools.cache
def pallas() -> tuple[Any, Any] | None:
    """Return Pallas and its part for Triton, or None where this JAX lacks them.

    JAX 0.11 says that it will remove the part for Triton.
    """
    try:
        from jax.experimental import pallas
        from jax.experimental.pallas import triton
    except ImportError:
        return None
    return (pallas, triton) if hasattr(triton, "CompilerParams") else None


def runs_kernels_of_gpu() -> bool:
    """Return True if JAX computes by default on one GPU that the kernels are made for."""
    # XLA does not split a kernel among devices.
    if jax is None or keras.distribution.distribution() is not None:
        return False
    device = jax.config.jax_default_device or jax.devices()[0]
    return getattr(device, "compute_capability", None) == _CAPABILITY and pallas() is not None
