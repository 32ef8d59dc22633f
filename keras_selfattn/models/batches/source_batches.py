"""Batches of a user's source as the core reads them: each is preprocessed when it is its turn."""

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.batches.row_reader import RowReader
from keras_selfattn.models.batches.rows import Rows
from keras_selfattn.models.batches.sample_weights import with_classes
from keras_selfattn.models.batches.sources import BatchSource, RawBatch
from keras_selfattn.models.heads.class_heads import Head


class SourceBatches:
    """The training batches of a source, in the source's own composition; those of too long rows are divided.

    Args:
        reader: of a model that has learned from rows.
        head: of the model.
        source: of its rows.
        by_place: weights of the classes by index, or None.
        shuffle: True draws a new order of the batches for each epoch, if the source can be read in any order.
        seed: of the order, and of random spans.
        epoch: the number of the first epoch.

    Attributes:
        failed: the error that ended the reading; TensorFlow raises one of its own for it.
    """

    def __init__(
        self,
        reader: RowReader,
        head: Head,
        source: BatchSource,
        by_place: dict[int, float] | None,
        *,
        shuffle: bool,
        seed: int,
        epoch: int,
    ) -> None:
        self._reader, self._head, self._source, self._by_place = reader, head, source, by_place
        self._shuffle, self._seed, self._epoch = shuffle, seed, epoch
        self.failed: Exception | None = None

    @functools.cached_property
    def first(self) -> Rows:
        """The rows of the first batch, as a sample."""
        return self.rows(next(self._source.batches()))

    def rows(self, batch: RawBatch) -> Rows:
        """Return the rows of a batch, read as the model reads them, with the weights of their classes."""
        return with_classes(self._reader.read(batch, self._head), self._head, self._by_place)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        random = np.random.default_rng([self._seed, self._epoch])
        self._epoch += 1
        try:
            for batch in self._source.batches(random.permutation if self._shuffle else None):
                rows = self.rows(batch)
                if (rows.weights is None) != (self.first.weights is None):
                    raise DataError(
                        "Some batches have weights, and others have none. Give all some, or none."
                    )
                yield from self._batches(rows, int(random.integers(2**31)))
        except Exception as error:
            self.failed = error
            raise

    def dataset(self, of_core: list[Any], *, repeat: bool = False) -> tf.data.Dataset:
        """Return the batches in Keras' form, of unknown number.

        Args:
            of_core: the inputs of the model's core, whose unknown sizes are those that may differ.
            repeat: True repeats them without an end.
        """
        inputs, *others = self._batches(self.first, 0).dataset().element_spec
        inputs = tf.nest.map_structure(_loosened, inputs, _like(inputs, of_core))
        dataset = tf.data.Dataset.from_generator(lambda: iter(self), output_signature=(inputs, *others))
        return (dataset.repeat() if repeat else dataset).prefetch(2)

    def train(self, fit: Callable[..., Any], of_core: list[Any], **kwargs: Any) -> Any:
        """Return what Keras' `fit` returns for these batches; the error that ended their reading is raised.

        Args:
            fit: `keras.Model.fit` of the model.
            of_core: the inputs of the model's core.
            kwargs: of `fit`.
        """
        steps = kwargs.get("steps_per_epoch")
        # Repeated: Keras would make an epoch without a step of a source that has ended with the one before.
        dataset = self.dataset(of_core, repeat=steps is not None)
        with warnings.catch_warnings():
            if steps is None:
                # Of Keras, at the end of the first epoch of any data set whose number of batches is unknown.
                warnings.filterwarnings("ignore", "Your input ran out of data")
            try:
                return fit(dataset, shuffle=False, **kwargs)
            except tf.errors.OpError:
                if self.failed is None:
                    raise
        raise self.failed

    def _batches(self, rows: Rows, seed: int) -> Any:
        return self._reader.batches(rows, len(rows.inputs), training=True, seed=seed)


def check_alone(**given: Any) -> None:
    """Raise ConfigError for arguments that a source of batches has itself."""
    named = [name for name, value in given.items() if value is not None]
    if named:
        raise ConfigError(
            f"`{named[0]}` is for rows in a list or an array. Batches come with theirs: yield (rows, "
            "targets) or (rows, targets, weights), and give `validation_data` instead of a share."
        )


def _like(structure: Any, inputs: Any) -> Any:
    """Return the core's inputs in the structure of the batches' inputs."""
    return tuple(inputs) if isinstance(structure, tuple) else inputs[0]


def _loosened(spec: tf.TensorSpec, of_core: Any) -> tf.TensorSpec:
    """Return a spec with unknown sizes where the core takes any: one batch may have equal ones by chance."""
    if len(spec.shape) != len(of_core.shape):
        return spec
    sizes = [size if known else None for size, known in zip(spec.shape, of_core.shape, strict=True)]
    return tf.TensorSpec(sizes, spec.dtype)
