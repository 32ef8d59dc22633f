"""The dtype that softmax, sums, angles and normalisation are computed in: never narrower than float32."""

from typing import Any

import keras


def wide_dtype(dtype: Any) -> str:
    """Return the dtype to compute in for tensors of `dtype`: float32, or float64 for float64."""
    return keras.backend.result_type(dtype, "float32")
