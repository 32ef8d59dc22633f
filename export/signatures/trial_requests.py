"""Requests to try, warm up and describe a signature: made-up values, in batches of several sizes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_selfattn.models.batches.length_sorted import padded

Request = dict[str, np.ndarray]

TEXTS = ("good film", "What a film!", "", "Ünknown ☃ 日本語 text.", "one two three four five six seven " * 5)


def in_batches(rows: Request) -> list[Request]:
    """Return rows as requests of several sizes: the first row, none, a few, and 32 at most."""
    sizes = (slice(1), slice(0), slice(1, 6), slice(32))
    return [{name: values[size] for name, values in rows.items()} for size in sizes]


def as_one_array(rows: Any) -> Any:
    """Return a list of arrays as one, each padded to the longest with NaN or 0; anything else unchanged."""
    several = isinstance(rows, list | tuple) and rows and all(isinstance(row, np.ndarray) for row in rows)
    return padded(rows) if several else rows


def made_up(specs: dict[str, Any]) -> list[Request]:
    """Return requests for inputs of which only dtype and shape are known."""
    random = np.random.default_rng(0)
    return [
        {name: _made_up(spec, batch, length, random) for name, spec in specs.items()}
        for batch, length in ((1, 7), (0, 7), (3, 4), (8, 19))
    ]


def _made_up(spec: Any, batch: int, length: int, random: np.random.Generator) -> np.ndarray:
    shape = [batch, *(length if size is None else size for size in spec.shape[1:])]
    if spec.dtype == tf.string:
        return random.choice(strings(TEXTS), size=shape)
    if spec.dtype.is_floating:
        return random.normal(size=shape).astype(spec.dtype.as_numpy_dtype)
    # Valid ids for any embedding.
    return random.integers(0, 2, size=shape).astype(spec.dtype.as_numpy_dtype)


def strings(texts: Sequence[str]) -> np.ndarray:
    """Return texts as UTF-8 in an array of objects."""
    found = np.empty(len(texts), dtype=object)
    found[:] = [text.encode() for text in texts]
    return found
