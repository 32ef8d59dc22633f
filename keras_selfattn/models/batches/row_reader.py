"""The needs of batches from a model: how it reads rows, from a user's containers to batches of features."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from keras_selfattn.errors import DataError
from keras_selfattn.models.batches.length_sorted import LengthSortedBatches
from keras_selfattn.models.batches.rows import Rows
from keras_selfattn.models.batches.sample_weights import check_some_weight
from keras_selfattn.models.batches.sources import BatchSource, RawBatch, raw_source
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.rows.containers import ordered_rows


class MakesBatches(Protocol):
    """A model that has learned from rows makes batches of more of them; `RawModel.batches`."""

    def __call__(
        self,
        rows: Rows,
        batch_size: int | None,
        *,
        training: bool = ...,
        shuffle: bool = ...,
        seed: int = ...,
    ) -> LengthSortedBatches: ...


@dataclass(frozen=True)
class RowReader:
    """The steps from what a user gives to batches: those that the kind of model defines, and what follows.

    Args:
        is_raw: returns True for raw rows, False for inputs of `keras.Model`.
        given_rows: returns rows in an ordered container as a list or an array.
        head_type: returns the kind of head that fits targets.
        read_rows: returns raw rows, targets and weights, each checked, for a kind of head.
        batches: makes batches of checked rows.
    """

    is_raw: Callable[[Any], bool]
    given_rows: Callable[[Any], Any]
    head_type: Callable[[Any], type[Head]]
    read_rows: Callable[[Any, Any, Any, type[Head]], Rows]
    batches: MakesBatches

    def source(self, x: Any, name: str = "x") -> BatchSource | Any:
        """Return the source of batches of raw rows, or what Keras can read."""
        return raw_source(self.given_rows(x), self.is_raw, self.given_rows, name)

    def read(self, batch: RawBatch, head: Head) -> Rows:
        """Return checked rows for a head; targets may be indices of its classes."""
        return self.read_rows(batch.inputs, head.named(batch.targets), batch.weights, type(head))

    def read_first(self, batch: RawBatch, head: Head | None) -> tuple[Rows, type[Head]]:
        """Return checked rows and the kind of their head: of that of the model or, if it has none, of theirs.

        Args:
            batch: rows to train with.
            head: of the model; None before it has learned from rows.
        """
        if head is not None:
            return self.read(batch, head), type(head)
        kind = self.head_type(batch.targets)
        return self.read_rows(*batch, kind), kind

    def validation(self, given: Any, head: Head, kwargs: dict[str, Any]) -> Any:
        """Return validation data as checked rows if they are raw; else unchanged.

        Args:
            given: rows and targets, a source of raw batches, or data in Keras' form.
            head: of the model, or its future one.
            kwargs: of `fit`. `validation_steps` is removed if `given` is a source, whose batches it bounds.

        Raises:
            DataError: for raw rows that do not fit the head.
        """
        if isinstance(given, tuple | list):
            given = (*map(self.given_rows, given[:1]), *map(ordered_rows, given[1:]))
        # Raw rows, with targets.
        if isinstance(given, tuple) and (not given or self.is_raw(given[0])):
            if len(given) not in (2, 3):
                raise DataError(
                    f"`validation_data` must be rows, targets and, if any, weights. It has {len(given)}."
                )
            found = RawBatch(*given)
        else:
            source = raw_source(given, self.is_raw, self.given_rows, "validation_data")
            # Keras' own inputs, or None.
            if not isinstance(source, BatchSource):
                return source
            # Batches of raw rows: those of all batches, or of so many, together.
            found = source.rows(kwargs.pop("validation_steps", None))
        rows = self.read(found, head)
        check_some_weight(rows.weights)
        head.encoded(rows.targets)  # raises before the model learns anything
        return rows
