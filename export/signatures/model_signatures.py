"""The signatures of a model: raw rows, tf.Examples or tokens in; named answers or attention weights out.

Axes: B (rows), T (query positions), S (key positions), H (heads), L (layers).
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn.models.core.attention_weights import Collected, collected_weights
from keras_selfattn.models.tokens.raw_texts import rows_at
from keras_selfattn.models.vocabulary import PADDING_ID
from keras_selfattn.serving.wire.signature_names import (
    DEFAULT_SIGNATURE,
    EXAMPLES,
    LABEL,
    NAMED_SCORES,
    PROBABILITIES,
    SCORE,
    TEXT,
)

from ..saved_weights import Weights
from .answers import Answers
from .explain import named_weights
from .preprocessing import Front
from .tf_examples import can_parse, parsed, serialized_examples
from .trial_requests import Request

Tensor = Any
_ragged: Any = tf.RaggedTensor

# Padding up to here, in tokens, costs less than another group of rows.
_PADDING = 2**14
# Variables of a model, of some 3 layers, up to which the graph may hold it twice: a lone row through 2 layers
# takes a tenth less time so. Through 6 it takes 3 % less, and a server 2.7 CPU s more until it is ready.
_MOST_REPEATED = 64


def by_length(
    ids: Tensor,
    outputs: Callable[[Any], Tensor],
    columns: int,
    padding_id: int,
    beside: Tensor | None = None,
    *,
    may_repeat: bool = False,
) -> Tensor:
    """Return the outputs of a model for each row, float32 `[B, C]`, with bounded padding.

    If padding all rows to the longest would more than double the tokens, rows are sorted by length and go
    through the model in groups. In a group no row is shorter than half of the longest.

    Args:
        ids: int32 ragged `[B, T]`, or `[B, T, K]`.
        outputs: from padded ids, int32 `[B, T]`, to float32 `[B, C]`; or from a list of them and `beside`.
        columns: C.
        padding_id: the id of padding.
        beside: other inputs of each row, `[B, ...]`.
        may_repeat: True if the graph may hold the model twice, so that rows of one group need no loop.
    """
    values = ids.flat_values
    total = tf.size(values) if values.shape.rank == 1 else tf.shape(values)[0]
    lengths = tf.cast(ids.row_lengths(), tf.int32)  # [B]
    together = _may_be_padded(lengths, total)

    def answers(rows: Tensor) -> list[Tensor]:
        padded = tf.gather(ids, rows).to_tensor(padding_id)
        return [outputs(padded if beside is None else [padded, tf.gather(beside, rows)])]

    def in_groups() -> Tensor:
        (found,), order = _in_groups(lengths, together, answers, [tf.zeros([0, columns])])
        return tf.gather(found, tf.math.invert_permutation(order))

    def at_once() -> Tensor:
        padded = ids.to_tensor(padding_id)
        return outputs(padded if beside is None else [padded, beside])

    if may_repeat:
        # As a separate function, a branch that is not taken costs its callers nothing.
        apart = tf.function(in_groups, autograph=False, experimental_attributes={"_noinline": True})
        found = tf.cond(together, at_once, apart)
    else:
        found = in_groups()
    return tf.ensure_shape(found, [None, columns])


def at_tokens(tokens: Tensor, answers: Callable[[Tensor], dict[str, Tensor]]) -> tuple[Tensor, Tensor]:
    """Return the label and the score of each token, string and float32 `[W]`, in groups as `by_length`.

    Args:
        tokens: string ragged `[B, T]`.
        answers: from padded tokens, string `[B, T]`, to `label` and `score`, `[B, T]`.
    """

    def of_group(rows: Tensor) -> list[Tensor]:
        chosen = tf.gather(tokens, rows)
        found = answers(chosen.to_tensor(""))
        place = tf.range(tf.size(chosen.flat_values, tf.int64))
        of_place = rows_at(chosen.row_splits, place)
        index = tf.stack([of_place, place - tf.gather(chosen.row_splits, of_place)], axis=1)
        return [tf.gather_nd(found[name], index) for name in (LABEL, SCORE)]

    lengths, places = tf.cast(tokens.row_lengths(), tf.int32), tf.range(tf.size(tokens.flat_values))
    together = _may_be_padded(lengths, tf.size(places))
    empty = [tf.zeros([0], tf.string), tf.zeros([0])]
    (labels, scores), order = _in_groups(lengths, together, of_group, empty)
    # The tokens of the sorted rows, back to the places of their rows.
    sorted_rows = _ragged.from_row_lengths(places, tf.gather(lengths, order), validate=False)
    places = tf.gather(sorted_rows, tf.math.invert_permutation(order)).flat_values  # [W]
    return tf.gather(labels, places), tf.gather(scores, places)


def _may_be_padded(lengths: Tensor, total: Tensor) -> Tensor:
    """Return True if padding rows to the longest at most doubles their tokens, or adds few."""
    longest = tf.reduce_max(tf.concat([lengths, [0]], axis=0))
    return tf.size(lengths) * longest <= 2 * total + _PADDING


def _in_groups(
    lengths: Tensor, together: Tensor, answers: Callable[[Tensor], list[Tensor]], empty: Sequence[Tensor]
) -> tuple[list[Tensor], Tensor]:
    """Return a model's answers to groups of rows of similar length, and the rows in their order, int32 `[B]`.

    There is a loop even where all rows are one group: a branch beside it would have the model twice in the
    graph, which a server then loads and prepares.

    Args:
        lengths: of the rows, int32 `[B]`.
        together: True if they are one group whatever their lengths.
        answers: from a group's rows, int32 `[G]`, to tensors `[N, ...]`; those of all groups are joined.
        empty: what `answers` would return for no row.
    """
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)
    rows, lengths = tf.size(order), tf.gather(lengths, order)

    def group(start: Tensor, count: Tensor, *found: Any) -> tuple[Any, ...]:
        end = tf.where(together, rows, end_of_group(lengths, start))
        outputs = answers(order[start:end])
        return end, count + 1, *(each.write(count, out) for each, out in zip(found, outputs, strict=True))

    found = [tf.TensorArray(each.dtype, size=0, dynamic_size=True, infer_shape=False) for each in empty]
    _, count, *found = tf.while_loop(
        lambda start, *_: start < rows, group, (0, 0, *found), parallel_iterations=1
    )
    # Of no row, too, so that there is something to join.
    return [each.write(count, rest).concat() for each, rest in zip(found, empty, strict=True)], order


def end_of_group(lengths: Tensor, start: Tensor) -> Tensor:
    """Return the end of a group of rows by falling length: none is shorter than half of its first."""
    return tf.math.count_nonzero(2 * lengths >= lengths[start], dtype=tf.int32)


MOST_ASKED = DEFAULT_SIGNATURE

PREDICT = "tensorflow/serving/predict"
CLASSIFY = "tensorflow/serving/classify"
REGRESS = "tensorflow/serving/regress"
_OF_EXAMPLES = {"classify": CLASSIFY, "regress": REGRESS, NAMED_SCORES: CLASSIFY}


@dataclass(frozen=True)
class Signature:
    """A signature of a model.

    Args:
        function: a `tf.function` with an input signature, which returns tensors by name.
        requests: calls to try it with; the first is an example of one row.
        method_name: the call of TensorFlow Serving that it is for.
        padding: by input, the value that lengthens the second axis of its rows and changes no answer. Outputs
            whose second size is unknown grow as the inputs do. Without it, rows of other lengths stay apart.
        margins: from the arguments of `function` to the distance of each row from another answer, float32
            `[B]`, where the outputs do not tell it; run eagerly, for the check of an export.
        note: a sentence for the card about what to know before it is asked; "" for none.
        defaults: by input that a request may leave out, its value, `[1, ...]`.
    """

    function: Any
    requests: Sequence[Request]
    method_name: str = PREDICT
    padding: Mapping[str, float | str] = field(default_factory=dict[str, float | str])
    margins: Callable[..., Tensor] | None = None
    note: str = ""
    defaults: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])

    @functools.cached_property
    def concrete(self) -> Any:
        """The trace of `function`, made once: it takes seconds, and the card describes what is written."""
        return self.function.get_concrete_function()

    def arguments(self, request: Request) -> list[Tensor]:
        """Return a request as the arguments of `function`."""
        return [tf.constant(request[spec.name], spec.dtype) for spec in specs_of(self.function)]


class Graphs:
    """The signatures of a model, around one trace of it; raw rows and Examples share the front's.

    Args:
        model: the core of a model of raw rows, or any Keras model.
        weights: its weights in the file.
        front: reads the inputs.
        answers: names the outputs.
        encoders: number of encoders side by side.
    """

    def __init__(
        self, model: keras.Model, weights: Weights, front: Front, answers: Answers, encoders: int = 1
    ) -> None:
        self._model, self._weights, self._front, self._answers = model, weights, front, answers
        self._encoders = encoders
        self._padding = front.padding
        self._core = tf.function(self._answer, autograph=False)
        self._raw = tf.function(lambda *raw: self._core(self._read(*raw)), autograph=False)
        self._traced = tf.function(self._outputs, autograph=False)

    def signatures(self, requests: Sequence[Request]) -> dict[str, Signature]:
        """Return the signatures that fit the model's inputs and outputs."""
        front = self._front
        padding = {} if self._padding is None else dict.fromkeys(front.specs, self._padding)
        found = {MOST_ASKED: Signature(self.most_asked, requests, padding=padding)}
        if not can_parse(front.specs):
            return found
        examples = [{EXAMPLES: serialized_examples(request)} for request in requests]
        for name, answer in self._answers.of_examples().items():
            found[name] = Signature(self._on_examples(answer), examples, _OF_EXAMPLES[name])
        return found

    @functools.cached_property
    def most_asked(self) -> Any:
        """The function from raw rows to named answers."""
        return _function(self._front.specs, self._raw)

    def on_tokens(self, of_tokens: Callable[[Tensor], Any]) -> Any:
        """Return the function from tokens, string `[B, T]`, to named answers.

        Args:
            of_tokens: from tokens to the model's inputs.
        """
        specs = {"tokens": tf.TensorSpec([None, None], tf.string, name="tokens")}

        def answer(tokens: Tensor) -> dict[str, Tensor]:
            with self._weights.used():
                inputs = of_tokens(tokens)
            return self._answers.named(self._traced(inputs))

        return _function(specs, answer)

    def on_texts(
        self, tokens_of: Callable[[Tensor], Any], named: Callable[[Tensor, Tensor, Any], dict[str, Tensor]]
    ) -> Any:
        """Return the function from raw texts, string `[B]`, to what `named` makes of their tokens' labels.

        Args:
            tokens_of: from texts to their tokens, a named tuple with `tokens`, string ragged `[B, T]`.
            named: from the label and the score of each token, `[W]`, and what `tokens_of` returned.
        """
        specs = {TEXT: tf.TensorSpec([None], tf.string, name=TEXT)}

        def answer(texts: Tensor) -> dict[str, Tensor]:
            found = tokens_of(texts)
            return named(*at_tokens(found.tokens, lambda tokens: self._core(self._read(tokens))), found)

        return _function(specs, answer)

    def margins(self, tokens_of: Callable[[Tensor], Any]) -> Callable[[Tensor], Tensor]:
        """Return the function from raw texts to the distances of their tokens' labels from other labels.

        That of a text, float32 `[B]`, is the least by which the probability of a token's label exceeds all
        others of the token; -1 if it does not, as labels that are chosen as a row may; 1 without tokens.
        """

        def distances(texts: Tensor) -> Tensor:
            tokens = tokens_of(texts).tokens
            found = self._core(self._read(tokens.to_tensor("")))
            best = tf.math.top_k(
                tf.pad(found[PROBABILITIES], [[0, 0], [0, 0], [0, 1]]), 2
            ).values  # [B, T, 2]
            apart = tf.where(found[SCORE] == best[..., 0], best[..., 0] - best[..., 1], -1.0)
            real = tf.sequence_mask(tokens.row_lengths(), tf.shape(apart)[1])
            return tf.reduce_min(
                tf.pad(tf.where(real, apart, 1.0), [[0, 0], [0, 1]], constant_values=1.0), axis=1
            )

        return distances

    def on_files(self, specs: Mapping[str, Any], from_files: Callable[..., Any]) -> Any:
        """Return the function from rows in files, under the names of `specs`, to named answers."""
        return _function(specs, lambda *raw: self._core(from_files(*raw)))

    def explain_tokens(
        self, explained: Callable[..., tuple[Tensor, Tensor]], alone: Callable[[Tensor], Any]
    ) -> Any:
        """Return the function from raw rows to their tokens, or pieces, and the weights between them.

        Args:
            explained: from raw rows to their tokens, string `[B, T]`, and the ids of these, or ids and types
                `[B, T, 2]`.
            alone: from ids to the model's inputs.
        """

        def explain(*rows: Tensor) -> dict[str, Tensor]:
            tokens, ids = explained(*rows)  # [B, T]
            with collected_weights(self._model) as weights:
                self._outputs(alone(ids))
            found = named_weights(weights, together=True)
            ids = ids if ids.shape.rank == 2 else ids[..., 0]
            if self._front.orders > 1:
                found["weights"] = found["weights"][: tf.shape(ids)[0]]
            real = tf.cast(ids != PADDING_ID, tf.float32)
            found["weights"] *= real[:, None, None, :, None]  # [B, L, H, T, S]
            return {"tokens": tokens, **found, **self._of_encoders(weights, tf.shape(ids)[0])}

        return _function(self._front.specs, explain)

    def explain(
        self,
        *,
        together: bool,
        read: Callable[..., Any] | None = None,
        places: Callable[..., dict[str, Tensor]] | None = None,
    ) -> Any:
        """Return the function from raw inputs to the weights of positions.

        Args:
            together: True if all layers' weights have one shape.
            read: reads the inputs; by default the front does.
            places: from the inputs to outputs that say where the positions are.
        """
        read = read or self._front

        def explain(*raw: Tensor) -> dict[str, Tensor]:
            with collected_weights(self._model) as weights:
                self._outputs(read(*raw))
            found = named_weights(weights, together=together)
            found |= self._of_encoders(weights, tf.shape(raw[0])[0])
            return found | (places(*raw) if places else {})

        return _function(self._front.specs, explain)

    def beside_answers(
        self, told: Callable[..., dict[str, Tensor]], specs: Mapping[str, Any] | None = None
    ) -> Any:
        """Return the function from raw rows to what `told` computes of them with the exported weights.

        Args:
            told: from the inputs.
            specs: the inputs, if they are not the front's.
        """

        def tell(*raw: Tensor) -> dict[str, Tensor]:
            with self._weights.used():
                return told(*raw)

        return _function(specs or self._front.specs, tell)

    def _of_encoders(self, weights: Collected, rows: Tensor) -> dict[str, Tensor]:
        """Return the index of each layer's encoder, int32 `[B, L]`, if several stand side by side."""
        if self._encoders == 1:
            return {}
        # Each encoder runs as one layer, whichever runs first, so its layers' weights are neighbours.
        each = len(weights.attention) // self._encoders
        places = np.repeat(np.arange(self._encoders), each)[None]
        times: Any = [rows, 1]
        return {"encoders": tf.tile(tf.constant(places, tf.int32), times)}

    def _on_examples(self, answer: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> Any:
        specs = {EXAMPLES: tf.TensorSpec([None], tf.string, name=EXAMPLES)}
        front, padding = self._front, self._padding or 0
        return _function(specs, lambda rows: answer(self._raw(*parsed(rows, front.specs, padding))))

    def _read(self, *raw: Tensor) -> Any:
        """Return the model's inputs, preprocessed by the front."""
        with self._weights.used():
            return self._front(*raw)

    def _answer(self, inputs: Any) -> dict[str, Tensor]:
        ids, *beside = inputs if isinstance(inputs, list) else [inputs]
        if isinstance(ids, tf.RaggedTensor):
            columns, may_repeat = self._model.output_shape[-1], len(self._model.weights) <= _MOST_REPEATED
            outputs = by_length(ids, self._traced, columns, PADDING_ID, *beside, may_repeat=may_repeat)
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
