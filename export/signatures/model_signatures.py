"""The signatures of a model: raw rows, tf.Examples or tokens in; named answers or attention weights out.

Axes: B (rows), T (query positions), S (key positions), H (heads), L (layers).
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn.models.attention_weights import collected_weights
from keras_selfattn.models.vocabulary import PADDING_ID

from ..weights import Weights
from .explain import named_weights
from .image_preprocessing import ImageFront
from .named_outputs import Answers, Classification, Numbers
from .piece_preprocessing import PieceFront
from .preprocessing import Front, TextFront
from .token_preprocessing import PieceTokenFront
from .trial_requests import Request

Tensor = Any
_ragged: Any = tf.RaggedTensor

# Padding up to here, in tokens, costs less than a loop over groups of rows.
_PADDING = 2**14


def by_length(
    ids: Tensor,
    outputs: Callable[[Any], Tensor],
    columns: int,
    padding_id: int,
    beside: Tensor | None = None,
) -> Tensor:
    """Return the outputs of a model for each row, `[B, C]`, with bounded padding.

    If padding all rows to the longest would more than double the tokens, rows are sorted by length and go
    through the model in groups. In a group no row is shorter than half of the longest.

    Args:
        ids: int32 ragged `[B, T]`.
        outputs: from padded ids, int32 `[B, T]`, to float32 `[B, C]`; or from a list of them and `beside`.
        columns: C.
        padding_id: the id of padding.
        beside: other inputs of each row, `[B, ...]`.
    """
    others = [] if beside is None else [beside]
    lengths = tf.cast(ids.row_lengths(), tf.int32)  # [B]
    padded = tf.size(lengths) * tf.reduce_max(tf.concat([lengths, [0]], axis=0))
    total = tf.size(ids.flat_values)

    # As a separate function, a branch that is not taken costs its callers nothing.
    @tf.function(autograph=False, experimental_attributes={"_noinline": True})
    def in_groups(values: Tensor, splits: Tensor, *others: Tensor) -> Tensor:
        rows = _ragged.from_row_splits(values, splits, validate=False)
        return _in_groups(rows, others, outputs, padding_id)

    found = tf.cond(
        padded <= 2 * total + _PADDING,
        lambda: outputs(_joined(ids.to_tensor(padding_id), others)),
        lambda: in_groups(ids.flat_values, ids.row_splits, *others),
    )
    return tf.ensure_shape(found, [None, columns])


def _joined(padded: Tensor, others: Sequence[Tensor]) -> Any:
    return [padded, *others] if others else padded


def _in_groups(
    ids: Tensor, others: Sequence[Tensor], outputs: Callable[[Any], Tensor], padding_id: int
) -> Tensor:
    lengths = tf.cast(ids.row_lengths(), tf.int32)
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)  # [B]
    lengths = tf.gather(lengths, order)
    rows = tf.size(order)

    def group(start: Tensor, count: Tensor, found: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        end = tf.math.count_nonzero(2 * lengths >= lengths[start], dtype=tf.int32)
        chosen = order[start:end]
        padded = tf.gather(ids, chosen).to_tensor(padding_id)
        beside = [tf.gather(other, chosen) for other in others]
        return end, count + 1, found.write(count, outputs(_joined(padded, beside)))

    found = tf.TensorArray(tf.float32, size=0, dynamic_size=True, infer_shape=False)
    _, _, found = tf.while_loop(lambda start, *_: start < rows, group, (0, 0, found), parallel_iterations=1)
    return tf.gather(found.concat(), tf.math.invert_permutation(order))


def can_parse(specs: dict[str, Any]) -> bool:
    """Return True if Examples can hold the inputs: at most the first axis after the batch is unknown."""
    return all(
        spec.shape.rank is not None
        and all(size is not None for size in spec.shape[2:])
        and (spec.dtype == tf.string or spec.dtype.is_floating or spec.dtype.is_integer)
        for spec in specs.values()
    )


def parsed(serialized: Tensor, specs: dict[str, Any], padding: float = 0) -> list[Tensor]:
    """Return the inputs held by Examples `[B]`, each a feature under its input's name.

    An input of unknown length is a flat list of its numbers; rows are padded to the longest, with zeros
    unless the model has another `padding`.
    """
    features = {name: _feature(spec) for name, spec in specs.items()}
    found = tf.io.parse_example(serialized, features)
    return [_shaped(found[name], spec, padding) for name, spec in specs.items()]


def serialized_examples(request: Request) -> np.ndarray:
    """Return the rows of a request as serialized Examples, bytes `[B]`."""
    rows = len(next(iter(request.values())))
    found = np.empty(rows, dtype=object)
    found[:] = [example(request, row).SerializeToString(deterministic=True) for row in range(rows)]
    return found


def example(request: Request, row: int) -> Any:
    """Return one row of a request as a `tf.train.Example`."""
    return tf.train.Example(
        features=tf.train.Features(feature={name: _values(array[row]) for name, array in request.items()})
    )


def _wire_dtype(dtype: Any) -> Any:
    return tf.string if dtype == tf.string else tf.float32 if dtype.is_floating else tf.int64


def _feature(spec: Any) -> Any:
    dtype, shape = _wire_dtype(spec.dtype), spec.shape[1:]
    if None in shape.as_list():
        return tf.io.RaggedFeature(dtype)
    return tf.io.FixedLenFeature(shape, dtype)


def _shaped(value: Tensor, spec: Any, padding: float) -> Tensor:
    if isinstance(value, tf.RaggedTensor):
        rest = spec.shape[2:].as_list()
        width = int(np.prod(rest))
        whole = tf.debugging.assert_equal(
            value.row_lengths() % width,
            0,
            f"{spec.name}: not {width} numbers a position",
        )
        with tf.control_dependencies([whole]):
            dense = value.to_tensor(padding or None)  # [B, T width]
        value = tf.reshape(dense, [tf.shape(dense)[0], tf.shape(dense)[1] // width, *rest])
    return tf.cast(value, spec.dtype) if value.dtype != spec.dtype else value


def _values(value: Any) -> Any:
    flat = np.asarray(value).reshape(-1)
    if flat.dtype.kind in "OSU":
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=list(flat)))
    if flat.dtype.kind in "iub":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=flat.astype(np.int64)))
    return tf.train.Feature(float_list=tf.train.FloatList(value=flat.astype(np.float32)))


MOST_ASKED = "serving_default"

PREDICT = "tensorflow/serving/predict"
CLASSIFY = "tensorflow/serving/classify"
REGRESS = "tensorflow/serving/regress"


@dataclass(frozen=True)
class Signature:
    """A signature of a model.

    Args:
        function: a `tf.function` with an input signature, which returns tensors by name.
        requests: calls to try it with; the first is an example of one row.
        method_name: the call of TensorFlow Serving that it is for.
    """

    function: Any
    requests: Sequence[Request]
    method_name: str = PREDICT

    @functools.cached_property
    def concrete(self) -> Any:
        """The trace of `function`, made once: it takes seconds, and the card describes what is written."""
        return self.function.get_concrete_function()

    def arguments(self, request: Request) -> list[Tensor]:
        """Return a request as the arguments of `function`."""
        return [tf.constant(request[spec.name], spec.dtype) for spec in specs_of(self.function)]


class Graphs:
    """The signatures of a model, around one trace of it; raw rows and Examples share the front's."""

    def __init__(self, model: keras.Model, weights: Weights, front: Front, answers: Answers) -> None:
        self._model, self._weights, self._front, self._answers = model, weights, front, answers
        self._core = tf.function(self._answer, autograph=False)
        self._raw = tf.function(lambda *raw: self._core(self._read(*raw)), autograph=False)
        self._traced = tf.function(self._outputs, autograph=False)

    def signatures(self, requests: Sequence[Request]) -> dict[str, Signature]:
        """Return the signatures that fit the model's inputs and outputs."""
        front, answers = self._front, self._answers
        found = {MOST_ASKED: Signature(_function(front.specs, self._raw), requests)}
        if not can_parse(front.specs):
            return found
        examples = [{"inputs": serialized_examples(request)} for request in requests]
        if isinstance(answers, Classification):
            found["classify"] = Signature(self._on_examples(answers.classes), examples, CLASSIFY)
        elif isinstance(answers, Numbers) and answers.single:
            found["regress"] = Signature(self._on_examples(answers.regressed), examples, REGRESS)
        return found

    def on_tokens(self, front: TextFront) -> Any:
        """Return the function from tokens, string `[B, T]`, to named answers."""
        specs = {"tokens": tf.TensorSpec([None, None], tf.string, name="tokens")}

        def answer(tokens: Tensor) -> dict[str, Tensor]:
            with self._weights.used():
                inputs = front.of_tokens(tokens)
            return self._answers.named(self._traced(inputs))

        return _function(specs, answer)

    def on_files(self, front: ImageFront) -> Any:
        """Return the function from images in files, string `[B]`, to named answers."""
        return _function(front.file_specs, lambda *raw: self._core(front.from_files(*raw)))

    def explain_texts(self, front: TextFront | PieceFront | PieceTokenFront) -> Any:
        """Return the function from raw rows to their tokens, or pieces, and the weights between them."""

        def explain(rows: Tensor) -> dict[str, Tensor]:
            tokens, ids = front.explained(rows)  # [B, T]
            with collected_weights(self._model) as weights:
                self._outputs(front.alone(ids))
            found = named_weights(weights, together=True)["weights"]  # [B, L, H, T, S]
            real = tf.cast(ids != PADDING_ID, tf.float32)
            return {"tokens": tokens, "weights": found * real[:, None, None, :, None]}

        return _function(front.specs, explain)

    def explain(self, *, together: bool, read: Callable[..., Any] | None = None) -> Any:
        """Return the function from raw inputs, read by the front or `read`, to the weights of positions."""
        read = read or self._front

        def explain(*raw: Tensor) -> dict[str, Tensor]:
            with collected_weights(self._model) as weights:
                self._outputs(read(*raw))
            return named_weights(weights, together=together)

        return _function(self._front.specs, explain)

    def _on_examples(self, answer: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> Any:
        specs = {"inputs": tf.TensorSpec([None], tf.string, name="inputs")}
        front, padding = self._front, getattr(self._front, "padding", 0)
        return _function(specs, lambda rows: answer(self._raw(*parsed(rows, front.specs, padding))))

    def _read(self, *raw: Tensor) -> Any:
        """Return the model's inputs, preprocessed by the front."""
        with self._weights.used():
            return self._front(*raw)

    def _answer(self, inputs: Any) -> dict[str, Tensor]:
        ids, *beside = inputs if isinstance(inputs, list) else [inputs]
        if isinstance(ids, tf.RaggedTensor):
            outputs = by_length(ids, self._traced, self._model.output_shape[-1], PADDING_ID, *beside)
        else:
            # Not the traced function: it would lose the outputs' mask, which is an attribute in Keras.
            outputs = self._outputs(inputs)
        return self._answers.named(outputs)

    def _outputs(self, inputs: Any) -> Any:
        with self._weights.used():
            return self._model(inputs, training=False)


def _function(specs: Mapping[str, Any], function: Callable[..., dict[str, Tensor]]) -> Any:
    def call(*raw: Tensor) -> dict[str, Tensor]:  # the specs alone name its inputs
        return function(*raw)

    return tf.function(call, input_signature=list(specs.values()), autograph=False)


def specs_of(function: Any) -> list[Any]:
    """Return the inputs of a `tf.function` with an input signature."""
    return keras.tree.flatten(function.input_signature)
