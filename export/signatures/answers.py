"""The answers of `serving_default`: label, score, probabilities, numbers or vector, by name, in the graph.

Those of `spans` follow from a labeller's: `Labelling.spans`.

Which label is taken, at a tie too, is said once, in `largest` and `at_least_half`. The answers of a head are
registered with `@raw_answers.register(ItsHead)`; the names are in `serving/wire/signature_names.py`.

Axes: B (batch), T (positions), C (classes), W (tokens of all texts), S (their spans), M (most of one text).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import singledispatch
from typing import Any, NamedTuple

import tensorflow as tf

from keras_selfattn.errors import ExportError
from keras_selfattn.models.heads.class_heads import ClassHead, Head, MultiLabelHead
from keras_selfattn.models.heads.label_rules import THRESHOLD
from keras_selfattn.models.heads.number_head import NumbersHead
from keras_selfattn.models.pretrained.vector_head import VectorHead
from keras_selfattn.models.sequences.search import Found
from keras_selfattn.models.sequences.sequence_head import AnswerHead
from keras_selfattn.models.tokens.position_head import PositionHead
from keras_selfattn.models.tokens.raw_texts import TextTokens, rows_at
from keras_selfattn.models.tokens.span_labels import PathRule, SpanDecoder
from keras_selfattn.models.tokens.text_spans import SpanMarks
from keras_selfattn.serving.wire.signature_names import (
    CANDIDATE_SCORES,
    CANDIDATES,
    CLASSES,
    COUNT,
    EMBEDDING,
    END,
    ENDED,
    LABEL,
    LABELS,
    NAMED_SCORES,
    PREDICTIONS,
    PROBABILITIES,
    REGRESSED,
    SCORE,
    SCORES,
    START,
    TEXT,
)

Tensor = Any


def largest(probabilities: Tensor) -> Tensor:
    """Return the index of the largest of probabilities `[..., C]`, int32 `[...]`; at a tie the first.

    `models/heads/label_rules.py` has the same rules in NumPy; `check.py` forgives what differs at a tie.
    """
    return tf.argmax(probabilities, axis=-1, output_type=tf.int32)


def at_least_half(probabilities: Tensor) -> Tensor:
    """Return which of probabilities `[..., C]` are one half or more, bool `[..., C]`."""
    return probabilities >= THRESHOLD


class Answers(ABC):
    """Names for a model's outputs.

    Attributes:
        task: the model's task, as the card calls it.
        label_rule: how labels follow from the probabilities, for programs that have these alone; None where
            there are no labels. "largest": the label of the largest probability; "at least 0.5": all labels
            with so much; "valid spans", "valid IOB1 spans" and "valid IOBES spans": the row of labels with
            the largest product of probabilities in which each may follow the one before, by the rule IOB2,
            IOB1 or IOBES.
    """

    task: str
    label_rule: str | None = None

    @abstractmethod
    def named(self, outputs: Any) -> dict[str, Tensor]:
        """Return the outputs of `serving_default`."""

    def numbers(self, outputs: Any) -> dict[str, Tensor]:
        """Return those of them that are numbers, without what follows from others."""
        return self.named(outputs)

    def of_examples(self) -> Mapping[str, Callable[[dict[str, Tensor]], dict[str, Tensor]]]:
        """Return the signatures of TensorFlow Serving's older calls that such answers fit.

        Each has the function from the named outputs to its own: "classify", "regress", or `NAMED_SCORES`.
        """
        return {}


class Classification(Answers):
    """One label for a row.

    Args:
        labels: label names in the order of the classes.

    The model returns probabilities `[B, C]`; or, for two classes, the probability of the second, `[B, 1]`.
    """

    task = "classification"
    label_rule = "largest"

    def __init__(self, labels: Sequence[str]) -> None:
        self._labels = tf.constant([label.encode() for label in labels], tf.string)

    def named(self, outputs: Tensor) -> dict[str, Tensor]:
        found = tf.cast(outputs, tf.float32)
        return self._likeliest(tf.concat([1 - found, found], axis=-1) if found.shape[-1] == 1 else found)

    def numbers(self, outputs: Tensor) -> dict[str, Tensor]:
        return {PROBABILITIES: self.named(outputs)[PROBABILITIES]}

    def of_examples(self) -> Mapping[str, Callable[[dict[str, Tensor]], dict[str, Tensor]]]:
        return {"classify": self.classes}

    def classes(self, named: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return all labels and their scores, `[B, C]` each, for the Classify call."""
        scores = named[PROBABILITIES]
        return {CLASSES: tf.broadcast_to(self._labels, tf.shape(scores)), SCORES: scores}

    def _likeliest(self, probabilities: Tensor) -> dict[str, Tensor]:
        """Return probabilities `[B, C]`, the label of the highest and its score."""
        return {
            PROBABILITIES: probabilities,
            LABEL: tf.gather(self._labels, largest(probabilities)),
            SCORE: tf.reduce_max(probabilities, axis=-1),
        }


class LabelSets(Classification):
    """Any number of labels for a row: those with a probability of one half or more.

    The model returns probabilities `[B, C]` that need not sum to 1, of one label or more.
    """

    task = "multi-label"
    label_rule = "at least 0.5"

    def named(self, outputs: Tensor) -> dict[str, Tensor]:
        found = self._likeliest(tf.cast(outputs, tf.float32))
        likely = at_least_half(found[PROBABILITIES])  # [B, C]
        return {**found, LABELS: tf.where(likely, self._labels, "")}


class Labelling(Answers):
    """A label for every position of a row.

    Args:
        labels: label names in the order of the classes.
        decoder: selects the labels of a row together; by default each is the most likely.

    The model returns probabilities `[B, T, C]`. Positions that it masks get "" and zeros.
    """

    task = "labelling"

    def __init__(self, labels: Sequence[str], decoder: SpanDecoder | None = None) -> None:
        self._labels = tf.constant([label.encode() for label in labels], tf.string)
        self._names = list(labels)
        self._decoder = decoder
        self.label_rule = "largest" if decoder is None else _SPAN_RULES[decoder.rule]

    def named(self, outputs: Tensor) -> dict[str, Tensor]:
        return self._chosen(outputs, self._decoder)

    def numbers(self, outputs: Tensor) -> dict[str, Tensor]:
        """Return the probabilities, without the decoder of spans, a loop over the labels of a whole row."""
        return {PROBABILITIES: self._chosen(outputs, None)[PROBABILITIES]}

    def spans(self, label: Tensor, score: Tensor, found: TextTokens) -> dict[str, Tensor]:
        """Return the spans of raw texts that the labels of their tokens mark, by the tables of `SpanMarks`.

        Args:
            label: the name of each token's label, string `[W]`.
            score: its probability, float32 `[W]`.
            found: the tokens of the texts.

        Returns:
            `label` string, `start` and `end` int32, `score` float32, `[B, M]` each, and `count` int32 `[B]`.
        """
        marks, splits = SpanMarks(self._names), found.tokens.row_splits
        texts = tf.size(splits, tf.int64) - 1
        place = tf.range(tf.size(label, tf.int64))
        rows = rows_at(splits, place)  # [W]
        chosen = tf.where(label[:, None] == self._labels)[:, 1]  # [W]: each is one of the labels
        before = tf.concat([[0], chosen[:-1]], axis=0)[: tf.size(chosen)]
        before = tf.where(place == tf.gather(splits, rows), tf.constant(len(self._names), tf.int64), before)
        begins = tf.gather_nd(tf.constant(marks.begins), tf.stack([before, chosen], axis=1))
        first = tf.where(begins)[:, 0]  # [S]
        spans, inside = tf.size(first), tf.where(tf.gather(tf.constant(marks.inside), chosen))[:, 0]
        number = tf.gather(tf.cumsum(tf.cast(begins, tf.int32)) - 1, inside)  # the spans of tokens in one
        ends = tf.gather(found.ends.flat_values, inside)
        named = {
            LABEL: tf.gather(tf.constant(marks.kinds), tf.gather(chosen, first)),
            START: tf.cast(tf.gather(found.starts.flat_values, first), tf.int32),
            END: tf.cast(tf.math.unsorted_segment_max(ends, number, spans), tf.int32),
            SCORE: tf.math.unsorted_segment_min(tf.gather(score, inside), number, spans),
        }
        rows = tf.gather(rows, first)  # [S]
        count = tf.math.unsorted_segment_sum(tf.ones_like(rows), rows, texts)  # [B]
        of_text = tf.range(tf.size(rows, tf.int64)) - tf.gather(tf.cumsum(count, exclusive=True), rows)
        index = tf.stack([rows, of_text], axis=1)
        shape = tf.stack([texts, tf.reduce_max(tf.concat([count, [0]], axis=0))])
        padded = {name: tf.scatter_nd(index, value, shape) for name, value in named.items()}
        return {**padded, COUNT: tf.cast(count, tf.int32)}

    def _chosen(self, outputs: Tensor, decoder: SpanDecoder | None) -> dict[str, Tensor]:
        mask = getattr(outputs, "_keras_mask", None)
        probabilities = tf.cast(outputs, tf.float32)
        if decoder is None:
            chosen = largest(probabilities)  # [B, T]
        else:
            chosen = decoder(probabilities, tf.fill(tf.shape(outputs)[:2], True) if mask is None else mask)
        label = tf.gather(self._labels, chosen)
        if mask is not None:
            probabilities = tf.where(mask[..., None], probabilities, 0.0)
            label = tf.where(mask, label, "")
        return {
            PROBABILITIES: probabilities,
            LABEL: label,
            SCORE: tf.gather(probabilities, chosen, batch_dims=2),
        }


_SPAN_RULES: dict[PathRule, str] = {
    "IOB2": "valid spans",
    "IOB1": "valid IOB1 spans",
    "IOBES": "valid IOBES spans",
}


class Numbers(Answers):
    """The numbers of a regression model, under the names of its outputs.

    Args:
        names: of the outputs; None for a single one, which is called "predictions".
        single: True if there is one number for a row, `[B]` or `[B, 1]`.
        scores: names of the several numbers of a row, if they have any.
    """

    task = "regression"

    def __init__(
        self, names: Sequence[str] | None, *, single: bool, scores: Sequence[str] | None = None
    ) -> None:
        self._names = names
        self.single = single
        self._scores = scores

    def named(self, outputs: Any) -> dict[str, Tensor]:
        flat = tf.nest.flatten(outputs)
        named = zip(self._names or [PREDICTIONS], flat, strict=True)
        return {name: _float32(value) for name, value in named}

    def of_examples(self) -> Mapping[str, Callable[[dict[str, Tensor]], dict[str, Tensor]]]:
        # A Regress call has one number for a row; a Classify call has numbers by name, of any size.
        named = {} if self._scores is None else {NAMED_SCORES: self.scored}
        return {"regress": self.regressed} if self.single else named

    def scored(self, named: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the names of the numbers and the numbers, `[B, N]` each, for the Classify call."""
        numbers, names = tf.cast(named[PREDICTIONS], tf.float32), list(self._scores or ())
        return {
            CLASSES: tf.broadcast_to(tf.constant(names, tf.string), tf.shape(numbers)),
            SCORES: numbers,
        }

    def regressed(self, named: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return one number for each row, `[B]`, for the Regress call."""
        return {REGRESSED: tf.reshape(tf.cast(named[PREDICTIONS], tf.float32), [-1])}


class Vectors(Answers):
    """A vector for each row, under the name "embedding"."""

    task = "embedding"

    def named(self, outputs: Tensor) -> dict[str, Tensor]:
        return {EMBEDDING: tf.cast(outputs, tf.float32)}


class Written(NamedTuple):
    """The candidates of a search, and the mean log probability of the symbols of the best, float32 `[B]`."""

    found: Found
    means: Tensor


class WrittenTexts(Answers):
    """A text for each row that the model writes, and the other candidates of its search.

    Args:
        head: of the model, with its symbols.
    """

    task = "to-text"

    def __init__(self, head: AnswerHead) -> None:
        assert head.symbols is not None
        self._symbols = head.symbols

    def named(self, outputs: Written) -> dict[str, Tensor]:
        ids, scores, ended = outputs.found
        rows, count, longest = tf.unstack(tf.shape(ids))
        texts = self._symbols.graph_texts(tf.reshape(ids, [rows * count, longest]))
        texts = tf.ensure_shape(tf.reshape(texts, [rows, count]), [None, scores.shape[1]])
        return {
            TEXT: texts[:, 0],
            SCORE: outputs.means,
            ENDED: ended[:, 0],
            CANDIDATES: texts,
            CANDIDATE_SCORES: scores,
        }


@singledispatch
def raw_answers(head: Head) -> Answers:
    """Return the answers of a head of this library's models, found by its class or a base class of it.

    Raises:
        ExportError: for a head without any.
    """
    name = type(head).__name__
    raise ExportError(
        f"There are no answers in a SavedModel for a head of the class {name}: give it some in "
        f"export/signatures/answers.py, registered with `@raw_answers.register({name})`."
    )


@raw_answers.register
def _of_one_label(head: ClassHead) -> Answers:
    return Classification(head.labels)


@raw_answers.register
def _of_several_labels(head: MultiLabelHead) -> Answers:
    return LabelSets(head.labels)


@raw_answers.register
def _of_positions(head: PositionHead) -> Answers:
    return Labelling(head.labels, head.decoder)


@raw_answers.register
def _of_numbers(head: NumbersHead) -> Answers:
    return Numbers(None, single=len(head.mean) == 1, scores=head.names)


@raw_answers.register
def _of_texts(head: AnswerHead) -> Answers:
    return WrittenTexts(head)


@raw_answers.register
def _of_vectors(_head: VectorHead) -> Answers:
    return Vectors()


def answers_for(
    output_shape: list[int | None] | None, labels: Sequence[str] | None, names: Sequence[str] | None
) -> Answers:
    """Return the answers that fit a model.

    Args:
        output_shape: the shape of its output, batch first; None if there are several.
        labels: label names, or None.
        names: of its outputs, if there are several.

    Raises:
        ExportError: if the labels do not fit the outputs.
    """
    if labels is None:
        return Numbers(names, single=output_shape is not None and output_shape[1:] in ([], [1]))
    labels = _checked_labels(labels)
    if output_shape is None or len(output_shape) not in (2, 3):
        raise ExportError(
            "`labels` go with one output of shape [batch, classes] or [batch, length, classes]. "
            f"The model returns {names or output_shape}."
        )
    rank, columns = len(output_shape), output_shape[-1]
    if columns != len(labels) and not (rank == 2 and columns == 1 and len(labels) == 2):
        raise ExportError(f"The model has {columns} classes. Received {len(labels)} `labels`.")
    return Classification(labels) if rank == 2 else Labelling(labels)


def _checked_labels(labels: Sequence[str]) -> list[str]:
    if isinstance(labels, str | bytes) or not all(isinstance(label, str) for label in labels):
        raise ExportError(f"`labels` must be a list of str. Received {labels!r:.80}.")
    names = list(labels)
    if len(set(names)) != len(names):
        raise ExportError("`labels` must differ: a client finds the score of a label by its name.")
    return names


def _float32(value: Tensor) -> Tensor:
    return tf.cast(value, tf.float32) if value.dtype in (tf.bfloat16, tf.float16) else value
