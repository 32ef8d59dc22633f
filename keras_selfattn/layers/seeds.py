"""Different seeds for the parts of a layer, from its user's one seed; and draws that repeat."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
from keras import ops

Tensor = Any


def split_seed(seed: int | None, parts: int) -> list[int | None]:
    """Return a different seed for each part; equal seeds would give equal weights and equal dropout.

    Args:
        seed: any integer that is not negative, or None for random parts.
        parts: how many.

    Example:

        >>> len(set(split_seed(2**40, 3)))
        3
    """
    if seed is None:
        return [None] * parts
    # Half of the 32 bits' range: Keras puts seeds into an int32 where TensorFlow asks for one.
    return [int(state) // 2 for state in np.random.SeedSequence(seed).generate_state(parts)]


class SeedDraws(keras.random.SeedGenerator):
    """A seed generator whose next draw can be held, so that code that runs twice drops the same elements."""

    _held: Tensor = None

    def next(self, ordered: bool = True) -> Tensor:
        return super().next(ordered) if self._held is None else self._held

    @contextmanager
    def holding(self, draw: Tensor) -> Iterator[None]:
        """Inside, `next` returns `draw` and the state stays as it is."""
        before, self._held = self._held, draw
        try:
            yield
        finally:
            self._held = before


def part_of_draw(draw: Tensor, number: Tensor) -> Tensor:
    """Return the draw for one part of a tensor that is dropped in parts; `number` is the part's first row.

    On TensorFlow and JAX it is the given draw: there every row has bits of its own anyway.
    """
    if keras.backend.backend() != "torch":
        return draw
    return draw + ops.cast(ops.stack([number, ops.zeros_like(number)]), draw.dtype)
