"""Random bits for dropout on JAX: those of tensorflow/dropout_bits.py, which explains them.

The same seed, row and column give the same bit on both backends, in every path of attention and in a kernel.

Axes: S (columns).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from keras_selfattn.layers.jax import jax

Tensor = Any

_FIRST, _SECOND = np.uint32(0x21F0AAAD), np.uint32(0xD35A2D97)
_COLUMNS, _BYTES = 32, 4  # of a tile, and of a word


class Keys(NamedTuple):
    """Mixed numbers from which `kept` makes bits.

    rows: uint32, one for each row.
    columns: uint32 `[S]`; the four columns of a word have the same.
    tiles: uint32, one for each run of 32 columns, or one for each column.
    shifts: uint32 `[S]`, by which a column's byte comes to the top of its word.
    """

    rows: Tensor
    columns: Tensor
    tiles: Tensor
    shifts: Tensor


def keep_mask(seed: Tensor, rows: Tensor, columns: int, rate: float, first_column: Tensor = 0) -> Tensor:
    """Return bool `[*rows.shape, columns]`, see `dropout_bits.keep_mask` of TensorFlow."""
    keys = keys_of(seed, rows, jax.numpy.arange(columns, dtype="int32") + first_column)
    return kept(keys._replace(rows=keys.rows[..., None]), rate)


def keys_of(seed: Tensor, rows: Tensor, columns: Tensor) -> Keys:
    """Return the keys of rows, int32 of any shape, and of columns, int32 `[S]`, with a tile key for each."""
    seed, rows, columns = (jax.numpy.asarray(x).astype("uint32") for x in (seed, rows, columns))
    row_keys = mixed(mixed(rows ^ mixed(seed[0])) + mixed(seed[1] + np.uint32(1)))

    def of_word(words: Tensor) -> Tensor:
        return mixed(mixed(words + mixed(seed[1] + np.uint32(2))) ^ mixed(seed[0]))

    tiles = columns // _COLUMNS * (_COLUMNS // _BYTES)
    return Keys(row_keys, of_word(columns // _BYTES), mixed(of_word(tiles)), shifts(columns))


def shifts(columns: Tensor) -> Tensor:
    """Return `Keys.shifts` of the columns, int32 or uint32 `[S]`."""
    return (24 - 8 * (columns % _BYTES)).astype("uint32")


def kept(keys: Keys, rate: float) -> Tensor:
    """Return True where an element is kept, for keys that broadcast to its shape."""
    return above_level(keys, level(keys.rows, keys.tiles, rate), rate)


def above_level(keys: Keys, at: Tensor, rate: float) -> Tensor:
    """Return `kept`, given the level of each element."""
    word = stirred((keys.rows ^ keys.columns) * _FIRST, 15) * _SECOND
    # The bytes below a column's own change no comparison with a level, whose lower bytes are zero.
    drawn = word << keys.shifts
    return drawn >= at if rate <= 0.5 else drawn < at


def level(rows: Tensor, tiles: Tensor, rate: float) -> Tensor:
    """Return the level of each row and tile, uint32, in the top byte."""
    rarer = min(rate, 1 - rate)
    least = math.floor(rarer * 256)
    rest = rarer * 256 - least
    low, high = (np.uint32(each << 24) for each in (least, least + 1))
    if rest == 0:
        return low
    # TensorFlow compares with the float32 nearest to the rest.
    bound = np.uint32(math.ceil(float(np.float32(rest)) * 2**24))
    return jax.numpy.where(mixed(rows ^ tiles) >> np.uint32(8) < bound, high, low)


def mixed(x: Tensor) -> Tensor:
    """Return a bijection of uint32 in which each bit of the input changes about half of the output's."""
    x = stirred(x, 16) * _FIRST
    x = stirred(x, 15) * _SECOND
    return stirred(x, 15)


def stirred(x: Tensor, shift: int) -> Tensor:
    """Return uint32 with its upper bits added to its lower ones."""
    return x ^ (x >> np.uint32(shift))
