"""The machine's own rate: a large matrix product in TensorFlow."""

from typing import Any

from benchmarks.prepared import Prepared

SIZE = 2048  # rows and columns: three matrices of 16 MB, beyond most caches


def build(fields: dict[str, Any]) -> Prepared:
    """Build the product of two square matrices in `fields["dtype"]`."""
    import tensorflow as tf

    drawn = (tf.random.stateless_normal([SIZE, SIZE], (0, seed)) for seed in (1, 2))
    left, right = (tf.cast(x, fields["dtype"]) for x in drawn)
    return Prepared(run=lambda: tf.matmul(left, right), warm=lambda: tf.matmul(left[:8], right))
