"""Optimizers: AdamW in a third of Keras' operations on TensorFlow, and one for fine-tuning.

The first moves all weights at one rate. The second has a learning rate for each layer, and tables whose
unused rows stay as they are, and have no moments.

Axes: N (rows of a table in a step), D (features).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.saving.weight_parts import TABLE

Tensor = Any

# Biases, and gains of normalisations, are not decayed.
_UNDECAYED = ("bias", "gamma", "beta", "/scale", "relative_gain", "relative_shift")


class Step(NamedTuple):
    """One step of a weight.

    Attributes:
        first: its first moment, a variable.
        second: its second moment.
        powers: beta_1 and beta_2 to the power of the steps so far.
        rate: the rate of learning.
        decay: the share of the weight that is taken off; None for no decay.
    """

    first: Any
    second: Any
    powers: tuple[Tensor, Tensor]
    rate: Tensor
    decay: Tensor | None


def adamw(learning_rate: Any = 1e-3, weight_decay: float = 0.0, **settings: Any) -> keras.optimizers.Adam:
    """Return AdamW, or Adam if nothing decays: on TensorFlow ours, elsewhere Keras' own.

    Args:
        learning_rate: a number, or a schedule; by default Adam's own.
        weight_decay: decoupled.
        settings: the other arguments of `keras.optimizers.Adam`.
    """
    if keras.backend.backend() == "tensorflow":
        return FusedAdamW(learning_rate, weight_decay, **settings)
    # On PyTorch Keras has faster variants of these two classes, but not of subclasses.
    if not weight_decay:
        return keras.optimizers.Adam(learning_rate, **settings)
    return keras.optimizers.AdamW(learning_rate, weight_decay, **settings)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class FusedAdamW(keras.optimizers.AdamW):
    """`keras.optimizers.AdamW` that computes the schedule once a step, and moves a weight in one operation.

    Weights move as with Keras' own, up to rounding. With a schedule Keras takes 77 operations of TensorFlow
    for each weight, because it computes the rate again for each that decays; this class takes 22. Gradients
    of a row that occurs several times in a step are added before they are squared or clipped, as on JAX;
    Keras on TensorFlow takes their norm one by one, so that a table may move by more than its limit. On
    JAX and PyTorch, and for weights in half precision, it is Keras' own.

    A model compiled with it loads where `keras_selfattn.training` or `keras_selfattn.models` is imported.

    Args:
        learning_rate: a number, or a schedule.
        weight_decay: decoupled; 0 makes it Adam. The default is Keras'.
        settings: the other arguments of `keras.optimizers.AdamW`, except `amsgrad`.

    Raises:
        ConfigError: for `amsgrad`.

    Example:

        >>> weight = keras.Variable([1.0, 1.0])
        >>> FusedAdamW(0.1, weight_decay=0.5).apply([keras.ops.array([2.0, -3.0])], [weight])
        >>> print(weight.numpy().round(3))
        [0.85 1.05]

    References: Loshchilov & Hutter 2019, "Decoupled Weight Decay Regularization", algorithm 2.
    """

    def __init__(self, learning_rate: Any = 1e-3, weight_decay: float = 0.004, **settings: Any) -> None:
        if settings.get("amsgrad"):
            raise ConfigError(f"`amsgrad` is not for {type(self).__name__}. Leave it out.")
        super().__init__(learning_rate, weight_decay, **settings)

    def update_step(self, gradient: Tensor, variable: Any, learning_rate: Tensor) -> None:
        if keras.backend.backend() != "tensorflow":
            super().update_step(gradient, variable, learning_rate)
            return
        step = self._step(variable, learning_rate, self._use_weight_decay(variable))
        self._move(tf.convert_to_tensor(gradient), variable, step)

    def _step(self, variable: Any, learning_rate: Tensor, decays: bool) -> Step:
        index = self._get_variable_index(variable)
        rate: Any = ops.cast(learning_rate, variable.dtype)
        iterations: Any = self.iterations
        count: Any = ops.cast(iterations + 1, variable.dtype)
        decay = rate * self.weight_decay if decays and self.weight_decay else None
        powers = self.beta_1**count, self.beta_2**count
        return Step(self._momentums[index], self._velocities[index], powers, rate, decay)

    def _move(self, gradient: Tensor, weight: Any, step: Step) -> None:
        """Move all values of a weight and its moments on TensorFlow."""
        if step.decay is not None:
            weight.assign_sub(weight * step.decay)
        if weight.dtype.size < tf.float32.size:
            # The operation rounds 1 - beta_2 to the weight's type, and has no bfloat16 on a GPU.
            super().update_step(gradient, weight, step.rate)
            return
        beta_1, beta_2, epsilon = (
            ops.convert_to_tensor(each, weight.dtype) for each in (self.beta_1, self.beta_2, self.epsilon)
        )
        tf.raw_ops.ResourceApplyAdam(
            var=weight.handle,
            m=step.first.value.handle,
            v=step.second.value.handle,
            beta1_power=step.powers[0],
            beta2_power=step.powers[1],
            lr=step.rate,
            beta1=beta_1,
            beta2=beta_2,
            epsilon=epsilon,
            grad=tf.cast(gradient, weight.dtype),
        )

    def _clip_gradients(self, grads: list[Any]) -> list[Any]:
        if keras.backend.backend() != "tensorflow":
            return super()._clip_gradients(grads)
        grads = [_without_repeats(each) if isinstance(each, tf.IndexedSlices) else each for each in grads]
        if self.global_clipnorm is None:
            return super()._clip_gradients(grads)
        # Keras' own would make a dense gradient of a table.
        return tf.clip_by_global_norm(grads, self.global_clipnorm)[0]

    def _apply_weight_decay(self, variables: Any) -> None:
        """Do nothing on TensorFlow, where `update_step` decays weights, at the rate of the step."""
        if keras.backend.backend() != "tensorflow":
            super()._apply_weight_decay(variables)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class FineTuningAdamW(FusedAdamW):
    """AdamW with a factor of the learning rate for each layer, in one pass over weights and moments.

    For weights with dense gradients it computes what `keras.optimizers.AdamW` does. Of a table of vectors
    only the rows of a step's tokens change, with their moments: a step costs as much as its tokens, not as
    much as the vocabulary, and the table of tokens of a pretrained encoder has moments only for rows that
    some step had (TensorFlow on one device). Biases and normalisations are not decayed. With
    `gradient_accumulation_steps` Keras makes the gradients of tables dense, so all rows change. JAX and
    PyTorch have dense gradients only: a row of the table of tokens stays as it is if its gradient is zero,
    and a step costs the whole table.

    A file that has moments of all rows, as JAX, PyTorch and several devices of TensorFlow write it, loads
    where only rows in use have them, and the other way round: no step is lost, but within a
    `LossScaleOptimizer`, which then warns.

    Args:
        learning_rate: of layers without a factor, or a schedule.
        rates: factor of the learning rate by the beginning of a weight's path; the longest that fits counts.
        settings: the other arguments of `keras.optimizers.AdamW`, except `amsgrad`.

    Raises:
        ConfigError: for `amsgrad`.

    Example:

        >>> optimizer = FineTuningAdamW(1e-4, rates={"encoder/block_0": 0.5})
        >>> optimizer.rate_of("encoder/block_0/attention_norm/gamma"), optimizer.rate_of("logits/kernel")
        (0.5, 1.0)

    References: Loshchilov & Hutter 2019, "Decoupled Weight Decay Regularization", algorithm 2; Howard & Ruder
    2018, "Universal Language Model Fine-tuning", section 3.2 (a rate for each layer).
    """

    def __init__(
        self, learning_rate: Any = 1e-4, *, rates: Mapping[str, float] | None = None, **settings: Any
    ) -> None:
        super().__init__(learning_rate, **settings)
        self.rates = dict(rates or {})
        # By path: checkpoints of TensorFlow have no other keys than texts.
        self._rows_in_use: dict[str, _RowsInUse] = {}

    def build(self, variables: Any) -> None:
        if self.built:
            return
        super().build(variables)
        for index, table in enumerate(variables):
            if self._grows(table):
                nowhere: Any = keras.initializers.Constant(-1)
                name = f"{table.name}_places"
                places = self.add_variable(table.shape[:1], nowhere, "int32", name=name)
                moments = self._momentums[index].value, self._velocities[index].value
                self._rows_in_use[table.path] = _RowsInUse(places.value, *moments)

    def add_variable_from_reference(
        self, reference_variable: Any, name: str | None = None, initializer: Any = "zeros"
    ) -> Any:
        """Add a variable like a weight, or, for moments of the table of tokens, one that grows."""
        if name not in ("momentum", "velocity") or not self._grows(reference_variable):
            return super().add_variable_from_reference(reference_variable, name=name, initializer=initializer)
        with keras.name_scope(self.name):
            moment = _GrowingVariable(
                reference_variable, f"{reference_variable.path.replace('/', '_')}_{name}"
            )
        self._track_variable(moment)
        return moment

    def _grows(self, weight: Any) -> bool:
        """Return True for a table whose moments need not be there for all rows."""
        needs_all = self.gradient_accumulation_steps or tf.distribute.has_strategy()
        return keras.backend.backend() == "tensorflow" and not needs_all and _may_grow(weight)

    def rate_of(self, path: str) -> float:
        """Return the factor of the learning rate of a weight's path."""
        found = [name for name in self.rates if path == name or path.startswith(f"{name}/")]
        return self.rates[max(found, key=len)] if found else 1.0

    def update_step(self, gradient: Tensor, variable: Any, learning_rate: Tensor) -> None:
        path = self._trainable_variables[self._get_variable_index(variable)].path
        in_use = self._rows_in_use.get(path)
        decays = self._use_weight_decay(variable) and not path.endswith(_UNDECAYED)
        step = self._step(variable, learning_rate * self.rate_of(path), decays)
        if keras.backend.backend() != "tensorflow":
            self._update_dense(gradient, variable, step, keeps_rows=path.endswith(TABLE))
        elif isinstance(gradient, tf.IndexedSlices):
            self._update_rows(gradient, variable, step, in_use)
        else:
            if in_use is not None:
                in_use.spread()
            self._move(gradient, variable, step)

    def _update_dense(self, given: Tensor, weight: Any, step: Step, *, keeps_rows: bool) -> None:
        """Update a weight on a backend without sparse gradients."""
        old: tuple[Any, ...] = tuple(each.value for each in (step.first, step.second, weight))
        gradient: Any = ops.cast(given, weight.dtype)
        first: Any = self.beta_1 * old[0] + (1 - self.beta_1) * gradient
        second: Any = self.beta_2 * old[1] + (1 - self.beta_2) * gradient**2
        rate = step.rate * ops.sqrt(1 - step.powers[1]) / (1 - step.powers[0])
        kept = old[2] if step.decay is None else old[2] * (1 - step.decay)
        new = (first, second, kept - rate * first / (ops.sqrt(second) + self.epsilon))
        if keeps_rows:
            used = ops.any(ops.not_equal(gradient, 0), axis=-1, keepdims=True)  # [rows, 1]
            new = tuple(ops.where(used, now, then) for now, then in zip(new, old, strict=True))
        for variable, found in zip((step.first, step.second, weight), new, strict=True):
            variable.assign(found)

    def _update_rows(self, gradient: Any, table: Any, step: Step, in_use: "_RowsInUse | None") -> None:
        rows, values = gradient.indices, gradient.values  # [N], [N, D]
        moments = step.first.value, step.second.value
        if in_use is None:
            places, before = rows, [tf.gather(each, rows) for each in moments]
        else:
            places, before = in_use.of(rows)
        first = self.beta_1 * before[0] + (1 - self.beta_1) * values
        second = self.beta_2 * before[1] + (1 - self.beta_2) * values**2
        rate = step.rate * tf.sqrt(1 - step.powers[1]) / (1 - step.powers[0])
        old = tf.gather(table, rows)
        kept = old if step.decay is None else old * (1 - step.decay)
        new = kept - rate * first / (tf.sqrt(second) + self.epsilon)
        for variable, found, at in zip(
            (*moments, table), (first, second, new), (places, places, rows), strict=True
        ):
            variable.scatter_update(tf.IndexedSlices(found, at))

    def _apply_weight_decay(self, variables: Any) -> None:
        """Do nothing on any backend: `update_step` decays weights, at the rate of their layer."""

    def load_own_variables(self, store: Any) -> None:
        """Set the state, whether the store has moments of all rows of the tables or of those in use."""
        values = [np.asarray(store[str(at)]) for at in range(len(store.keys()))]
        changed = self._with_places(values) if self._rows_in_use else self._without_places(values)
        if changed is None:  # as it is; or Keras says what differs
            super().load_own_variables(store)
            return
        for variable, value in zip(self.variables, changed, strict=True):
            variable.assign(value)

    def _with_places(self, values: list[np.ndarray]) -> list[np.ndarray] | None:
        """Return values of all rows, and the places of tables that have them here; None for other values."""
        tables = [weight for weight in self._trainable_variables if weight.path in self._rows_in_use]
        if len(values) != len(self.variables) - len(tables):
            return None
        moments = [(table, values[number]) for table in tables for number in self._numbers_of(table)]
        if any(moment.shape != tuple(table.shape) for table, moment in moments):
            return None
        return [*values, *(np.arange(table.shape[0], dtype="int32") for table in tables)]

    def _without_places(self, values: list[np.ndarray]) -> list[np.ndarray] | None:
        """Return values of all rows, given those of rows in use with their places; None for others."""
        tables = [weight for weight in self._trainable_variables if _may_grow(weight)]
        places, found = values[len(self.variables) :], values[: len(self.variables)]
        shapes = [(table.shape[0],) for table in tables]
        if not places or [each.shape for each in places] != shapes or any(p.dtype != "int32" for p in places):
            return None
        for table, at in zip(tables, places, strict=True):
            for number in self._numbers_of(table):
                found[number] = _of_all_rows(found[number], at)
        return found

    def _numbers_of(self, weight: Any) -> list[int]:
        """Return which of the variables are a weight's moments."""
        index = self._get_variable_index(weight)
        moments = self._momentums[index], self._velocities[index]
        return [at for at, each in enumerate(self.variables) if any(each is moment for moment in moments)]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rates": self.rates}


class _GrowingVariable(keras.Variable):
    """A variable of TensorFlow with the features of a table, and one row at first; it takes any number.

    Args:
        table: the weight.
        name: of the variable.
    """

    def __init__(self, table: Any, name: str) -> None:
        self._features = tuple(table.shape[1:])
        shape = (1, *self._features)
        super().__init__("zeros", shape, table.dtype, trainable=False, autocast=False, name=name)
        self._shape = (None, *self._features)

    def _initialize(self, value: Any) -> None:
        self._value = tf.Variable(
            value,
            dtype=self._dtype,
            trainable=False,
            name=self.name,
            shape=tf.TensorShape([None, *self._features]),
        )


class _RowsInUse(tf.Module):
    """Both moments of those rows of a table that some step had; those of all other rows would be 0.

    Of 250,000 rows a training on some thousand texts has a tenth. Moments of all of them would be twice as
    large as the table.

    Args:
        places: int32 variable `[rows]`, where the moments of a row of the table are; -1 for nowhere.
        first: variable `[places, D]` of first moments, which grows; it has places to spare.
        second: of second moments, likewise.
    """

    def __init__(self, places: Any, first: Any, second: Any) -> None:
        super().__init__()
        self._places, self._moments = places, (first, second)

    def of(self, rows: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the places `[N]` of rows `[N]`, which all differ, and their moments, `[N, D]` each."""
        places = tf.gather(self._places, rows)
        is_new = places < 0
        used = tf.reduce_max(self._places) + 1
        places = tf.where(is_new, used + tf.cumsum(tf.cast(is_new, tf.int32)) - 1, places)
        self._places.scatter_update(tf.IndexedSlices(places, rows))
        self._widen(used + tf.math.count_nonzero(is_new, dtype=tf.int32))
        return places, [_zero_where(is_new, tf.gather(each, places)) for each in self._moments]

    def _widen(self, needed: Tensor) -> None:
        """Make so many places, and a quarter more than there were, so that few steps copy the moments."""
        # The shape alone: to read a variable whose rows have moved copies it.
        held = tf.raw_ops.VariableShape(input=self._moments[0].handle)[0]

        def widen() -> Tensor:
            size = tf.minimum(tf.maximum(needed, held + held // 4), tf.size(self._places))
            for each in self._moments:
                # What the new places hold does not matter: `of` counts it as 0 once.
                each.assign(tf.gather(each, tf.minimum(tf.range(size), held - 1)))
            return size

        tf.cond(needed > held, widen, lambda: held)

    def spread(self) -> None:
        """Give moments to all rows, in the order of the table, as a dense gradient needs them."""
        order = tf.range(tf.size(self._places))

        def spread() -> Tensor:
            for each in self._moments:
                found = tf.gather(each, tf.maximum(self._places, 0))
                each.assign(_zero_where(self._places < 0, found))
            return self._places.assign(order)

        tf.cond(tf.reduce_all(tf.equal(self._places, order)), lambda: order, spread)


def _may_grow(weight: Any) -> bool:
    """Return True for a table whose moments need not be there for all rows on one device of TensorFlow."""
    wide = tf.as_dtype(weight.dtype).size >= tf.float32.size
    return wide and getattr(weight, "path", "").endswith(TABLE)


def _of_all_rows(moments: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return moments of a table `[rows, D]`, given those of rows in use and their places `[rows]`."""
    found = np.zeros((len(places), *moments.shape[1:]), moments.dtype)
    found[places >= 0] = moments[places[places >= 0]]
    return found


def _zero_where(absent: Tensor, moments: Tensor) -> Tensor:
    """Return moments `[N, D]` with rows of zeros where `absent`, `[N]`, is True."""
    shape = [-1, *(1 for _ in moments.shape[1:])]
    return tf.where(tf.reshape(absent, shape), tf.zeros([], moments.dtype), moments)


def _without_repeats(gradient: Any) -> Any:
    """Return the gradient of a table with one entry for each row."""
    rows, places = tf.unique(tf.reshape(gradient.indices, [-1]))
    rank = len(gradient.indices.shape)
    values = tf.reshape(gradient.values, [-1, *gradient.values.shape[rank:]])  # [tokens, D]
    summed = tf.math.unsorted_segment_sum(values, places, tf.size(rows))  # [N, D]
    return tf.IndexedSlices(summed, rows, gradient.dense_shape)
