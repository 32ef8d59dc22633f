"""Batches of raw rows from `tf.data`, generators, `keras.utils.PyDataset` and PyTorch's `DataLoader`."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.rows.containers import TableRows, ordered_rows


class RawBatch(NamedTuple):
    """Raw rows, their targets or None, and their weights or None."""

    inputs: Any
    targets: Any = None
    weights: Any = None


class BatchSource:
    """Batches of raw rows, in the user's own composition, that can be read once for each epoch.

    A generator can be read only once: `keep` holds its batches in memory.

    Args:
        x: a `tf.data.Dataset`, a `keras.utils.PyDataset`, a `torch.utils.data.DataLoader`, or a generator of
            batches. A batch is rows, or a tuple of rows, targets and, if any, weights.
        name: the argument that it came in, for messages.
        given_rows: returns the rows of a batch, such as of a table, as a list or an array.

    Raises:
        DataError: for a generator that ends at once.
    """

    def __init__(self, x: Any, name: str = "x", given_rows: Callable[[Any], Any] = ordered_rows) -> None:
        self._source, self._name, self._given_rows = x, name, given_rows
        self._kept: list[Any] | None = None
        # The batches of a generator after the kept ones.
        self._rest: Iterator[Any] = iter(())
        # True if some of those were read: they cannot be read again.
        self._gone = False
        if hasattr(x, "__next__"):
            self._kept = list(itertools.islice(x, 1))
            self._rest = x
            if not self._kept:
                raise self._empty(" A generator that was read before is at its end: make a new one.")

    @property
    def first_inputs(self) -> Any:
        """Something of the kind of the first batch's inputs, to see if they are raw rows."""
        if isinstance(self._source, tf.data.Dataset):
            spec: Any = self._source.element_spec
            spec = spec[0] if isinstance(spec, tuple) else spec
            dtype = getattr(spec, "dtype", None)
            if dtype is None:
                return spec
            # With a row: an array without any is raw rows of each kind.
            return np.empty(1, object if dtype == tf.string else dtype.as_numpy_dtype)
        return next(self._unread_batches(None)).inputs

    def keep(self, steps: int | None) -> None:
        """Hold the batches of a generator, so that they can be read again; with `steps`, so many of them.

        Raises:
            ConfigError: for a source without an end, unless `steps` is given.
        """
        endless = isinstance(self._source, keras.utils.PyDataset) and self._source.num_batches is None
        if isinstance(self._source, tf.data.Dataset):
            endless = int(self._source.cardinality()) == tf.data.INFINITE_CARDINALITY
        if endless and steps is None:
            raise ConfigError(
                f"`{self._name}` has no end. Give `steps_per_epoch` or, for validation, `validation_steps`; "
                "in `predict` and `evaluate`, `steps`."
            )
        if self._kept is not None:
            more = None if steps is None else max(0, steps - len(self._kept))
            self._kept += itertools.islice(self._rest, more)

    def batches(self, order: Callable[[int], Any] | None = None) -> Iterator[RawBatch]:
        """Yield each batch, checked for its form.

        Args:
            order: returns the order of so many batches, for sources that can be read in any.

        Raises:
            DataError: for no batch at all, for single rows instead of batches, and for a generator that is to
                be read again after batches that were not kept.
        """
        for batch in self._unread_batches(order):
            yield batch._replace(inputs=self._given_rows(batch.inputs))

    def _unread_batches(self, order: Callable[[int], Any] | None) -> Iterator[RawBatch]:
        """Yield each batch, with inputs as the source has them."""
        number = -1
        for number, batch in enumerate(self._elements(order)):
            yield _as_batch(self._name, number, batch)
        if number < 0:
            raise self._empty("")

    def rows(self, steps: int | None = None) -> RawBatch:
        """Return the rows of all batches, or of the first `steps`, as lists; a generator's are then kept.

        Raises:
            ConfigError: for a source without an end, unless `steps` is given.
            DataError: if some batches have targets or weights, and others have none; or if their targets are
                tables of different columns.
        """
        self.keep(steps)
        found: tuple[list[Any], ...] = ([], [], [])
        number = 0
        for batch in itertools.islice(self.batches(), steps):
            number += 1
            for column, values in zip(found, batch, strict=True):
                column.extend([] if values is None else [values])
        for name, column in (("targets", found[1]), ("weights", found[2])):
            if column and len(column) != number:
                raise DataError(
                    f"{len(column)} of the {number} batches of `{self._name}` have {name}. Give all of them "
                    "some, or none."
                )
        inputs, targets, weights = (self._joined(column) for column in found)
        return RawBatch(inputs, targets if found[1] else None, weights if found[2] else None)

    def _joined(self, batches: list[Any]) -> list[Any]:
        """Return the rows of batches as one list; of tables as `TableRows`."""
        rows = list(itertools.chain.from_iterable(map(_rows_of, batches)))
        columns = [list(getattr(values, "columns", ())) for values in batches]
        if not any(columns):
            return rows
        if columns.count(columns[0]) != len(columns):
            raise DataError(
                f"The batches of `{self._name}` are tables of different columns. Give all the same."
            )
        return TableRows(rows, columns[0])

    def _elements(self, order: Callable[[int], Any] | None) -> Iterator[Any]:
        source, kept = self._source, self._kept
        if kept is not None:
            if self._gone:
                raise DataError(
                    f"The generator `{self._name}` has ended before `steps_per_epoch` times `epochs` "
                    "batches. Give a longer one; or leave `steps_per_epoch` out: all batches are then kept "
                    "and read in each epoch."
                )
            places = range(len(kept)) if order is None else order(len(kept))
            yield from (kept[place] for place in places)
            for batch in self._rest:
                self._gone = True
                yield batch
        elif isinstance(source, keras.utils.PyDataset):
            count = source.num_batches
            places = itertools.count() if count is None else range(count) if order is None else order(count)
            yield from (source[int(place)] for place in places)
            source.on_epoch_end()
        elif _is_loader(source):
            yield from map(_collated, source)
        else:
            yield from source

    def unread(self) -> Any:
        """Return the source as it was given; a generator as one that yields all of its batches."""
        return self._source if self._kept is None else self._elements(None)

    def _empty(self, more: str) -> DataError:
        return DataError(
            f"`{self._name}` ended without a batch.{more or ' Give at least one batch of rows.'}"
        )


def is_source(x: Any) -> bool:
    """Return True if `x` yields batches.

    Example:

        >>> is_source(iter([["a", "b"]])), is_source(["a", "b"])
        (True, False)
    """
    return hasattr(x, "__next__") or isinstance(x, tf.data.Dataset | keras.utils.PyDataset) or _is_loader(x)


def raw_source(
    x: Any, is_raw: Callable[[Any], bool], given_rows: Callable[[Any], Any], name: str = "x"
) -> BatchSource | Any:
    """Return the source of batches of raw rows, or what Keras can read: `x`, with a generator not begun."""
    if not is_source(x):
        return x
    source = BatchSource(x, name, given_rows)
    if is_raw(source.first_inputs):
        return source
    return source.unread()


def _is_loader(x: Any) -> bool:
    """Return True for a `DataLoader` of PyTorch, which need not be installed."""
    kinds = type(x).__mro__
    return any(each.__name__ == "DataLoader" and each.__module__.startswith("torch.") for each in kinds)


def _collated(batch: Any) -> Any:
    """Return a batch of a `DataLoader`, whose default is to make a list of the columns, as a tuple."""
    columns = batch if isinstance(batch, list) else []
    is_list = columns and all(isinstance(each, tuple) or hasattr(each, "detach") for each in columns)
    return tuple(columns) if is_list else batch


def _as_batch(name: str, number: int, batch: Any) -> RawBatch:
    parts = tuple(map(_plain, batch)) if isinstance(batch, tuple) else (_plain(batch),)
    if not 1 <= len(parts) <= 3:
        raise DataError(
            f"Batch {number} (counted from 0) of `{name}` must be rows, or a tuple of rows, targets and, if "
            f"any, weights. Received a tuple of {len(parts)}."
        )
    rows = parts[0]
    if isinstance(rows, str | bytes) or getattr(rows, "ndim", 1) == 0:
        raise DataError(
            f"`{name}` yields single rows, such as {rows!r:.60}, where batches are needed. Batch them: for "
            "`tf.data`, `dataset.batch(32)`."
        )
    return RawBatch(*parts)


def _plain(values: Any) -> Any:
    """Return tensors as arrays, ragged ones as lists, and anything else as `ordered_rows` does."""
    if hasattr(values, "to_list") and hasattr(values, "row_splits"):
        return values.to_list()
    if hasattr(values, "detach"):  # of PyTorch
        return values.detach().cpu().numpy()
    return np.asarray(values) if tf.is_tensor(values) else ordered_rows(values)


def _rows_of(values: Any) -> Any:
    return values if isinstance(values, list | tuple) else list(np.asarray(values))
