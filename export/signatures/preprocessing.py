"""Turn a caller's inputs into a model's inputs, inside the graph.

Axes: B (batch), T (positions).
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ExportError
from keras_selfattn.models import TextClassifier
from keras_selfattn.models.text.explanation import explained_tokens
from keras_selfattn.models.vocabulary import PADDING_ID, lowercased

from .trial_requests import TEXTS, Request, in_batches, made_up, strings

Tensor = Any

_MOST_TOKENS = 64  # of the warmup texts: one of each length


class Front(Protocol):
    """Preprocessing from named raw inputs to the inputs of a model.

    Attributes:
        specs: the raw inputs by name; the first axis of each is the batch.
        tracked: tables and other resources that must be saved, too.
    """

    specs: dict[str, Any]
    tracked: list[Any]

    def __call__(self, *raw: Tensor) -> Any:
        """Return the model's inputs."""
        ...

    def requests(self) -> list[Request]:
        """Return requests to try the model with, of several sizes; the first is an example of one row."""
        ...


class TextFront:
    """Preprocess raw text for a text model's core: token ids, and logits of the wide path if there is one."""

    subject = "text"

    def __init__(self, model: TextClassifier) -> None:
        self._model, self._tokenizer = model, model.tokenizer
        self.specs = {"text": tf.TensorSpec([None], tf.string, name="text")}
        self.tracked = [self._tokenizer.table]
        self._between = " " if self._tokenizer.config.tokens == "words" else ""

    def __call__(self, *raw: Tensor) -> Any:
        return self._model.beside_wide(self._tokenizer(raw[0]), raw[0])  # the ids ragged [B, T]

    def of_tokens(self, tokens: Tensor) -> Any:
        """Return the same for tokens, string `[B, T]`, "" as padding; the ids are padded."""
        ids = self.ids(tokens)
        return self._model.beside_wide(ids, tf.strings.reduce_join(tokens, axis=1, separator=self._between))

    def alone(self, ids: Tensor) -> Any:
        """Return the same for token ids, int32 `[B, T]`, without the wide path."""
        return self._model.beside_wide(ids)

    def explained(self, texts: Tensor) -> tuple[Tensor, Tensor]:
        """Return the tokens of texts `[B]`, string `[B, T]`, padded with "", and their int32 ids."""
        return explained_tokens(self._tokenizer, texts)

    def ids(self, tokens: Tensor) -> Tensor:
        """Return the ids of tokens, string `[B, T]`, cut like texts, int32 `[B, T]`; "" is padding."""
        config = self._tokenizer.config
        tokens = tf.strings.unicode_transcode(
            tokens[:, : config.max_tokens], "UTF-8", "UTF-8", errors="replace"
        )
        if config.lowercase:
            tokens = lowercased(tokens)
        return tf.where(tokens == "", PADDING_ID, self._tokenizer.table.lookup(tokens))

    def requests(self) -> list[Request]:
        words = [*self._tokenizer.vocabulary[:64], "unknown-token"]
        texts = [" ".join(words[:count]) for count in (3, 1, 2, 5, 7, 11, 17, 31, len(words))]
        return in_batches({"text": strings([*texts, *TEXTS, "\t\n ", *texts[::-1]])})

    def request_of_lengths(self) -> Request:
        """Return the request for texts of 1 to 64 tokens, one of each length."""
        tokens = [token for token in self._tokenizer.vocabulary if token.strip()][:3] or ["a"]
        texts = [self._between.join((tokens * count)[:count]) for count in range(1, _MOST_TOKENS + 1)]
        return {"text": strings(texts)}

    def asked(self, row: str) -> Request:
        """Return the request for a text."""
        return {"text": strings([row])}

    def token_request(self, request: Request) -> Request:
        """Return the request for the tokens of another request's texts."""
        tokens, _ = self.explained(tf.constant(request["text"], tf.string))
        return {"tokens": tokens.numpy()}

    def token_requests(self) -> list[Request]:
        """Return requests to try a signature that takes tokens."""
        words = self._tokenizer.vocabulary[:6]
        rows = [words, [words[0]], ["", ""], [*words, "unknown-token"]]
        length = max(map(len, rows))
        return in_batches({"tokens": np.stack([strings(row + [""] * (length - len(row))) for row in rows])})


class PlainFront:
    """The unchanged inputs of a Keras model, each under its name."""

    def __init__(self, model: keras.Model) -> None:
        self._structure = _inputs(model)
        tensors: list[Any] = keras.tree.flatten(self._structure)
        names = [_input_name(tensor, place) for place, tensor in enumerate(tensors)]
        if len(set(names)) != len(names):
            raise ExportError(f"The inputs of the model need names that differ. They are {', '.join(names)}.")
        # Keras fixes the size of the first batch if a model was built by calling it.
        self.specs = {
            name: tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype, name=name)
            for name, tensor in zip(names, tensors, strict=True)
        }
        self.tracked: list[Any] = []

    def __call__(self, *raw: Tensor) -> Any:
        return keras.tree.pack_sequence_as(self._structure, list(raw))

    def requests(self) -> list[Request]:
        return made_up(self.specs)


class PreprocessFront:
    """The user's own function from raw inputs to a model's inputs.

    Args:
        preprocess: a `tf.function` with an input signature, a `tf.Module` whose `__call__` is one (its
            tables are saved, too), or a Keras layer or any function that takes one string tensor `[B]`.
    """

    def __init__(self, preprocess: Callable[..., Any]) -> None:
        self._preprocess = preprocess
        signature: Any = _input_signature(preprocess)
        if signature is None:
            signature = [tf.TensorSpec([None], tf.string, name="text")]
        if len({spec.name for spec in signature} - {None}) != len(signature):
            raise ExportError(
                "Each tf.TensorSpec of `preprocess` needs a name of its own: clients ask by it."
            )
        self.specs = {str(spec.name): spec for spec in signature}
        self.tracked = [preprocess] if isinstance(preprocess, tf.Module) else []
        if isinstance(preprocess, keras.layers.Layer):
            self.tracked = layer_resources(preprocess)

    def __call__(self, *raw: Tensor) -> Any:
        return self._preprocess(*raw)

    def requests(self) -> list[Request]:
        return made_up(self.specs)


def layer_resources(layer: keras.layers.Layer) -> list[Any]:
    """Return variables and lookup tables of a Keras layer and of all its sublayers."""
    below = layer._flatten_layers(include_self=True, recursive=True)
    resource = tf.saved_model.experimental.TrackableResource
    tables = [value for part in below for value in vars(part).values() if isinstance(value, resource)]
    return [weight.value for weight in layer.weights] + tables


def _inputs(model: keras.Model) -> Any:
    try:
        # A functional model keeps their structure, a dict for example; `inputs` is flat.
        inputs = getattr(model, "_inputs_struct", None)
        inputs = model.inputs if inputs is None else inputs
    except (AttributeError, ValueError):
        inputs = None
    if all(tensor is None for tensor in keras.tree.flatten(inputs)):
        raise ExportError(
            "The model's inputs are unknown. Build it as a functional or Sequential model with an Input, "
            "or give `preprocess`, a tf.function with an input signature that returns what the model takes."
        )
    if isinstance(inputs, list | tuple) and len(inputs) == 1:
        return inputs[0]
    return inputs


def _input_name(tensor: Any, place: int) -> str:
    name = getattr(tensor, "name", None) or f"input_{place}"
    return "".join(character if character.isalnum() or character == "_" else "_" for character in name)


def _input_signature(preprocess: Any) -> Sequence[Any] | None:
    function = preprocess
    if isinstance(preprocess, tf.Module):
        function = getattr(type(preprocess), "__call__", None)  # noqa: B004  its signature counts
    signature = getattr(function, "input_signature", None)
    return None if signature is None else list(keras.tree.flatten(signature))
