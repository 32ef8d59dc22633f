"""The only module of the layers that names JAX: `jax`, None on another backend of Keras, and Pallas."""

import functools
from typing import Any

import keras

jax: Any = None
if keras.backend.backend() == "jax":
    import jax  # pyright: ignore[reportMissingImports]


def is_dimension(size: Any) -> bool:
    """Return True for a size that JAX is not told, in a graph for any size or a user's layer that is built.

    Such sizes add and multiply. What compares one with a number fails unless all sizes compare alike.
    """
    return jax is not None and not isinstance(size, int)


# Where the kernels were seen to be right: the compute capability of GPUs (Hopper, such as the H100), and the
# versions of JAX. 0.11 says that a later one will remove Pallas' part for Triton.
_CAPABILITY = "9.0"
_FIRST_VERSION, _FIRST_UNKNOWN = (0, 10), (0, 12)


@functools.cache
def pallas() -> tuple[Any, Any] | None:
    """Return Pallas and its part for Triton, or None where this JAX is not known to have them."""
    if not _FIRST_VERSION <= jax.__version_info__ < _FIRST_UNKNOWN:
        return None
    try:
        from jax.experimental import pallas  # pyright: ignore[reportMissingImports]
        from jax.experimental.pallas import triton  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    return pallas, triton


def runs_kernels_of_gpu() -> bool:
    """Return True if JAX computes by default on one GPU that the kernels are made for."""
    # XLA does not split a kernel among devices.
    if jax is None or keras.distribution.distribution() is not None:
        return False
    device = jax.config.jax_default_device or jax.devices()[0]
    return getattr(device, "compute_capability", None) == _CAPABILITY and pallas() is not None
