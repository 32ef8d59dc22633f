"""Base of all models of raw rows: `fit`, `predict` and `evaluate` on them, and their saved state."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn import layers
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.batches.length_sorted import LengthSortedBatches, checked_size
from keras_selfattn.models.batches.sample_weights import (
    check_some_weight,
    row_weights,
    weighted,
    with_classes,
)
from keras_selfattn.models.batches.shapes import compiles_each_shape, lengths_allowed
from keras_selfattn.models.batches.shares import WHOLE, current_share
from keras_selfattn.models.batches.source_batches import check_alone, fit_source, read_source, validation_rows
from keras_selfattn.models.batches.sources import BatchSource, RawBatch, is_source, raw_source
from keras_selfattn.models.config import EncoderConfig, checked_config
from keras_selfattn.models.deferred_compile import check_strategy_scope
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.keras_methods import KerasMethods
from keras_selfattn.models.raw_inputs import Rows, check_columns, split_end
from keras_selfattn.rows.containers import ordered_rows, refuse_table

Tensor = Any


class RawModel(KerasMethods):
    """A front end that reads raw rows, the encoder, and a head, learned from the rows of the first `fit`.

    A subclass defines the kind of its rows.

    Args:
        config: the model's settings; by default, those of its kind.
    """

    config_type: ClassVar[type[EncoderConfig]]
    # The name of the rows, in the plural, as the beginning of a sentence.
    rows_are: ClassVar[str]
    # Changes to the config that remove the path fitted beside attention.
    encoder_only: ClassVar[dict[str, Any]] = {}

    def advised_training(self, rows: int) -> dict[str, Any]:
        """Return better values than `TrainConfig`'s defaults for a number of rows."""
        return {}

    def alternatives(self) -> list[dict[str, Any]]:
        """Return the trials of tuning, in order: other values of fields of the config or `TrainConfig`."""
        return []

    def __init__(self, config: EncoderConfig | dict[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = self._read_config(config)
        # On TensorFlow XLA cannot compile raw rows, and would compile for every new shape of a batch. JAX
        # compiles all that it runs, so its batches have few shapes.
        self.supports_jit = compiles_each_shape()

    def _read_config(self, config: Any) -> Any:
        """Return the config of the model's kind: the given one, one from its dict, or the default."""
        return checked_config(self.config_type, config)

    @abstractmethod
    def head_type(self, y: Any) -> type[Head]:
        """Return the kind of head that fits targets in any container."""

    @abstractmethod
    def _learn_front_end(self, rows: Rows) -> None:
        """Learn the front end's state from the training rows; `DataError` if they cannot train it."""

    @abstractmethod
    def _build_core(self, head: Head) -> keras.Model:
        """Return the untrained model from padded features `[batch, length, ...]` to the head's outputs."""

    @property
    def head(self) -> Head:
        """The head of the model: labels, loss, metrics."""
        self._check_adapted()
        return cast(Head, self._head)

    @property
    def _window(self) -> int | None:
        """Positions to attend to on either side; None for the whole row."""
        return getattr(self.config, "window", None)

    @property
    def _training_span(self) -> int | None:
        """Positions of a row that a training step reads; None for all."""
        return getattr(self.config, "training_span", None)

    @property
    def learning_rates(self) -> Mapping[str, float]:
        """Factors of the learning rate by the beginning of a weight's path; none if all learn alike."""
        return {}

    @property
    def core(self) -> keras.Model:
        """The part from padded features, `[batch, length, ...]`, to the outputs."""
        self._check_adapted()
        return self._core

    def adapt(self, x: Any, y: Any = None, sample_weight: Any = None) -> None:
        """Learn the vocabulary, labels and the like from rows, and build the layers. `fit` does it first.

        Args:
            x: raw rows, or batches of them with their targets, as for `fit`.
            y: their targets.
            sample_weight: float per row, for the parts that learn from labels here.

        Raises:
            DataError: for no rows, columns of unequal length, or targets that cannot be learned.
        """
        if self._head is not None:
            raise ConfigError("The model has learned from rows before. Make a new one to learn from others.")
        source = raw_source(self.given_rows(x), self._is_raw)
        if isinstance(source, BatchSource):
            check_alone(y=y, sample_weight=sample_weight)
            source, y, sample_weight = read_source(source, None, None)
        x, y = source, ordered_rows(y)
        kind = self.head_type(y)
        rows = self.read_rows(x, y, sample_weight, kind)
        check_some_weight(rows.weights)
        self._adapt(rows, kind.from_targets(rows.targets))

    def fit(
        self,
        x: Any,
        y: Any = None,
        batch_size: int | None = None,
        *,
        sample_weight: Any = None,
        class_weight: Any = None,
        validation_data: Any = None,
        validation_split: float = 0.0,
        shuffle: bool = True,
        seed: int = 0,
        **kwargs: Any,
    ) -> Any:
        """Train on raw rows and targets, in batches of similar length; other inputs as in `keras.Model.fit`.

        Args:
            x: raw rows; batches of raw rows with their targets, from a `tf.data.Dataset`, a generator, a
                `keras.utils.PyDataset` or a `torch.utils.data.DataLoader`, the first pass over which learns
                what `adapt` learns; or inputs of `keras.Model.fit`, in the form of the core's.
            y: targets. Integers are names of labels in the first `fit`. In later ones they are names if a
                label is a number, and indices of `labels` if none is; so in `validation_data`.
            batch_size: rows in a step, 32 if None; fewer if rows are long, to bound memory.
            sample_weight: float per row, in one axis or as a column; it counts for each token or number of
                its row. For a label at each token also a list of floats for each row, or `[rows, tokens]`.
                As in Keras, the loss is the sum of weight times loss, divided by the number of rows, or of
                tokens, whatever they weigh: with weights of mean 1 that of the rows given so many times.
            class_weight: weights of the classes, 1 where left out; or "balanced", which gives each class the
                same total weight; for one label a row. A text key is a label. Integer keys are all labels or
                all indices; where they can be both, and differ, they are refused.
            validation_data: `(rows, targets)` or `(rows, targets, weights)`, or any form that
                `keras.Model.fit` accepts.
            validation_split: share of the rows, taken from the end, for validation instead.
            shuffle: draw a new order each epoch.
            seed: of that order.
            kwargs: `epochs`, `verbose`, `callbacks`, … of `keras.Model.fit`. After `initial_epoch` epochs the
                rows have the order that they had then.

        Raises:
            ConfigError: for weights of classes that are none, or that can be read in two ways.
            DataError: for rows that cannot train the model, a label that training did not have, or a source
                that ends without a batch.
        """
        if not 0 <= validation_split < 1:
            raise ConfigError(f"`validation_split` must be in [0, 1). Received {validation_split!r}.")
        x, y = raw_source(self.given_rows(x), self._is_raw), ordered_rows(y)
        if isinstance(x, BatchSource):
            check_alone(y=y, sample_weight=sample_weight, validation_split=validation_split or None)
            settings = {"class_weight": class_weight, "validation_data": validation_data, "shuffle": shuffle}
            return fit_source(self, x, super().fit, seed=seed, **settings, **kwargs)
        if not self._is_raw(x):
            if class_weight is not None and self._head is not None:
                class_weight = self._head.class_weights(class_weight, [])
            other = {"sample_weight": sample_weight, "validation_data": validation_data, "shuffle": shuffle}
            tensors = {} if y is None else {"batch_size": batch_size, "validation_split": validation_split}
            return super().fit(x, y, class_weight=class_weight, **tensors, **other, **kwargs)
        batch_size = checked_size(batch_size)
        kind = self.head_type(y) if self._head is None else type(self._head)
        rows = self.read_rows(x, y if self._head is None else self._head.named(y), sample_weight, kind)
        if validation_data is None and validation_split:
            rows, held_out = split_end(rows, validation_split)
            validation_data = tuple(held_out)
        head = kind.from_targets(rows.targets) if self._head is None else self._head
        rows = weighted(rows, head, class_weight)
        validation_data = validation_rows(self, validation_data, head, kwargs)
        if self._head is None:
            self._adapt(rows, head)
        if isinstance(validation_data, Rows):
            validation_data = self.batches(validation_data, batch_size).dataset()
        batches = self.batches(rows, batch_size, training=True, shuffle=shuffle, seed=seed)
        batches.skip(kwargs.get("initial_epoch", 0))
        self.create_metrics(rows.targets)
        # The batches have their order already.
        return super().fit(batches.dataset(), validation_data=validation_data, shuffle=False, **kwargs)

    def predict(self, x: Any, batch_size: int | None = None, **kwargs: Any) -> Any:
        """Return the outputs for raw rows in their order: one array, or a list with an array for each row.

        Args:
            x: raw rows; batches of them, as for `fit`, whose targets are ignored; or inputs of
                `keras.Model.predict`.
            batch_size: rows in a step.
            kwargs: `verbose`, `callbacks`, … of `keras.Model.predict`; `steps` for batches.
        """
        x = self._rows_of_source(x, kwargs).inputs
        if not self._is_raw(x):
            tensors = {"batch_size": batch_size} if hasattr(x, "shape") else {}
            return super().predict(x, **tensors, **kwargs)
        if kwargs.get("steps") is not None:
            raise ConfigError("`steps` is for data sets. Give fewer rows instead.")
        self._check_adapted()
        inputs = self.read_inputs(x)
        if not inputs:
            return self._no_outputs()
        return self.predict_batches(self.batches(Rows(inputs, []), batch_size), **kwargs)

    def evaluate(
        self,
        x: Any,
        y: Any = None,
        batch_size: int | None = None,
        *,
        sample_weight: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Return the loss and metrics on raw rows and targets, or on inputs of `keras.Model.evaluate`.

        Args:
            x: raw rows; batches of them with their targets, as for `fit`; or inputs of
                `keras.Model.evaluate`.
            y: targets, as for `fit`.
            batch_size: rows in a step.
            sample_weight: as for `fit`, with the same loss. Of the metrics only the `weighted_metrics` of
                `compile` are weighted: a row of weight 2 counts as two of them, and one of 0 as none.
            kwargs: `verbose`, `callbacks`, … of `keras.Model.evaluate`; `steps` for batches.
        """
        if kwargs.get("_use_cached_eval_dataset"):
            # Keras' `fit` asks, with the inputs that `fit` here has made of the validation data.
            return super().evaluate(x, y, batch_size, sample_weight=sample_weight, **kwargs)
        x, y = self.given_rows(x), ordered_rows(y)
        if is_source(x):
            check_alone(y=y, sample_weight=sample_weight)
            x, y, sample_weight = self._rows_of_source(x, kwargs)
        if not self._is_raw(x):
            tensors = {} if y is None else {"batch_size": batch_size}
            return super().evaluate(x, y, sample_weight=sample_weight, **tensors, **kwargs)
        rows = self.read_batch(RawBatch(x, y, sample_weight))
        check_some_weight(rows.weights)
        self.create_metrics(rows.targets)
        return super().evaluate(self.batches(rows, batch_size).dataset(), **kwargs)

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Any = None,
        return_dict: bool = False,
    ) -> Any:
        """Take one step of training on all rows together; return loss and metrics, as `keras.Model` does.

        It is the step that `fit` takes where these rows are one batch. The model must have learned from rows
        before (`adapt`): one batch would teach it too few words and labels.

        Args:
            x: raw rows, or inputs of `keras.Model.train_on_batch`.
            y: targets, as for `fit`.
            sample_weight: as for `fit`; with raw rows, all may be 0.
            class_weight: as for `fit`; with raw rows, both weights are multiplied.
            return_dict: True returns a dict by name.

        Raises:
            DataError: before the model has learned from rows; for rows that do not fit it.
        """
        x, y = self.given_rows(x), ordered_rows(y)
        if not self._is_raw(x):
            if class_weight is not None and self._head is not None:
                class_weight = self._head.class_weights(class_weight, [])
            return super().train_on_batch(x, y, sample_weight, class_weight, return_dict)
        step = self._step(RawBatch(x, y, sample_weight), class_weight, training=True)
        return super().train_on_batch(*step, return_dict=return_dict)

    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False
    ) -> Any:
        """Return loss and metrics on all rows together, as `evaluate` does where they are one batch.

        Args:
            x: raw rows, or inputs of `keras.Model.test_on_batch`.
            y: targets, as for `fit`.
            sample_weight: as for `train_on_batch`.
            return_dict: True returns a dict by name.
        """
        x, y = self.given_rows(x), ordered_rows(y)
        if not self._is_raw(x):
            return super().test_on_batch(x, y, sample_weight, return_dict)
        step = self._step(RawBatch(x, y, sample_weight), None, training=False)
        return super().test_on_batch(*step, return_dict=return_dict)

    def predict_on_batch(self, x: Any) -> Any:
        """Return what `predict` returns for raw rows, or for inputs of `keras.Model.predict_on_batch`."""
        x = self.given_rows(x)
        if not self._is_raw(x):
            return super().predict_on_batch(x)
        self._check_adapted()
        inputs = self.read_inputs(x)
        if not inputs:
            return self._no_outputs()
        batches = self.batches(Rows(inputs, []), len(inputs))
        if self.head.per_position:
            return self.predict_batches(batches, verbose=0)
        return _in_order(super().predict_on_batch(batches.whole()[0]), batches.order)

    def _step(self, batch: RawBatch, class_weight: Any, *, training: bool) -> tuple[Any, ...]:
        """Return the core's inputs, targets and weights of one step for all rows of a batch."""
        read = self.read_batch(batch)
        read = with_classes(read, self.head, self.head.class_weights(class_weight, read.targets))
        self.create_metrics(read.targets)
        # Spans and hidden tokens differ in each step, and are those of `fit` in the first.
        seed = int(self.optimizer.iterations) if training and self.compiled else 0
        return self.batches(read, len(read.inputs), training=training, seed=seed).whole()

    def given_rows(self, x: Any) -> Any:
        """Return rows in an ordered container as a list or an array; what Keras and sources have, unchanged.

        Raises:
            DataError: for None, and for a set; for a dict, or a table that is no array, in place of one of
                its columns.
        """
        if is_source(x):
            return x
        if x is None:
            raise DataError(f"{self.rows_are} are needed. Received None; give a list, which may be empty.")
        if getattr(x, "dtype", None) == tf.string and hasattr(x, "row_splits"):
            return x.to_list()  # a ragged tensor, as in a source
        x = ordered_rows(x)
        known = () if self._head is None else [each.name for each in self._core.inputs]
        of_keras = isinstance(x, Mapping) and set(x) <= set(known)
        if not of_keras and not hasattr(x, "__array__"):
            refuse_table(self.rows_are, x)
        return x

    def _no_outputs(self) -> Any:
        """Return what `predict` returns for no rows."""
        return [] if self.head.per_position else np.zeros((0, *self._core.output_shape[1:]), "float32")

    def _rows_of_source(self, x: Any, kwargs: dict[str, Any]) -> RawBatch:
        """Return the rows of a source of raw batches, removing `steps`; else `x` as Keras can read it."""
        source = raw_source(self.given_rows(x), self._is_raw)
        if not isinstance(source, BatchSource):
            return RawBatch(source)
        self._check_adapted()
        return read_source(source, self._head, kwargs.pop("steps", None))

    def create_metrics(self, targets: Sequence[Any]) -> None:
        """Create the variables of the metrics: if the first step creates them, Keras traces it twice."""
        strategy: Any = getattr(self, "distribute_strategy", None)
        if not self.compiled or (strategy is not None and strategy.num_replicas_in_sync > 1):
            return  # Keras then raises its own error, or creates them itself
        encoded = np.asarray(self.head.encoded(targets[:1]))
        sizes = [
            encoded.shape[axis] if size is None else size for axis, size in enumerate(self._core.output_shape)
        ]
        self.compute_metrics(None, encoded, np.zeros(sizes, "float32"))
        self.reset_metrics()
        if compiles_each_shape():
            # Otherwise Keras draws a first epoch to build the loss with, and training begins with the second.
            self.compute_loss(None, encoded, np.zeros(sizes, "float32"), training=False)

    def baselines(self, x: Any) -> dict[str, np.ndarray]:
        """Return the predictions of the usual baselines for raw rows, by name, if there are any."""
        return {}

    def get_config(self) -> dict[str, Any]:
        state = {} if self._head is None else self._head.state
        own = {**super().get_config(), "config": self.config.to_dict(), **state}
        quantized = layers.quantized_parts(self)
        return {**own, "quantized": quantized} if quantized else own

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "RawModel":
        """Return the model of a config, with the parts quantized that were."""
        model = cls(**{name: value for name, value in config.items() if name != "quantized"})
        layers.quantize_parts(model, config.get("quantized", {}))
        return model

    def _adapt(self, rows: Rows, head: Head) -> None:
        """Call the hooks of subclasses, in this order, before the first step of training."""
        check_strategy_scope(self)
        try:
            self._learn_front_end(rows)
            self._assemble(self._fit_linear(rows, head))
            self._prepare(rows)
        except BaseException:
            self._forget()
            raise

    def _forget(self) -> None:
        """Return to the state before any rows, so that no half-made model is trained."""
        self._head, self.built = None, False

    def _fit_linear(self, rows: Rows, head: Head) -> Head:
        """Fit the linear model beside attention if layers or head depend on it; return the head."""
        return head

    def _prepare(self, rows: Rows) -> None:
        """Fit the layers of the core that learn from the training rows before training."""

    def _assemble(self, head: Head) -> None:
        """Build the layers, once the front end has its state."""
        self._head = head
        self._core = self._build_core(head)
        self.built = True
        if self.compiled:
            self.compile_again()

    def read_rows(self, x: Any, y: Any, weights: Any, kind: type[Head]) -> Rows:
        """Return raw rows, targets and weights, each checked; all weights may be 0, as in a batch of many."""
        rows = Rows(self.read_inputs(x), kind.read(y), row_weights(weights))
        check_columns(self.rows_are, rows)
        return rows

    def read_batch(self, batch: RawBatch) -> Rows:
        """Return checked rows for a model that has learned; targets may be indices of its classes."""
        head = self.head
        return self.read_rows(batch.inputs, head.named(batch.targets), batch.weights, type(head))

    def batches(
        self,
        rows: Rows,
        batch_size: int | None,
        *,
        training: bool = False,
        shuffle: bool = False,
        seed: int = 0,
    ) -> LengthSortedBatches:
        return LengthSortedBatches(
            self._features(rows.inputs),
            self.head.encoded(rows.targets) if rows.targets else None,
            rows.weights,
            self._side_inputs(rows.inputs, training=training),
            batch_size=checked_size(batch_size),
            window=self._window,
            span=self._training_span if training else None,
            shuffle=shuffle,
            seed=seed,
            lengths=lengths_allowed(training=training),
            share=current_share() if training else WHOLE,
        )

    def predict_batches(self, batches: LengthSortedBatches, **kwargs: Any) -> Any:
        """Return the outputs of preprocessed rows, in their order, like `predict`."""
        if self.head.per_position:
            return self._predicted_positions(batches, **kwargs)
        return _in_order(super().predict(batches.dataset(), **kwargs), batches.order)

    def _predicted_positions(
        self, batches: LengthSortedBatches, verbose: str | int = "auto", callbacks: Any = None
    ) -> list[np.ndarray]:
        """Return the outputs at the positions of each row, `[T, ...]`, in the order of the rows."""
        found: list[np.ndarray] = [np.empty(0)] * len(batches.order)
        places = iter(batches.order)
        told = keras.callbacks.CallbackList(
            callbacks, add_progbar=verbose != 0, verbose=verbose, epochs=1, steps=len(batches), model=self
        )
        told.on_predict_begin()
        for step, (features,) in enumerate(batches):
            told.on_predict_batch_begin(step)
            outputs = np.asarray(super().predict_on_batch(features))
            told.on_predict_batch_end(step, {"outputs": outputs})
            for row, place in zip(outputs, places, strict=False):  # the last rows may be copies
                found[place] = row[: batches.lengths[place]]
        told.on_predict_end()
        return found


def _in_order(outputs: Any, order: np.ndarray) -> np.ndarray:
    """Return outputs in the order of the rows, whose places `order` has; what follows them are copies."""
    found = np.asarray(outputs)[: len(order)]
    in_order = np.empty_like(found)
    in_order[order] = found
    return in_order
