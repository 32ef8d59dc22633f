"""The embedding of a pretrained encoder: tokens and, if it has them, positions and types; normalised.

Axes: B (texts), T (tokens), E (features of the tables), D (features of the encoder).
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_selfattn.layers.feed_forward import gelu_tanh
from keras_selfattn.layers.tensorflow.int8_products import constant_kernels
from keras_selfattn.layers.tensorflow.norm_and_bias import layer_norm
from keras_selfattn.layers.weights.projection import Dense
from keras_selfattn.layers.weights.settings import unless_to_come
from keras_selfattn.models.saving.weight_parts import assign, save

Tensor = Any

ACTIVATIONS: dict[str, Any] = {"gelu": "gelu", "gelu_tanh": gelu_tanh, "relu": "relu", "silu": "silu"}


@keras.saving.register_keras_serializable(package="keras_selfattn")
class PretrainedEmbedding(keras.layers.Layer):
    """The sum of the vectors of a token, its position and its type, normalised; dropout; a projection.

    Args:
        vocabulary_size: rows of the table of tokens.
        width: features of the outputs.
        positions: tokens for which there are positions; 0 for no table of them.
        token_types: rows of the table of types; 0 for none.
        embedding_width: features of the tables; None for `width`, without a projection.
        norm_epsilon: positive number added to the variance.
        dropout: rate in [0, 1), in training.
        norm_shift: False for a normalisation with a gain alone.
        padding_position: True if padding has a position of its own, the first row of the table, and is not
            counted in the positions of the tokens after it, as in RoBERTa and MPNet.
        written_padding: id of the padding token as a part of a text, which is no padding but a token with the
            vector, and the position, of padding; None for none.
        norm: False for no normalisation.

    On TensorFlow, Keras does not compile a model with this layer by XLA (`jit_compile`).

    Call arguments:
        inputs: int32 `[batch, length]` token ids with 0 as padding, wherever it stands; at most `positions`
            long, if there is a table of them.
        types: int32 `[batch, length]`, the type of each token; all 0 by default.
        training: dropout acts only if True.

    Returns:
        float `[batch, length, width]`, with a mask of the real tokens.

    Attributes:
        stored: returns the tokens' vectors of ids where an export holds them in another form; None for the
            table.

    Example:

        >>> import numpy as np
        >>> layer = PretrainedEmbedding(vocabulary_size=10, width=4, positions=8)
        >>> layer(np.array([[5, 7, 0]])).shape
        TensorShape([1, 3, 4])

    References: Devlin et al. 2019, "BERT", section 3, figure 2; Clark et al. 2020, "ELECTRA", section 3.2
    (`embedding_width`); Liu et al. 2019, "RoBERTa", and its code, `make_positions` (`padding_position`).
    """

    def __init__(
        self,
        vocabulary_size: int,
        width: int,
        positions: int,
        token_types: int = 0,
        embedding_width: int | None = None,
        norm_epsilon: float = 1e-12,
        dropout: float = 0.0,
        norm_shift: bool = True,
        padding_position: bool = False,
        written_padding: int | None = None,
        norm: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size, self.width, self.positions = vocabulary_size, width, positions
        self.token_types, self.embedding_width = token_types, embedding_width
        self.norm_epsilon, self.dropout, self.norm_shift = norm_epsilon, dropout, norm_shift
        self.padding_position, self.written_padding, self.norm = padding_position, written_padding, norm
        self.stored: Callable[[Tensor], Tensor] | None = None
        # XLA compiles no moments that grow with the rows in use (`FineTuningAdamW`).
        self.supports_jit = keras.backend.backend() != "tensorflow"
        self._norm = None
        if norm:
            self._norm = keras.layers.LayerNormalization(
                epsilon=norm_epsilon, center=norm_shift, dtype=self.dtype_policy, name="norm"
            )
        self._dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self._projection = None
        if embedding_width is not None:
            self._projection = Dense(width, dtype=self.dtype_policy, name="projection")

    def build(self, input_shape: tuple) -> None:
        width = self.embedding_width or self.width
        self._tokens = self._table("tokens", self.vocabulary_size, width)
        rows = self.positions + self.padding_position
        self._places = self._table("positions", rows, width) if self.positions else None
        self._types = self._table("types", self.token_types, width) if self.token_types else None
        shape = (*input_shape, width)
        if self._norm is not None:
            self._norm.build(shape)
        if self._projection is not None:
            self._projection.build(shape)

    @property
    def vectors(self) -> Any:
        """The table of tokens, `[vocabulary, E]`."""
        return self._tokens

    def call(self, inputs: Tensor, types: Tensor | None = None, training: bool | None = None) -> Tensor:
        ids = inputs
        if self.written_padding is not None:
            ids = ops.where(ops.equal(ids, self.written_padding), 0, ids)
        # The tables are no part of autocast: gradients of many tokens add up in the dtype of the weights.
        x = self._vectors_of(ids) if self.stored is None else self.stored(ids)  # [B, T, E]
        if self._places is not None:
            x = x + self._positions_of(ids)
        if self._types is not None:
            x = x + (self._types[0] if types is None else ops.take(self._types, types, axis=0))
        x = ops.cast(x, self.compute_dtype)
        x = self._dropout(self._normalised(x), training=training)
        return x if self._projection is None else self._projection(x)  # [B, T, D]

    def _normalised(self, x: Tensor) -> Tensor:
        """Return `[B, T, E]` normalised."""
        if self._norm is None or constant_kernels.get() is None:
            return x if self._norm is None else self._norm(x)
        # In int8 the last bit decides how a token is rounded, and that of Keras' layer depends on the batch.
        rows = tf.reshape(x, [-1, x.shape[-1]])
        rows = layer_norm(rows, self._norm.gamma, self._norm.beta, self.norm_epsilon)
        return tf.reshape(rows, tf.shape(x))

    def compute_mask(self, inputs: Tensor, previous: Any = None) -> Tensor:
        return ops.not_equal(inputs, 0)

    def _vectors_of(self, ids: Tensor) -> Tensor:
        if keras.backend.backend() != "tensorflow":
            return ops.take(self._tokens, ids, axis=0)
        # Keras' own operation reads the whole table, a copy of it once an optimizer moves rows of it.
        return tf.gather(self._tokens.value, ids)

    def _positions_of(self, ids: Tensor) -> Tensor:
        """Return the vectors of the positions of ids, in which all padding is 0: `[T, E]` or `[B, T, E]`."""
        length = ops.shape(ids)[1]
        if not self.padding_position:
            return self._places[:length]
        counted = ops.cast(ops.not_equal(ids, 0), "int32")
        # From a part of the table, so that its gradient is as dense as without padding's position.
        return ops.take(self._places[: length + 1], ops.cumsum(counted, axis=1) * counted, axis=0)

    def compute_output_shape(self, input_shape: tuple, *_: Any) -> tuple:
        return (*input_shape, self.width)

    def save_own_variables(self, store: Any) -> None:
        # As Keras does, without its copies of the table.
        for place, weight in enumerate(self._own()):
            save(store, str(place), weight)

    def load_own_variables(self, store: Any) -> None:
        own = self._own()
        if len(store.keys()) != len(own):
            super().load_own_variables(store)  # raises Keras' error
            return
        for place, weight in enumerate(own):
            assign(weight, store[str(place)])

    def _own(self) -> list[Any]:
        return [each for each in (self._tokens, self._places, self._types) if each is not None]

    def get_config(self) -> dict[str, Any]:
        names = ("vocabulary_size", "width", "positions", "token_types", "embedding_width", "norm_epsilon")
        names += ("dropout", "norm_shift", "padding_position", "written_padding", "norm")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}

    def _table(self, name: str, rows: int, width: int) -> Any:
        deviation = keras.initializers.RandomNormal(stddev=0.02)
        initializer = unless_to_come(deviation)
        return self.add_weight(name=name, shape=(rows, width), initializer=initializer, autocast=False)
