"""Absolute position encodings: sinusoidal and learned, of sequences; sinusoidal, of the cells of a grid.

Axes: B (batch), T (positions), R (rows), C (columns), D (features).
"""

import math
from numbers import Integral
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_selfattn.layers.argument_checks import (
    checked_base,
    checked_choice,
    checked_count,
    checked_seed,
    checked_sequence,
    sequence_spec,
)
from keras_selfattn.layers.dropout import Dropout
from keras_selfattn.layers.jax import is_dimension
from keras_selfattn.layers.masks import as_given, dtype_name, holds_integers, known_values, of_shape
from keras_selfattn.layers.positions.angles import frequencies, sinusoids
from keras_selfattn.layers.remat import call_in_scope
from keras_selfattn.layers.seeds import split_seed
from keras_selfattn.layers.weights.settings import checked_setting, seeded, serialized_setting

Tensor = Any

_TABLE_SETTINGS = ("embeddings_initializer", "embeddings_regularizer", "embeddings_constraint")


@keras.saving.register_keras_serializable(package="keras_selfattn")
class SinusoidalPositionEncoding(keras.layers.Layer):
    """Adds the sinusoidal encoding of each position to its features. Keeps the mask.

    Column 2i is `sin(position / base**(2i / features))`, column 2i + 1 the cosine of the same angle; an odd
    width ends with a lone sine. Length and width are free. The encoding is exact to 1e-6 up to position
    1,000,000 under every dtype policy, before its one cast to the compute dtype.

    Args:
        dropout: share in [0, 1] of the sum's elements dropped in training, as the paper does (section 5.4).
        base: ratio of the longest wavelength to the shortest; 10,000 is the paper's.
        seed: int for dropout; None draws one.

    Call arguments:
        inputs: float `[batch, length, features]`.
        offset: position of the first token, an int or int scalar tensor; 0 unless the inputs continue a
            longer sequence.
        positions: int `[length]` or `[batch, length]`, the position of each token, for left padding or packed
            sequences; instead of `offset`. Negative ones are fine.
        training: dropout acts only if True.

    Returns:
        float `[batch, length, features]`.

    Raises:
        ValueError: for an argument out of range, inputs of another rank, positions that are no integers or of
            another shape, or both `offset` and `positions`.

    Example:

        >>> encoded = SinusoidalPositionEncoding()(np.zeros((1, 60, 32), "float32"))
        >>> round(float(encoded[0, 3, 0]), 4)  # sin(3)
        0.1411

    Reference: Vaswani et al. 2017, "Attention Is All You Need", section 3.5.
    """

    def __init__(
        self, dropout: float = 0.0, base: float = 10000.0, *, seed: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.dropout = dropout
        self.base = checked_base(base)
        self.seed = checked_seed(seed)
        self.supports_masking = True
        self._dropout = Dropout(dropout, seed, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape: tuple) -> None:
        self._width = checked_sequence(input_shape)
        self.input_spec = sequence_spec(self._width)

    def call(
        self,
        inputs: Tensor,
        offset: Tensor = 0,
        positions: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        inputs = ops.cast(inputs, self.compute_dtype)  # integers would cut the encoding to -1, 0 and 1
        positions = token_positions(inputs, offset, positions)  # [T] or [B, T]
        encoding = sinusoids(positions, self._width, self.base, self.compute_dtype)
        encoding = ops.cast(encoding, inputs.dtype)  # [T, D] or [B, T, D]
        return self._dropout(inputs + encoding, training=training)

    def rematerialized_call(self, layer_call: Any, *args: Any, **kwargs: Any) -> Any:
        """Return `layer_call` as the `keras.RematScope` says in which the layer was made; Keras calls it."""
        return call_in_scope(self, super().rematerialized_call, layer_call, *args, **kwargs)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return tuple(input_shape)

    def compute_output_spec(
        self, inputs: Tensor, offset: Tensor = 0, positions: Tensor | None = None, training: Any = None
    ) -> keras.KerasTensor:
        checked_positions(inputs, offset, positions)
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "dropout": self.dropout, "base": self.base, "seed": self.seed}

    def relative_projection(self, offset: int) -> np.ndarray:
        """Return the matrix M with `encoding(i + offset) = M @ encoding(i)` for every position i.

        A shift rotates each pair of sine and cosine by an angle that does not depend on i. So a model with
        fixed encodings can attend by relative position.

        Args:
            offset: how many positions ahead; negative for behind.

        Returns:
            NumPy float64 `[features, features]`, 2 x 2 rotations on the diagonal.

        Raises:
            ValueError: if `offset` is no integer, the layer is not built, or its width is odd: the lone sine
                has no partner to turn with.

        Example:

            >>> layer = SinusoidalPositionEncoding()
            >>> layer.build((None, None, 2))
            >>> print(layer.relative_projection(1).round(4))
            [[ 0.5403  0.8415]
             [-0.8415  0.5403]]

        Reference: Vaswani et al. 2017, "Attention Is All You Need", section 3.5; Zhang et al., "Dive into
        Deep Learning", section 11.6.
        """
        if not self.built:
            raise ValueError(
                "`relative_projection` needs to know the width: call the layer, or `build` it, first."
            )
        if self._width % 2:
            raise ValueError(
                f"`relative_projection` needs an even width, of whole pairs. Received width {self._width}."
            )
        if isinstance(offset, bool) or not isinstance(offset, Integral):
            raise ValueError(f"`offset` must be an integer. Received {offset!r}.")
        matrix = np.zeros((self._width, self._width))
        for pair, frequency in enumerate(frequencies(self._width, self.base)):
            cos, sin = math.cos(offset * frequency), math.sin(offset * frequency)
            matrix[2 * pair : 2 * pair + 2, 2 * pair : 2 * pair + 2] = [[cos, sin], [-sin, cos]]
        return matrix


@keras.saving.register_keras_serializable(package="keras_selfattn")
class LearnedPositionEncoding(keras.layers.Layer):
    """Adds a learned vector per position to its features. Keeps the mask.

    Args:
        max_length: number of positions that have a vector.
        dropout: share in [0, 1] of the sum's elements dropped in training.
        beyond: for longer inputs, "raise" an error (the default: a model has learned nothing of the further
            positions) or "clip" (the further positions take the last vector).
        embeddings_initializer, embeddings_regularizer, embeddings_constraint: of the table, as of
            `keras.layers.Embedding`; by default it is normal with deviation 0.02 as in BERT.
        activity_regularizer: as of every Keras layer, the penalty of the outputs.
        seed: int for initial weights and dropout; None draws one.

    Call arguments:
        inputs: float `[batch, length, features]`.
        offset: position of the first token, an int or int scalar tensor; 0 unless the inputs continue a
            longer sequence.
        training: dropout acts only if True.

    Returns:
        float `[batch, length, features]`.

    Raises:
        ValueError: for an argument out of range, a negative `offset`, or a known length past `max_length`
            (unless it is clipped). If a compiled graph knows the length only when it runs, the backend raises
            its own error, with both numbers. If it knows the offset only then, outputs at positions without
            a vector are NaN.

    Weights: position table `[max_length, features]`.

    Example:

        >>> tuple(LearnedPositionEncoding(max_length=7)(np.zeros((2, 5, 3), "float32")).shape)
        (2, 5, 3)

    The same, of the last tokens of a sequence alone:

        >>> layer, x = LearnedPositionEncoding(max_length=7), np.ones((2, 5, 3), "float32")
        >>> bool((np.asarray(layer(x[:, 3:], offset=3)) == np.asarray(layer(x))[:, 3:]).all())
        True

    Reference: Gehring et al. 2017, "Convolutional Sequence to Sequence Learning", section 3.1.
    """

    def __init__(
        self,
        max_length: int,
        dropout: float = 0.0,
        *,
        beyond: str = "raise",
        embeddings_initializer: Any = None,
        embeddings_regularizer: Any = None,
        embeddings_constraint: Any = None,
        activity_regularizer: Any = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        activity_regularizer = checked_setting("activity_regularizer", activity_regularizer)
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        if embeddings_initializer is None:
            embeddings_initializer = keras.initializers.RandomNormal(stddev=0.02)
        self.embeddings_initializer = checked_setting("embeddings_initializer", embeddings_initializer)
        self.embeddings_regularizer = checked_setting("embeddings_regularizer", embeddings_regularizer)
        self.embeddings_constraint = checked_setting("embeddings_constraint", embeddings_constraint)
        self.max_length = checked_count("max_length", max_length)
        self.dropout = dropout
        self.beyond = checked_choice("beyond", beyond, ("raise", "clip"))
        self.seed = checked_seed(seed)
        self.supports_masking = True
        self._dropout = Dropout(dropout, seed, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape: tuple) -> None:
        features = checked_sequence(input_shape)
        self.input_spec = sequence_spec(features)
        self._table = self.add_weight(
            name="positions",
            shape=(self.max_length, features),
            initializer=seeded(self.embeddings_initializer, split_seed(self.seed, 1)[0]),
            regularizer=self.embeddings_regularizer,
            constraint=self.embeddings_constraint,
        )

    def call(self, inputs: Tensor, offset: Tensor = 0, training: bool | None = None) -> Tensor:
        inputs = ops.cast(inputs, self.compute_dtype)
        rows = ops.cast(self._rows(inputs, offset), inputs.dtype)  # [T, D]
        return self._dropout(inputs + rows, training=training)

    def rematerialized_call(self, layer_call: Any, *args: Any, **kwargs: Any) -> Any:
        """Return `layer_call` as the `keras.RematScope` says in which the layer was made; Keras calls it."""
        return call_in_scope(self, super().rematerialized_call, layer_call, *args, **kwargs)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return tuple(input_shape)

    def compute_output_spec(
        self, inputs: Tensor, offset: Tensor = 0, training: Any = None
    ) -> keras.KerasTensor:
        self._check_length(inputs, self._known_offset(inputs, offset))
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        config = {name: getattr(self, name) for name in ("max_length", "dropout", "beyond", "seed")}
        for name in (*_TABLE_SETTINGS, "activity_regularizer"):
            config[name] = serialized_setting(name, getattr(self, name))
        return {**super().get_config(), **config}

    def _known_offset(self, inputs: Tensor, offset: Tensor) -> int | None:
        """Return the checked offset; None while it is not known."""
        checked_positions(inputs, offset, None)
        known = known_values(offset)
        if known is not None and known < 0:
            raise ValueError(f"`offset` must be 0 or more: other positions have no vector. Received {known}.")
        return None if known is None else int(known)

    def _check_length(self, inputs: Tensor, offset: int | None) -> None:
        known = inputs.shape[1]
        if self.beyond == "raise" and isinstance(known, int) and known + (offset or 0) > self.max_length:
            raise ValueError(
                f"The input is longer than `max_length`. Received length {known}"
                f"{f' from offset {offset} on' if offset else ''}, "
                f"max_length={self.max_length}; cut the input, build the layer with a larger max_length, or "
                'give the positions past it the last vector with beyond="clip".'
            )

    def _rows(self, inputs: Tensor, offset: Tensor) -> Tensor:
        """Return the vectors of the inputs' positions, `[T, D]`."""
        known, length = self._known_offset(inputs, offset), ops.shape(inputs)[1]
        self._check_length(inputs, known)
        if known is None:
            return self._rows_at(token_positions(inputs, offset, None))
        if self.beyond == "clip":
            last = self.max_length - 1
            rows = ops.minimum(_counted(length, min(known, last)), last)  # [T]
            return ops.take(self._table, rows, axis=0)
        if is_dimension(length):  # a slice must be known to be in the table; here rows beyond it are NaN
            return ops.take(self._table, _counted(length, known), axis=0)
        return ops.slice(ops.convert_to_tensor(self._table), (known, 0), (length, self._table.shape[1]))

    def _rows_at(self, positions: Tensor) -> Tensor:
        """Return the vectors of positions that a graph learns when it runs, NaN where there is none."""
        last = self.max_length - 1
        rows = ops.take(self._table, ops.clip(positions, 0, last), axis=0)  # [T, D]
        valid = positions >= 0
        if self.beyond == "raise":
            valid = ops.logical_and(valid, positions <= last)
        return ops.where(valid[:, None], rows, float("nan"))


@keras.saving.register_keras_serializable(package="keras_selfattn")
class SinusoidalPositionEncoding2D(keras.layers.Layer):
    """Adds the sinusoidal encoding of each cell's row and column to its features.

    The first half of the features takes the encoding of the row, the second half that of the column, each
    like a `SinusoidalPositionEncoding` of that width. If the number of features is odd, the row's part has
    one more. Height, width and number of features are free. The encoding is exact to 1e-6 under every dtype
    policy, before its one cast to the compute dtype.

    Args:
        dropout: share in [0, 1] of the sum's elements dropped in training.
        base: ratio of the longest wavelength to the shortest; 10,000 is the 1-D paper's.
        seed: int for dropout; None draws one.

    Call arguments:
        inputs: float `[batch, height, width, features]`; reshape to `[batch, height * width, features]` after
            the layer, for attention.
        training: dropout acts only if True.

    Returns:
        float `[batch, height, width, features]`.

    Raises:
        ValueError: for an argument out of range, or inputs of another rank.

    Example:

        >>> import numpy as np
        >>> encoded = SinusoidalPositionEncoding2D()(np.zeros((1, 5, 7, 4), "float32"))
        >>> print(np.asarray(encoded)[0, 2, 3].round(4))  # sin and cos of 2, then of 3
        [ 0.9093 -0.4161  0.1411 -0.99  ]

    Reference: Parmar et al. 2018, "Image Transformer", section 3.1; Vaswani et al. 2017, "Attention Is All
    You Need", section 3.5.
    """

    def __init__(
        self, dropout: float = 0.0, base: float = 10000.0, *, seed: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.dropout = dropout
        self.base = checked_base(base)
        self.seed = checked_seed(seed)
        self._dropout = Dropout(dropout, seed, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape: tuple) -> None:
        if len(input_shape) != 4 or input_shape[-1] is None:
            raise ValueError(
                "The inputs must have shape [batch, height, width, features] with the number of features "
                f"known. Received shape {tuple(input_shape)}."
            )
        self._features = input_shape[-1]
        self.input_spec = keras.layers.InputSpec(ndim=4, axes={-1: self._features})

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        inputs = ops.cast(inputs, self.compute_dtype)
        _, height, width, _ = ops.shape(inputs)
        encoding = ops.cast(self._encoding(height, width), inputs.dtype)  # [R, C, D]
        return self._dropout(inputs + encoding, training=training)

    def rematerialized_call(self, layer_call: Any, *args: Any, **kwargs: Any) -> Any:
        """Return `layer_call` as the `keras.RematScope` says in which the layer was made; Keras calls it."""
        return call_in_scope(self, super().rematerialized_call, layer_call, *args, **kwargs)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "dropout": self.dropout, "base": self.base, "seed": self.seed}

    def _encoding(self, height: Tensor, width: Tensor) -> Tensor:
        """Return the encoding of each cell, float32 or float64 `[R, C, D]`."""
        second = self._features // 2
        first = self._features - second
        row, column = (ops.arange(size, dtype="int32") for size in (height, width))
        rows = sinusoids(row, first, self.base, self.compute_dtype)  # [R, ceil(D / 2)]
        rows = ops.pad(rows, [[0, 0], [0, second]])  # [R, D]
        if not second:
            return ops.broadcast_to(rows[:, None], (height, width, self._features))
        columns = sinusoids(column, second, self.base, self.compute_dtype)  # [C, floor(D / 2)]
        return rows[:, None] + ops.pad(columns, [[0, 0], [first, 0]])  # a sum with zeros, so exact


def _counted(length: Tensor, first: int) -> Tensor:
    """Return positions from `first` on, int32 `[T]`."""
    positions = ops.arange(length, dtype="int32")
    return positions + first if first else positions


def checked_positions(inputs: Tensor, offset: Tensor, positions: Tensor | None) -> Tensor | None:
    """Return `positions` as an int32 tensor `[T]` or `[B, T]`, or None if they count from `offset`.

    Args:
        inputs: `[B, T, D]`.
        offset: position of the first token, an int or an int scalar tensor.
        positions: int `[T]` or `[B, T]`, or None.

    Raises:
        ValueError: for positions or an offset that are no integers or of another shape, or both given.
    """
    start = as_given(offset)
    if not holds_integers(start) or len(start.shape):
        raise ValueError(f"`offset` must be an integer. Received {offset!r}.")
    if positions is None:
        return None
    if not isinstance(offset, int) or offset:
        raise ValueError(f"Pass `offset` or `positions`, not both. Received offset={offset!r} and positions.")
    given = as_given(positions)
    if not holds_integers(given):
        raise ValueError(f"`positions` must hold integers. Received dtype {dtype_name(given)}.")
    batch, length = ops.shape(inputs)[:2]
    wanted = [length] if len(given.shape) == 1 else [batch, length]
    return ops.cast(of_shape("positions", given, wanted, "[length] or [batch, length]"), "int32")


def token_positions(inputs: Tensor, offset: Tensor, positions: Tensor | None) -> Tensor:
    """Return the position of each token of `inputs`, int32 `[T]` or `[B, T]`; see `checked_positions`."""
    given = checked_positions(inputs, offset, positions)
    if given is not None:
        return given
    return ops.arange(ops.shape(inputs)[1], dtype="int32") + ops.cast(offset, "int32")
