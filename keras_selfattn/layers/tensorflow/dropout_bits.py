"""Random bits for dropout on TensorFlow: a hash of seed, row and column, one byte for each element.

The same seed, row and column always give the same bit: a block of a matrix can be drawn again for the
gradient, and a packed token drops the same elements as in its padded batch. The hash is cheaper than the
stock generators, which spend a 32-bit number on each element, and it is fast under XLA, too.

Reference: Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3", section 2 (counter-based
generators). Constants and shifts of the hash: Hash Prospector (github.com/skeeto/hash-prospector).
"""

import functools
import math
from collections.abc import Callable
from typing import Any

from keras_selfattn.layers.tensorflow import tf

Tensor = Any

_FIRST, _SECOND = 0x21F0AAAD, 0xD35A2D97
_COLUMNS, _WORDS = 32, 8  # of a tile: four columns to the word


def keep_mask(seed: Tensor, rows: Tensor, columns: Tensor, rate: float, first_column: Tensor = 0) -> Tensor:
    """Return which elements dropout keeps: each is False with probability `rate`, to 2^-32.

    Each element's random byte is compared with a level, one of 256. If the rate is between two levels, each
    run of 32 columns of a row takes one of the two at random, so that every element's probability is exactly
    the rate. The elements of a run are then not quite independent: the variance of sums grows by 0.15 % at
    most for rates from 0.1 to 0.9, and by 8 % at 0.001.

    Args:
        seed: two integers.
        rows: int32 of any shape, the number of each row.
        columns: how many columns.
        rate: probability in (0, 1) that an element is dropped.
        first_column: the number of the first column.

    Returns:
        bool `[*rows.shape, columns]`.
    """
    rows = tf.convert_to_tensor(rows, tf.int32)
    kept = _traced(rate, len(rows.shape))(tf.cast(seed, tf.uint32), rows, columns, first_column)
    kept.set_shape([*rows.shape, columns if isinstance(columns, int) else None])
    return kept


@functools.lru_cache(maxsize=32)  # a search tries any number of rates
def _traced(rate: float, rank: int) -> Callable[..., Tensor]:
    """Return `_kept` as a graph: layers share its trace, which has some 60 operations."""
    number = tf.TensorSpec([], tf.int32)
    signature = [tf.TensorSpec([2], tf.uint32), tf.TensorSpec([None] * rank, tf.int32), number, number]
    return tf.function(lambda *drawn: _kept(*drawn, rate=rate), input_signature=signature)


def _kept(seed: Tensor, rows: Tensor, columns: Tensor, first_column: Tensor, rate: float) -> Tensor:
    row_keys = _mixed(_mixed(tf.cast(rows, tf.uint32) ^ _mixed(seed[0])) + _mixed(seed[1] + _word(1)))
    first = first_column // _COLUMNS
    tiles = tf.range(first, (first_column + columns + _COLUMNS - 1) // _COLUMNS)
    words = _WORDS * tiles[:, None] + tf.range(_WORDS)  # [tiles, 8]
    word_keys = _mixed(_mixed(tf.cast(words, tf.uint32) + _mixed(seed[1] + _word(2))) ^ _mixed(seed[0]))
    # Row keys and word keys are mixed already, so the middle part of a round is enough for each pair.
    hashed = _stirred((row_keys[..., None, None] ^ word_keys) * _word(_FIRST), 15) * _word(_SECOND)
    shape = tf.concat([tf.shape(hashed)[:-1], [_COLUMNS]], axis=0)
    drawn = tf.reshape(tf.bitcast(hashed, tf.uint8), shape)  # [*rows, tiles, 32]
    # The level is that of the rarer outcome (dropped or kept), so that it fits in a byte.
    level = _level(row_keys, word_keys[:, 0], min(rate, 1 - rate))
    kept = drawn >= level if rate <= 0.5 else drawn < level
    kept = tf.reshape(kept, tf.concat([tf.shape(rows), [-1]], axis=0))
    start = first_column - _COLUMNS * first
    return kept[..., start : start + columns]


def _level(row_keys: Tensor, tile_keys: Tensor, rate: float) -> Tensor:
    """Return the level: bytes below it have probability `rate`; uint8 `[]` or `[*rows, tiles, 1]`."""
    level = math.floor(rate * 256)
    rest = rate * 256 - level
    if rest == 0:
        return tf.constant(level, tf.uint8)
    bits = _mixed(row_keys[..., None] ^ _mixed(tile_keys))  # [*rows, tiles]
    above = tf.cast(tf.bitwise.right_shift(bits, _word(8)), tf.float32) * 2.0**-24 < rest
    # A cast and a sum: `tf.where` of two constants takes three times as long.
    return (tf.cast(above, tf.uint8) + tf.constant(level, tf.uint8))[..., None]


def _mixed(x: Tensor) -> Tensor:
    """Return a bijection of uint32 in which each bit of the input changes about half of the output's."""
    x = _stirred(x, 16) * _word(_FIRST)
    x = _stirred(x, 15) * _word(_SECOND)
    return _stirred(x, 15)


def _stirred(x: Tensor, shift: int) -> Tensor:
    return x ^ tf.bitwise.right_shift(x, _word(shift))


def _word(number: int) -> Tensor:
    return tf.constant(number, tf.uint32)
