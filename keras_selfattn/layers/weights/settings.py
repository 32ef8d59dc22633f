"""Settings of projections: how they start, and what penalises and bounds their weights and outputs.

The seven arguments are those of Keras' layers. A layer may keep several kernels side by side in one weight;
each of them is initialised, penalised and bounded by itself, as the kernel `[features, width]` of a
`keras.layers.Dense`.

Axes: B (batch), T (positions), N (tokens).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Any, NoReturn, Self, TypedDict

import keras
import numpy as np
from keras import ops

from keras_selfattn.layers.argument_checks import RENAMED_ARGUMENTS, refuse_renamed
from keras_selfattn.layers.attention_math import split, wide_dtype
from keras_selfattn.layers.attention_paths import Tokens

Tensor = Any

# Parts of a layer inside each other: each level splits the seed of an initializer in its own way.
_LEVELS = ("projection", "sublayer", "block")
_FORMS = {
    "initializer": 'its name, such as "he_normal", an object, its config, or a function of shape and dtype',
    "regularizer": 'its name, such as "l2", an object, its config, a function of a tensor, or None',
    "constraint": 'its name, such as "non_neg", an object, its config, a function of a tensor, or None',
}
_CLASSES: dict[str, type] = {
    "initializer": keras.initializers.Initializer,
    "regularizer": keras.regularizers.Regularizer,
    "constraint": keras.constraints.Constraint,
}


_TO_COME: ContextVar[bool] = ContextVar("weights_to_come", default=False)


@contextmanager
def weights_to_come() -> Iterator[None]:
    """Make weights of zeros while the block runs: for layers whose weights a file holds.

    Random numbers take three times the memory of the weights, which TensorFlow keeps, and their time.
    """
    token = _TO_COME.set(True)
    try:
        yield
    finally:
        _TO_COME.reset(token)


def unless_to_come(initializer: Any) -> Any:
    """Return an initializer, or that of zeros inside of `weights_to_come`."""
    return keras.initializers.Zeros() if _TO_COME.get() else initializer


class LayerArguments(TypedDict, total=False):
    """The arguments of `WeightSettings`, and those of every Keras layer."""

    kernel_initializer: Any
    bias_initializer: Any
    kernel_regularizer: Any
    bias_regularizer: Any
    kernel_constraint: Any
    bias_constraint: Any
    activity_regularizer: Any
    name: str | None
    dtype: Any
    trainable: bool
    autocast: bool


@dataclass(frozen=True)
class WeightSettings:
    """Keras' seven settings of projections, each checked.

    Args:
        kernel_initializer, bias_initializer: initial values of each kernel `[features, width]` and each bias
            `[width]`. One initializer with a seed gives every projection other numbers: the first has those
            of the seed itself, as in a single `Dense`, the others have seeds split from it. Without a seed
            it takes that of the layer.
        kernel_regularizer, bias_regularizer: the penalty of each kernel and bias, added to the loss.
        kernel_constraint, bias_constraint: applied to each kernel and bias after each step of the optimizer.
        activity_regularizer: the penalty of each projection's outputs `[batch, length, width]`, zero at
            masked positions, divided by the batch size and added to the loss.

    Raises:
        ValueError: for what Keras can make no initializer, regularizer or constraint of.
    """

    kernel_initializer: Any = "glorot_uniform"
    bias_initializer: Any = "zeros"
    kernel_regularizer: Any = None
    bias_regularizer: Any = None
    kernel_constraint: Any = None
    bias_constraint: Any = None
    activity_regularizer: Any = None

    def __post_init__(self) -> None:
        for name in WEIGHT_SETTINGS:
            object.__setattr__(self, name, checked_setting(name, getattr(self, name)))

    @classmethod
    def taken_from(cls, arguments: Any) -> tuple[Self, dict[str, Any]]:
        """Return the settings among the arguments of a layer, and the other arguments."""
        refuse_renamed(arguments, RENAMED_ARGUMENTS)
        own = {name: value for name, value in arguments.items() if name in WEIGHT_SETTINGS}
        return cls(**own), {name: value for name, value in arguments.items() if name not in own}

    def store_on(self, layer: keras.layers.Layer) -> None:
        """Set `weight_settings` of a layer, and each setting under its own name.

        `layer.activity_regularizer` stays None: there Keras looks for a penalty of the layer's own outputs,
        to which returned attention weights would belong.
        """
        store: Any = layer
        store.weight_settings = self
        for name in WEIGHT_SETTINGS:
            if name != "activity_regularizer":
                setattr(store, name, getattr(self, name))

    def arguments(self) -> dict[str, Any]:
        """Return the settings by name."""
        return {name: getattr(self, name) for name in WEIGHT_SETTINGS}

    def config(self) -> dict[str, Any]:
        """Return the settings by name, as the config of a layer holds them."""
        return {name: serialized_setting(name, value) for name, value in self.arguments().items()}

    def part(self, level: str, place: int) -> Self:
        """Return the settings of one part of a layer; initializers with a seed get another one in each.

        Args:
            level: "block" of an encoder, "sublayer" of a block or "projection" of a sublayer.
            place: number of the part; the first keeps the seed.
        """
        moved = {
            name: _moved(getattr(self, name), (_LEVELS.index(level), place))
            for name in ("kernel_initializer", "bias_initializer")
        }
        return replace(self, **moved) if place else self

    def initializer(self, of: str, place: int, seed: int | None) -> Callable:
        """Return the initializer "of" the "kernel" or "bias" of a projection; `seed` if it has none."""
        return unless_to_come(seeded(getattr(self.part("projection", place), f"{of}_initializer"), seed))

    @property
    def draws_glorot(self) -> bool:
        """True if kernels are drawn by the default, without a seed of its own."""
        initializer = self.kernel_initializer
        kind = keras.initializers.GlorotUniform
        return type(initializer) is kind and initializer.get_config()["seed"] is None

    def add(
        self,
        layer: keras.layers.Layer,
        name: str,
        of: str,
        shapes: Sequence[tuple[int, ...]],
        seeds: Sequence[int | None],
        *,
        first: int = 0,
        drawn: Callable | None = None,
        transposed: bool = False,
    ) -> Tensor:
        """Return a new weight of `layer` that holds kernels, or biases, side by side in its last axis.

        Args:
            layer: owner of the weight.
            name: its name.
            of: "kernel" or "bias".
            shapes: shape of each part, equal but for the last axis.
            seeds: of each part, for initializers without one.
            first: number of the first part among the layer's projections.
            drawn: the initializer of the whole weight if the setting is the default.
            transposed: whether the weight is the transposed matrix.
        """
        parts = _SideBySide([shape[-1] for shape in shapes], transposed)
        whole = (*shapes[0][:-1], sum(parts.widths))
        initializers = [self.initializer(of, first + i, seed) for i, seed in enumerate(seeds)]

        def initial(shape: tuple, dtype: Any = None) -> Tensor:
            of_parts = zip(initializers, shapes, strict=True)
            drawn_parts = [initializer(shape, dtype=dtype) for initializer, shape in of_parts]
            return parts.join([ops.cast(part, dtype) for part in drawn_parts])  # a function's may be another

        regularizer, constraint = (getattr(self, f"{of}_{kind}") for kind in ("regularizer", "constraint"))
        return layer.add_weight(
            name=name,
            shape=whole[::-1] if transposed else whole,
            initializer=unless_to_come(drawn if drawn is not None and self.draws_glorot else initial),
            regularizer=None if regularizer is None else _SumOfParts(regularizer, parts),
            constraint=None if constraint is None else _EachPart(constraint, parts),
        )

    def penalise(self, activity: Tensor, tokens: Tokens) -> None:
        """Add the penalty of a projection's outputs, `[N, width]`, to the losses of a call."""
        whole = tokens.scatter(activity)  # [B, T, width]
        loss: Any = ops.convert_to_tensor(self.activity_regularizer(ops.cast(whole, wide_dtype(whole.dtype))))
        batch = ops.cast(ops.convert_to_tensor(tokens.batch), loss.dtype)
        tokens.losses.append(ops.divide_no_nan(loss, batch))


WEIGHT_SETTINGS = tuple(field.name for field in fields(WeightSettings))


def checked_setting(name: str, value: Any) -> Any:
    """Return the object that Keras makes of an initializer, regularizer or constraint, or raise ValueError.

    Example:

        >>> type(checked_setting("kernel_initializer", "zeros")).__name__
        'Zeros'
    """
    kind = name.rpartition("_")[2]
    try:
        found = _module(kind).get(value)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        _refuse(name, value, error)
    others = tuple(each for other, each in _CLASSES.items() if other != kind)
    if isinstance(found, others) or (kind == "initializer" and found is None):
        _refuse(name, value)
    return found


def serialized_setting(name: str, value: Any) -> Any:
    """Return an initializer, regularizer or constraint as a config holds it."""
    return _module(name.rpartition("_")[2]).serialize(value)


def _module(kind: str) -> Any:
    return getattr(keras, f"{kind}s")


def _refuse(name: str, value: Any, cause: Exception | None = None) -> NoReturn:
    kind = name.rpartition("_")[2]
    raise ValueError(f"`{name}` must be a Keras {kind}: {_FORMS[kind]}. Received {value!r}.") from cause


def _moved(initializer: Any, key: tuple[int, int]) -> Any:
    """Return the initializer with a seed split from its own; itself if it has no number as its seed."""
    seed = _config(initializer).get("seed")
    if not isinstance(seed, int):
        return initializer
    states = np.random.SeedSequence(seed % 2**64, spawn_key=key).generate_state(1)
    return _cloned(initializer, int(states[0]) // 2)


def seeded(initializer: Any, seed: int | None) -> Any:
    """Return a copy with `seed` (None: a random one) of an initializer that takes a seed and has none."""
    config = _config(initializer)
    return _cloned(initializer, seed) if "seed" in config and config["seed"] is None else initializer


def _cloned(initializer: keras.initializers.Initializer, seed: int | None) -> Any:
    return type(initializer).from_config({**initializer.get_config(), "seed": seed})


def _config(initializer: Any) -> dict[str, Any]:
    return initializer.get_config() if isinstance(initializer, keras.initializers.Initializer) else {}


@dataclass(frozen=True)
class _SideBySide:
    """Kernels or biases side by side in the last axis of one weight, or in its first if it is transposed."""

    widths: list[int]
    transposed: bool

    def split(self, whole: Tensor) -> list[Tensor]:
        return split(ops.transpose(whole) if self.transposed else whole, self.widths)

    def join(self, parts: list[Tensor]) -> Tensor:
        whole = parts[0] if len(parts) == 1 else ops.concatenate(parts, axis=-1)
        return ops.transpose(whole) if self.transposed else whole


class _SumOfParts(keras.regularizers.Regularizer):
    def __init__(self, regularizer: Callable, parts: _SideBySide) -> None:
        self._regularizer, self._parts = regularizer, parts

    def __call__(self, x: Tensor) -> Tensor:
        return sum(self._regularizer(part) for part in self._parts.split(x))


class _EachPart(keras.constraints.Constraint):
    def __init__(self, constraint: Callable, parts: _SideBySide) -> None:
        self._constraint, self._parts = constraint, parts

    def __call__(self, w: Tensor) -> Tensor:
        return self._parts.join([self._constraint(part) for part in self._parts.split(w)])
