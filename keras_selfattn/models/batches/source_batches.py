"""Batches of a user's source as the core reads them: each is preprocessed when it is its turn."""

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.batches.sample_weights import check_some_weight, weighted, with_classes
from keras_selfattn.models.batches.sources import BatchSource, RawBatch, raw_source
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.raw_inputs import Rows
from keras_selfattn.rows.containers import ordered_rows

if TYPE_CHECKING:
    from keras_selfattn.models.raw_model import RawModel


class SourceBatches:
    """The training batches of a source, in the source's own composition; those of too long rows are divided.

    Args:
        model: has learned from rows.
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
        model: "RawModel",
        source: BatchSource,
        by_place: dict[int, float] | None,
        *,
        shuffle: bool,
        seed: int,
        epoch: int,
    ) -> None:
        self._model, self._source, self._by_place = model, source, by_place
        self._shuffle, self._seed, self._epoch = shuffle, seed, epoch
        self.failed: Exception | None = None

    @functools.cached_property
    def first(self) -> Rows:
        """The rows of the first batch, as a sample."""
        return self.rows(next(self._source.batches()))

    def rows(self, batch: RawBatch) -> Rows:
        """Return the rows of a batch, read as the model reads them, with the weights of their classes."""
        return with_classes(self._model.read_batch(batch), self._model.head, self._by_place)

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

    def dataset(self, *, repeat: bool = False) -> tf.data.Dataset:
        """Return the batches in Keras' form, of unknown number; repeated, if asked, without an end."""
        inputs, *others = self._batches(self.first, 0).dataset().element_spec
        inputs = tf.nest.map_structure(_loosened, inputs, _like(inputs, self._model.core.inputs))
        dataset = tf.data.Dataset.from_generator(lambda: iter(self), output_signature=(inputs, *others))
        return (dataset.repeat() if repeat else dataset).prefetch(2)

    def _batches(self, rows: Rows, seed: int) -> Any:
        return self._model.batches(rows, len(rows.inputs), training=True, seed=seed)


def fit_source(
    model: "RawModel",
    source: BatchSource,
    fit: Callable[..., Any],
    *,
    class_weight: Any,
    validation_data: Any,
    shuffle: bool,
    seed: int,
    **kwargs: Any,
) -> Any:
    """Train a model on the batches of a source; the first pass over it learns what `adapt` learns.

    Args:
        model: to train.
        source: of its rows.
        fit: `keras.Model.fit` of the model.
        class_weight, validation_data, shuffle, seed, kwargs: as in `RawModel.fit`.
    """
    steps = kwargs.get("steps_per_epoch")
    source.keep(steps)
    by_place, validation_data = _learned(model, source, class_weight, validation_data, kwargs)
    settings = {"shuffle": shuffle, "seed": seed, "epoch": kwargs.get("initial_epoch", 0)}
    batches = SourceBatches(model, source, by_place, **settings)
    model.create_metrics(batches.first.targets)
    # Repeated: Keras would make an epoch without a step of a source that has ended with the one before.
    kwargs |= {"x": batches.dataset(repeat=steps is not None), "validation_data": validation_data}
    with warnings.catch_warnings():
        if steps is None:
            # Keras' warning at the end of the first epoch of any data set whose number of batches is unknown.
            warnings.filterwarnings("ignore", "Your input ran out of data")
        try:
            return fit(shuffle=False, **kwargs)
        except tf.errors.OpError:
            if batches.failed is None:
                raise
    raise batches.failed


def _learned(
    model: "RawModel", source: BatchSource, class_weight: Any, validation_data: Any, kwargs: dict[str, Any]
) -> tuple[dict[int, float] | None, Any]:
    """Let a model learn from the rows of a source, and forget them.

    Returns:
        The weights of the classes by index, or None; and the validation data in Keras' form.
    """
    head, rows = model._head, None
    if head is None or isinstance(class_weight, str):
        found = read_source(source, head, kwargs.get("steps_per_epoch"))
        kind = model.head_type(found.targets) if head is None else type(head)
        rows = model.read_rows(*found, kind)
        head = kind.from_targets(rows.targets) if head is None else head
    by_place = head.class_weights(class_weight, [] if rows is None else rows.targets)
    validation_data = validation_rows(model, validation_data, head, kwargs)
    if model._head is None and rows is not None:
        model._adapt(weighted(rows, head, class_weight), head)
    if isinstance(validation_data, Rows):
        validation_data = model.batches(validation_data, None).dataset()
    return by_place, validation_data


def validation_rows(model: "RawModel", given: Any, head: Head, kwargs: dict[str, Any]) -> Any:
    """Return validation data as checked rows if they are raw; else unchanged.

    Args:
        model: whose data they are; it may have seen no rows.
        given: rows and targets, a source of raw batches, or data in Keras' form.
        head: of the model, or its future one.
        kwargs: of `fit`. `validation_steps` is removed if `given` is a source, whose batches it bounds.

    Raises:
        DataError: for raw rows that do not fit the head.
    """
    if isinstance(given, tuple | list):
        given = (*map(model.given_rows, given[:1]), *map(ordered_rows, given[1:]))
    if isinstance(given, tuple) and (not given or model._is_raw(given[0])):
        if len(given) not in (2, 3):
            raise DataError(
                f"`validation_data` must be rows, targets and, if any, weights. It has {len(given)}."
            )
        parts = RawBatch(*given)
    else:
        source = raw_source(given, model._is_raw, "validation_data")
        if not isinstance(source, BatchSource):
            return source
        parts = read_source(source, head, kwargs.pop("validation_steps", None))
    parts = parts._replace(targets=head.named(parts.targets))
    rows = model.read_rows(*parts, type(head))
    check_some_weight(rows.weights)
    head.encoded(rows.targets)  # raises before the model learns anything
    return rows


def read_source(source: BatchSource, head: Head | None, steps: int | None) -> RawBatch:
    """Return the rows of all batches, or of the first `steps`, with names of classes for their indices."""
    source.keep(steps)
    found = source.rows(steps)
    return found if head is None else found._replace(targets=head.named(found.targets))


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
