"""Few shapes of batches for a backend that compiles a step anew for each shape, as JAX does.

All decisions on shapes are here and in `length_sorted.py`. On TensorFlow and PyTorch each batch is as long
as its longest row.
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

# The most lengths of batches. With a shorter last batch each, the steps of a training, of its validation and
# of its predictions are compiled at most 4, 3 and 2 times.
_TRAINED, _MEASURED = 3, 2
# Another length must save this share of all positions: compiling a step takes seconds.
_WORTH = 0.05
# Candidates for lengths.
_CANDIDATES = 128

# Rows that are batched together, and the number of rows in a batch.
Group = tuple[np.ndarray, int]


def compiles_each_shape() -> bool:
    """Return True if Keras' backend compiles a step for each shape of its inputs."""
    return keras.backend.backend() == "jax"


def lengths_allowed(*, training: bool = False) -> int | None:
    """Return the most lengths of the batches of a data set; None if each batch can have its own."""
    if not compiles_each_shape():
        return None
    return _TRAINED if training else _MEASURED


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of arrays, compiled as a whole where otherwise each operation would be compiled."""
    if not compiles_each_shape():
        return function
    import jax  # pyright: ignore[reportMissingImports]

    return jax.jit(function)


def few_lengths(lengths: np.ndarray, most: int) -> list[int]:
    """Return at most `most` lengths, ascending, to which rows are padded with the fewest positions.

    Args:
        lengths: of the rows, int `[rows]`, at least one row.
        most: at least 1.

    Example:

        >>> few_lengths(np.array([1, 2, 2, 9, 10]), 2)
        [2, 10]
    """
    sizes, counts = np.unique(np.maximum(lengths, 1), return_counts=True)
    if len(sizes) > _CANDIDATES:
        ends = np.unique(np.linspace(0, len(sizes) - 1, _CANDIDATES).round().astype(int))
        counts = np.add.reduceat(counts, np.concatenate([[0], ends[:-1] + 1]))
        sizes = sizes[ends]
    rows = np.concatenate([[0], np.cumsum(counts)])  # rows of the first n sizes
    # Positions of the first n sizes with k lengths, the last of which is the nth size; and of the sizes from
    # the mth to the nth with one length, [n, m].
    tables, begins, chosen = [rows[1:] * sizes], [], [len(sizes)]
    of_one = (rows[1:, None] - rows[None, :-1]) * sizes[:, None]
    for _ in range(most - 1):
        tried = np.concatenate([[0], tables[-1]])[None, :-1] + of_one
        tried = np.where(np.tri(len(sizes), dtype=bool), tried, np.iinfo(np.int64).max)
        begins.append(tried.argmin(axis=1))
        tables.append(tried.min(axis=1))
        if tables[-1][-1] > (1 - _WORTH) * tables[-2][-1]:
            del begins[-1], tables[-1]
            break
    for begin in reversed(begins):
        if chosen[-1]:
            chosen.append(int(begin[chosen[-1] - 1]))
    return sorted(int(sizes[end - 1]) for end in chosen if end)


def few_groups(groups: Sequence[Group], lengths: np.ndarray) -> list[Group]:
    """Return at most two groups, the shorter rows first, only the last of which has an incomplete batch.

    Args:
        groups: rows of ascending lengths, with descending numbers of rows in a batch.
        lengths: of all rows, int `[rows]`.
    """
    cuts = [_joined(groups[:cut]) + _joined(groups[cut:]) for cut in range(len(groups))]
    best = min(cuts, key=lambda each: sum(-(-len(rows) // size) for rows, size in each))
    if len(best) == 1:
        return best
    (short, size), (long, least) = best
    short = short[np.argsort(lengths[short], kind="stable")]
    kept = len(short) - len(short) % size
    last = (np.concatenate([short[kept:], long]), least)
    return [(np.sort(short[:kept]), size), last] if kept else [last]


def _joined(groups: Sequence[Group]) -> list[Group]:
    """Return one group with the rows of several, and the fewest rows in a batch; none of none."""
    if not groups:
        return []
    return [(np.concatenate([rows for rows, _ in groups]), min(size for _, size in groups))]


class FewLengths:
    """The lengths of the batches of rows.

    Args:
        groups: of the rows, from `few_groups`.
        lengths: of all rows, int `[rows]`.
        most: the most lengths.
    """

    def __init__(self, groups: Sequence[Group], lengths: np.ndarray, most: int) -> None:
        *short, (long, self._least) = groups
        self._lengths = few_lengths(lengths[long], 1 if short else most)
        for rows, _ in short:
            self._lengths = few_lengths(lengths[rows], max(1, most - 1)) + self._lengths

    def of(self, lengths: np.ndarray) -> int:
        """Return the length of a batch of rows of these lengths; an incomplete batch has the greatest one."""
        if len(lengths) < self._least:
            return self._lengths[-1]
        return next(each for each in self._lengths if each >= lengths.max())
