"""Base of all models of raw rows: what they learn, `fit`, `predict` and `evaluate` on rows, and saved state.

In the order of use: construct, compile, adapt, fit, predict, evaluate, one batch, save, quantize, export.
"""

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn import layers
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.files.version_files import PORTABLE
from keras_selfattn.layers.tensorflow.custom_gradients import keep_in_graph
from keras_selfattn.layers.weights.policy_maps import settle_leaves
from keras_selfattn.models import compiling
from keras_selfattn.models.batches.length_sorted import (
    SORTED_TOGETHER,
    LengthSortedBatches,
    checked_size,
    padded,
)
from keras_selfattn.models.batches.outputs import in_order, outputs_at_positions
from keras_selfattn.models.batches.row_reader import RowReader
from keras_selfattn.models.batches.rows import Rows, check_columns, split_end
from keras_selfattn.models.batches.sample_weights import (
    aligned,
    check_some_weight,
    row_weights,
    weighted,
    with_classes,
)
from keras_selfattn.models.batches.shapes import compiles_each_shape, lengths_allowed
from keras_selfattn.models.batches.shares import WHOLE, current_share
from keras_selfattn.models.batches.source_batches import SourceBatches, check_alone
from keras_selfattn.models.batches.sources import BatchSource, RawBatch, is_source
from keras_selfattn.models.compiling import OF_HEAD, CompileArguments, saved_arguments
from keras_selfattn.models.config import EncoderConfig, checked_config
from keras_selfattn.models.core.planned_summary import plan_lines
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.optimizers import adamw
from keras_selfattn.models.saving import weights_record
from keras_selfattn.models.sliced_step import can_slice, train_in_slices
from keras_selfattn.rows.containers import ordered_rows, refuse_table
from keras_selfattn.rows.kind import RowKind

Tensor = Any


class RawModel(keras.Model):
    """A front end that reads raw rows, the encoder, and a head, learned from the rows of the first `fit`.

    A subclass names the kind of its rows, which reads them.

    Args:
        config: the model's settings; by default, those of its kind.
    """

    config_type: ClassVar[type[EncoderConfig]]
    row_kind: RowKind[Any]
    # For the summary before training: what the first rows determine, and what `predict` returns.
    learns: ClassVar[str]
    returns: ClassVar[str]
    # Changes to the config that remove the path fitted beside attention.
    encoder_only: ClassVar[dict[str, Any]] = {}

    def __init__(self, config: EncoderConfig | dict[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._head: Head | None = None
        self._compile_arguments = CompileArguments()
        self._refusal = weights_record.Refusal()
        self.config: Any = self._read_config(config)
        # On TensorFlow XLA cannot compile raw rows, and would compile for every new shape of a batch. JAX
        # compiles all that it runs, so its batches have few shapes.
        self.supports_jit = compiles_each_shape()

    # What a kind of model defines, or may define:

    def _read_config(self, config: Any) -> Any:
        """Return the config of the model's kind: the given one, one from its dict, or the default."""
        return checked_config(self.config_type, config)

    def _is_raw(self, x: Any) -> bool:
        """Return True if `x` holds raw rows, not inputs of `keras.Model`."""
        return self.row_kind.are_rows(x)

    def row_kind_of(self, x: Any) -> RowKind[Any]:
        """Return the kind of raw rows, which the first of them may decide."""
        return self.row_kind

    def read_inputs(self, x: Any) -> list[Any]:
        """Return raw rows in any container as a list, each checked; may be empty."""
        return self.row_kind.read(x)

    @abstractmethod
    def head_type(self, y: Any) -> type[Head]:
        """Return the kind of head that fits targets in any container."""

    @abstractmethod
    def _learn_front_end(self, rows: Rows) -> None:
        """Learn the front end's state from the training rows; `DataError` if they cannot train it."""

    def _fit_linear(self, rows: Rows, head: Head) -> Head:
        """Fit the linear model beside attention if layers or head depend on it; return the head."""
        return head

    @abstractmethod
    def _build_core(self, head: Head) -> keras.Model:
        """Return the untrained model from padded features `[batch, length, ...]` to the head's outputs."""

    def _prepare(self, rows: Rows) -> None:
        """Fit the layers of the core that learn from the training rows before training."""

    @abstractmethod
    def _features(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        """Return the core's features of each row, `[T, ...]`."""

    @property
    def _step_span(self) -> int | None:
        """Positions of a row that a training step reads; None for all."""
        return self.config.step_span

    @property
    def _sorted_together(self) -> int:
        """The batches of a training whose rows are sorted by length together."""
        return SORTED_TOGETHER

    @property
    def _evenness(self) -> float | None:
        """The most positions in a batch of a training over those in a batch of mean rows; None for any."""
        return None

    @property
    def _positions_at_once(self) -> int | None:
        """The most positions of a batch that a step keeps for its gradient; None for all."""
        return None

    def _side_inputs(self, inputs: Sequence[Any], *, training: bool) -> np.ndarray | None:
        """Return the core's inputs beside the features of each row, if there are any."""
        return None

    def _parts(self, inputs: Sequence[Any]) -> int:
        """Return how many rows the core reads for each of these rows, such as the texts of a group."""
        return 1

    def untrained_config(self) -> dict[str, Any]:
        """Return the config from which `from_config` makes this model as it was before its training."""
        return self.get_config()

    def default_optimizer(self) -> Any:
        """Return the optimizer for `compile` without one."""
        return adamw()

    @property
    def learning_rates(self) -> Mapping[str, float]:
        """Factors of the learning rate by the beginning of a weight's path; none if all learn alike."""
        return {}

    def advised_training(self, rows: int) -> dict[str, Any]:
        """Return better values than `TrainConfig`'s defaults for a number of rows."""
        return {}

    def alternatives(self) -> list[dict[str, Any]]:
        """Return the trials of tuning, in order: other values of fields of the config or `TrainConfig`."""
        return []

    def parts_beside(self) -> dict[str, str]:
        """Return descriptions of the parts beside the encoder, by name."""
        return {}

    def baselines(self, x: Any) -> dict[str, np.ndarray]:
        """Return the predictions of the usual baselines for raw rows, by name, if there are any."""
        return {}

    def measured_outputs(self, x: Any, batch_size: int | None = None) -> Any:
        """Return the outputs for raw rows that figures are made of: what `predict` returns, if not more."""
        return self.predict(x, batch_size=batch_size, verbose=0)

    def check_backend(self) -> None:
        """Raise ConfigError if this kind of model does not answer raw rows on the backend of Keras."""

    def label(self, x: Any, batch_size: int | None = None) -> list[Any]:
        """Return the names that the model gives to raw rows, as its kind defines them."""
        raise ConfigError(f"A {type(self).__name__} returns {self.returns}, and no names. Call `predict`.")

    # Construct: what is known once the model has learned from rows.

    def _check_adapted(self) -> None:
        if self._head is None:
            raise DataError(
                "The model has not seen any rows yet. Call `fit` or `adapt` with rows and labels first."
            )

    @property
    def head(self) -> Head:
        """The head of the model: labels, loss, metrics."""
        self._check_adapted()
        return cast(Head, self._head)

    @property
    def core(self) -> keras.Model:
        """The part from padded features, `[batch, length, ...]`, to the outputs."""
        self._check_adapted()
        return self._core

    def summary(self, *args: Any, print_fn: Any = None, **kwargs: Any) -> None:
        """Print the layers as `keras.Model.summary` does; before the first `fit`, what it will build."""
        if self._head is not None:
            super().summary(*args, print_fn=print_fn, **kwargs)
            return
        title = f'"{self.name}" ({type(self).__name__})'
        for line in plan_lines(title, self.learns, self.parts_beside(), self.returns, self.config):
            (print_fn or print)(line)

    # Compile: loss and metrics may come from the head, which the first rows determine.

    def compile(
        self, optimizer: Any = None, loss: Any = None, *, metrics: Any = OF_HEAD, **kwargs: Any
    ) -> None:
        """Configure training as `keras.Model.compile` does; what is left out is the model's own."""
        optimizer = self.default_optimizer() if optimizer is None else optimizer
        self._compile_arguments = CompileArguments(loss, metrics, **kwargs)
        super().compile(optimizer, **self._compile_arguments.with_head(self._head))
        if self.built:
            # Otherwise a model saved before `fit` could not be loaded: its optimizer would have a state.
            self.optimizer.build(self.trainable_variables)

    def compile_again(self, *, new_optimizer: bool = False) -> None:
        """Compile with the stored arguments, and the head's loss and metrics where they were left out.

        Args:
            new_optimizer: make another optimizer of the same config, for other weights than before.
        """
        optimizer = self.optimizer
        if new_optimizer:
            optimizer = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
        self.compile(optimizer, **self._compile_arguments.given())

    def get_compile_config(self) -> dict[str, Any] | None:
        """Return the arguments of `compile`, without values that the task supplied."""
        config = super().get_compile_config()
        return self._compile_arguments.to_save(config) if config else config

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compile like the saved model; Keras requires this of classes that override `compile`."""
        self.compile(**saved_arguments(config))

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Return the loss of a batch as `keras.Model.compute_loss` does; all training and testing calls it.

        With weights, it is the sum of weight times loss, divided by the number of rows or, for a target at
        each position, of real positions: those that weigh 0 are counted, too.
        """
        if sample_weight is not None and hasattr(y_pred, "shape"):
            sample_weight = aligned(sample_weight, y_pred)  # [B, 1] or [B, T]
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        """Return the metrics as `keras.Model.compute_metrics` does: only `weighted_metrics` are weighted."""
        if sample_weight is not None and hasattr(y_pred, "shape"):
            sample_weight = aligned(sample_weight, y_pred)
            if len(y_pred.shape) == 2:
                sample_weight = sample_weight[:, 0]  # [B], which all of Keras' metrics of rows take
        return super().compute_metrics(x, y, y_pred, sample_weight)

    # Adapt:

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
        source = self._reader.source(x)
        if isinstance(source, BatchSource):
            check_alone(y=y, sample_weight=sample_weight)
            batch = source.rows()
        else:
            batch = RawBatch(source, ordered_rows(y), sample_weight)
        rows, kind = self._reader.read_first(batch, None)
        check_some_weight(rows.weights)
        self._adapt(rows, kind.from_targets(rows.targets))

    def _adapt(self, rows: Rows, head: Head) -> None:
        """Call the hooks of subclasses, in this order, before the first step of training."""
        compiling.check_strategy_scope(self)
        try:
            self._learn_front_end(rows)
            self._assemble(self._fit_linear(rows, head))
            self._prepare(rows)
        except BaseException:
            self._forget()
            raise

    def _assemble(self, head: Head) -> None:
        """Build the layers, once the front end has its state."""
        self._head = head
        self._core = self._build_core(head)
        self.built = True
        if self.compiled:
            self.compile_again()

    def _forget(self) -> None:
        """Return to the state before any rows, so that no half-made model is trained."""
        self._head, self.built = None, False

    # Rows to batches:

    @property
    def _reader(self) -> RowReader:
        return RowReader(self._is_raw, self.given_rows, self.head_type, self.read_rows, self.batches)

    def given_rows(self, x: Any) -> Any:
        """Return rows in an ordered container as a list or an array; what Keras and sources have, unchanged.

        Raises:
            DataError: for None, and for a set; for a dict, or a table that is no array, in place of one of
                its columns.
        """
        if is_source(x):
            return x
        if x is None:
            rows = self.row_kind.plural
            raise DataError(f"{rows} are needed. Received None; give a list, which may be empty.")
        if getattr(x, "dtype", None) == tf.string and hasattr(x, "row_splits"):
            return x.to_list()  # a ragged tensor, as in a source
        x = ordered_rows(x)
        known = () if self._head is None else [each.name for each in self._core.inputs]
        of_keras = isinstance(x, Mapping) and set(x) <= set(known)
        if not of_keras and not hasattr(x, "__array__"):
            refuse_table(self.row_kind.plural, x)
        return x

    def read_rows(self, x: Any, y: Any, weights: Any, kind: type[Head]) -> Rows:
        """Return raw rows, targets and weights, each checked; all weights may be 0, as in a batch of many."""
        rows = Rows(self.read_inputs(x), kind.read(y), row_weights(weights))
        check_columns(self.row_kind_of(rows.inputs).plural, rows, kind.target_kind.plural)
        return rows

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
            window=self.config.attended,
            parts=self._parts(rows.inputs),
            even=self._evenness if training else None,
            span=self._step_span if training else None,
            shuffle=shuffle,
            seed=seed,
            pool=self._sorted_together,
            lengths=lengths_allowed(training=training),
            share=current_share() if training else WHOLE,
        )

    # Fit:

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
        x, y = self._reader.source(x), ordered_rows(y)
        # Batches of raw rows bring their targets and weights, and keep their composition.
        if isinstance(x, BatchSource):
            check_alone(y=y, sample_weight=sample_weight, validation_split=validation_split or None)
            order = {"shuffle": shuffle, "seed": seed}
            return self._fit_source(x, class_weight, validation_data, order, kwargs)
        # Inputs in the form of the core's are Keras' own matter.
        if not self._is_raw(x):
            if class_weight is not None and self._head is not None:
                class_weight = self._head.class_weights(class_weight, [])
            other = {"sample_weight": sample_weight, "validation_data": validation_data, "shuffle": shuffle}
            tensors = {} if y is None else {"batch_size": batch_size, "validation_split": validation_split}
            return super().fit(x, y, class_weight=class_weight, **tensors, **other, **kwargs)
        # Raw rows: all of them are checked before the model learns anything; the head is of those left to
        # train with.
        batch_size = checked_size(batch_size)
        rows, kind = self._reader.read_first(RawBatch(x, y, sample_weight), self._head)
        if validation_data is None and validation_split:
            rows, held_out = split_end(rows, validation_split)
            validation_data = tuple(held_out)
        head = kind.from_targets(rows.targets) if self._head is None else self._head
        rows = weighted(rows, head, class_weight)
        validation_data = self._learn(rows, head, validation_data, batch_size, kwargs)
        batches = self.batches(rows, batch_size, training=True, shuffle=shuffle, seed=seed)
        batches.skip(kwargs.get("initial_epoch", 0))
        self.create_metrics(rows.targets)
        # The batches have their order already.
        return super().fit(batches.dataset(), validation_data=validation_data, shuffle=False, **kwargs)

    def _fit_source(
        self, source: BatchSource, class_weight: Any, validation_data: Any, order: Any, kwargs: dict[str, Any]
    ) -> Any:
        """Train on the batches of a source; the first pass over it learns what `adapt` learns."""
        steps = kwargs.get("steps_per_epoch")
        source.keep(steps)
        rows, head = None, self._head
        # All rows together are read only to learn from them, or to count their classes.
        if head is None or isinstance(class_weight, str):
            rows, kind = self._reader.read_first(source.rows(steps), head)
            head = kind.from_targets(rows.targets) if head is None else head
        by_place = head.class_weights(class_weight, [] if rows is None else rows.targets)
        if rows is not None and self._head is None:
            rows = weighted(rows, head, class_weight)
        validation_data = self._learn(rows, head, validation_data, None, kwargs)
        del rows  # each batch is read anew when it is its turn
        epoch = kwargs.get("initial_epoch", 0)
        batches = SourceBatches(self._reader, self.head, source, by_place, epoch=epoch, **order)
        self.create_metrics(batches.first.targets)
        return batches.train(super().fit, self.core.inputs, validation_data=validation_data, **kwargs)

    def _learn(self, rows: Rows | None, head: Head, validation: Any, size: int | None, kwargs: Any) -> Any:
        """Learn from the first rows, once validation data are checked; return these in Keras' form."""
        validation = self._reader.validation(validation, head, kwargs)
        if rows is not None and isinstance(validation, Rows):
            head.check_validation(rows.targets, validation.targets)
        if self._head is None and rows is not None:
            self._adapt(rows, head)
        return self.batches(validation, size).dataset() if isinstance(validation, Rows) else validation

    def create_metrics(self, targets: Sequence[Any]) -> None:
        """Create the variables of the metrics before the first step, from targets of which one is used."""
        compiling.create_metrics(self, np.asarray(self.head.encoded(targets[:1])), self._core.output_shape)

    def train_step(self, *args: Any) -> Any:
        """Run one step as `keras.Model.train_step`; the memory of its graph goes with the model."""
        positions = self._positions_at_once
        # A loss of a subclass may compare rows with each other.
        own_loss = type(self).compute_loss is not RawModel.compute_loss
        if positions is not None and not own_loss and can_slice(self, args[0]):
            logs = train_in_slices(self, args[0], positions)
        else:
            logs = super().train_step(*args)
        keep_in_graph()
        return logs

    # Predict and evaluate:

    def predict(self, x: Any, batch_size: int | None = None, **kwargs: Any) -> Any:
        """Return the outputs for raw rows in their order: one array, or a list with an array for each row.

        Args:
            x: raw rows; batches of them, as for `fit`, whose targets are ignored; or inputs of
                `keras.Model.predict`.
            batch_size: rows in a step.
            kwargs: `verbose`, `callbacks`, … of `keras.Model.predict`; `steps` for batches.
        """
        x = self._reader.source(x)
        # Batches of raw rows: all of them together, in the source's order.
        if isinstance(x, BatchSource):
            self._check_adapted()
            x = x.rows(kwargs.pop("steps", None)).inputs
        # Inputs in the form of the core's.
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

    def predict_batches(self, batches: LengthSortedBatches, **kwargs: Any) -> Any:
        """Return the outputs of preprocessed rows, in their order, like `predict`."""
        if self.head.per_position:
            return outputs_at_positions(self, super().predict_on_batch, batches, **kwargs)
        return in_order(super().predict(batches.dataset(), **kwargs), batches.order)

    def _no_outputs(self) -> Any:
        """Return what `predict` returns for no rows."""
        return [] if self.head.per_position else np.zeros((0, *self._core.output_shape[1:]), "float32")

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
        # Keras' `fit` asks, with the inputs that `fit` here has made of the validation data.
        if kwargs.get("_use_cached_eval_dataset"):
            return super().evaluate(x, y, batch_size, sample_weight=sample_weight, **kwargs)
        if is_source(x):
            check_alone(y=y, sample_weight=sample_weight)
        x, y = self._reader.source(x), ordered_rows(y)
        # Batches of raw rows: all of them together.
        if isinstance(x, BatchSource):
            self._check_adapted()
            x, y, sample_weight = x.rows(kwargs.pop("steps", None))
        # Inputs in the form of the core's.
        if not self._is_raw(x):
            tensors = {} if y is None else {"batch_size": batch_size}
            return super().evaluate(x, y, sample_weight=sample_weight, **tensors, **kwargs)
        rows = self._reader.read(RawBatch(x, y, sample_weight), self.head)
        check_some_weight(rows.weights)
        self.create_metrics(rows.targets)
        return super().evaluate(self.batches(rows, batch_size).dataset(), **kwargs)

    # One batch:

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the outputs for one batch: of raw rows in a list, or of tensors as in `keras.Model`."""
        inputs = ordered_rows(inputs)
        strings = isinstance(inputs, np.ndarray) and (inputs.dtype.kind in "OUST" or inputs.shape == (0,))
        if (strings or isinstance(inputs, list | tuple | str)) and self._is_raw(inputs):
            self._check_adapted()
            rows = self.read_inputs(inputs)
            if not rows:
                raise DataError("A call needs at least one row. Received none; `predict` takes none.")
            features, beside = padded(self._features(rows)), self._side_inputs(rows, training=False)
            inputs = features if beside is None else [features, beside]
        outputs = super().__call__(inputs, *args, **kwargs)
        keep_in_graph()
        return outputs

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
            x, y: raw rows and targets, as for `fit`; or inputs of `keras.Model.train_on_batch`.
            sample_weight, class_weight: as for `fit`; with raw rows both are multiplied, and all may be 0.
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
            x, y, sample_weight: as for `train_on_batch`.
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
        return in_order(super().predict_on_batch(batches.whole()[0]), batches.order)

    def _step(self, batch: RawBatch, class_weight: Any, *, training: bool) -> tuple[Any, ...]:
        """Return the core's inputs, targets and weights of one step for all rows of a batch."""
        read = self._reader.read(batch, self.head)
        read = with_classes(read, self.head, self.head.class_weights(class_weight, read.targets))
        self.create_metrics(read.targets)
        # Spans and hidden tokens differ in each step, and are those of `fit` in the first.
        seed = int(self.optimizer.iterations) if training and self.compiled else 0
        return self.batches(read, len(read.inputs), training=training, seed=seed).whole()

    # Save and load:

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

    def load_weights(self, filepath: Any, skip_mismatch: bool = False, **kwargs: Any) -> None:
        """Load weights as `keras.Model.load_weights` does, if they belong to what this model has learned.

        A file of weights has a record of the words, labels and settings that they belong to. If they are
        others than this model's, no weight is changed. A file of an earlier version, which has no record, is
        loaded with a warning.

        Args:
            filepath: a `.weights.h5`, `.weights.json` or `.keras` file.
            skip_mismatch: True loads them nevertheless, and layers only where shapes agree, with a warning.
            kwargs: of `keras.Model.load_weights`.

        Raises:
            DataError: for a model that has not seen any rows.
            ConfigError: for weights of other words, labels or settings; it names the differences.
        """
        if self._head is None:
            raise DataError(
                "The model has not seen any rows yet, and a file of weights holds neither words nor labels. "
                "Load the whole model, its .keras file, with `models.load`; or call `adapt` with the rows "
                "that the saved one has learned from, and then `load_weights`."
            )
        has_record = True
        if not skip_mismatch:
            has_record = weights_record.check_file(filepath, self._record(), self.config.training_only)
        super().load_weights(filepath, skip_mismatch=skip_mismatch, **kwargs)
        if not has_record:
            weights_record.warn_of_no_record(filepath)

    def save_own_variables(self, store: Any) -> None:
        super().save_own_variables(store)
        if self._head is not None:
            weights_record.write(store, self._record())

    def load_own_variables(self, store: Any) -> None:
        super().load_own_variables(weights_record.without_record(store))
        # Not all loading begins with `load_weights` above: this model may be a part of another.
        own = None if self._head is None else self._record()
        self._refusal.check(store, own, self.config.training_only)

    def _record(self) -> dict[str, Any]:
        return weights_record.record_of(self.get_config())

    # Quantize:

    def quantize(self, mode: Any = None, config: Any = None, filters: Any = None, **kwargs: Any) -> None:
        """Round the kernels of attention, dense and embedding layers to int8, as `keras.Model.quantize` does.

        The saved file and an export take about a quarter of the bytes for these kernels. What is left to be
        trained is the rest, after the model is compiled as before.

        Args:
            mode: "int8".
            config: a `keras.quantizers.Int8QuantizationConfig`.
            filters: the layers to quantize, as for `keras.Model.quantize`.
            kwargs: of `keras.Model.quantize`.

        Raises:
            DataError: for a model that has not seen any rows.
            ConfigError: for another mode, or a model that is quantized already.
        """
        with warnings.catch_warnings():
            # For each layer without kernels.
            warnings.filterwarnings("ignore", ".*does not have a `quantize` method", UserWarning)
            # Keras 3.12 has no filters.
            given = {"config": config, "filters": filters}
            kwargs |= {name: value for name, value in given.items() if value is not None}
            settle_leaves(self)
            super().quantize(mode, **kwargs)
        if self.compiled:
            self.compile_again(new_optimizer=True)

    def _check_quantize_args(self, mode: str, compute_dtype: str) -> None:
        """Keras calls it before anything is changed."""
        self._check_adapted()
        if mode != "int8":
            raise ConfigError(f'`mode` must be "int8", the only one of these models. Received {mode!r}.')
        if quantized := layers.quantized_parts(self):
            raise ConfigError(
                f"The model is quantized already, in {len(quantized)} layers, and can be so once. Load the "
                "file of the model as it was before, to quantize it in another way."
            )
        super()._check_quantize_args(mode, compute_dtype)

    # Export:

    def export(
        self,
        filepath: Any,
        format: str = "tf_saved_model",  # noqa: A002  as Keras names it
        verbose: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Write the next version for a server or another runtime; return its path, `filepath/VERSION`.

        Unlike Keras' own, it has this project's signatures and card, and was checked in a fresh process.

        Args:
            filepath: the folder of all versions.
            format: "tf_saved_model", which takes raw rows; "onnx" or "litert", which take numbers.
            verbose: True prints the name of each stage.
            kwargs: of `export.export_saved_model`, or of `export.export_portable`.

        Raises:
            ConfigError: for another format.
            ExportError: if the model cannot be exported.
        """
        if format not in ("tf_saved_model", *PORTABLE):
            raise ConfigError(
                f"`format` must be 'tf_saved_model', 'onnx' or 'litert'. Received {format!r}. For it, export "
                f"the part after preprocessing: model.core.export(..., format={format!r})."
            )
        # The only import of a higher layer, when it is called: `keras.Model` has this method, and Keras' own
        # knows neither raw rows nor labels.
        from keras_selfattn.export import export_portable, export_saved_model

        progress = print if verbose else None
        if format == "tf_saved_model":
            return export_saved_model(self, filepath, progress=progress, **kwargs)
        return export_portable(self, filepath, format, progress=progress, **kwargs)
