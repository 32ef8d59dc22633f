"""The signatures of a model that writes texts: answers by search, the scores of given ones, and alignments.

Axes: B (rows), b (rows of a group), S (symbols of a source), T (symbols of an answer), N (candidates), L
(layers), H (heads), V (vocabulary).
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from keras_selfattn.models.long_rows import EXPLAINED_TOKENS
from keras_selfattn.models.sequences.decoding import log_probabilities
from keras_selfattn.models.sequences.symbols import BEGIN, END, PADDING
from keras_selfattn.serving.wire.signature_names import CANDIDATES, TEXT

from .model_signatures import MOST_ASKED, Graphs, Signature, end_of_group
from .sequence_settings import GROUP_SPECS, SPECS, GroupSettings
from .trial_requests import Request

Tensor = Any

TARGET = "target"
"""The input of the answer to be scored, string `[batch]`."""

# Padding up to here, in symbols, costs less than another search.
_PADDING = 2**14
# Bytes that the logits of given answers may take, and tensors of their size.
_BYTES, _LOGITS = 2**29, 4


class SequenceGraphs(Graphs):
    """The signatures of a `SequenceFront`: a search in groups of sources, whose memory is bounded.

    Ids of the end symbol alone are those of blank sources, whose answer is known without the model.
    """

    _front: Any

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._searched = tf.function(
            self._search, [tf.TensorSpec([None, None], tf.int32)], autograph=False
        )  # traced once, for all signatures
        self._searched_as_asked = tf.function(
            lambda source, *asked: self._search(source, GroupSettings(*asked)),
            [tf.TensorSpec([None, None], tf.int32), *GROUP_SPECS],
            autograph=False,
        )

    def _search(self, source: Tensor, asked: GroupSettings | None = None) -> Any:
        with self._weights.used():
            return self._front.written(source, asked)

    def signatures(self, requests: Sequence[Request]) -> dict[str, Signature]:
        found = super().signatures(requests)
        asked = Signature(self.most_asked, requests, margins=self.margins_of)
        return {**found, MOST_ASKED: asked}

    def generate(self) -> Any:
        """Return the function from sources and settings of the search to the answers."""
        return self.beside_answers(self._generated, {**self._front.specs, **SPECS})

    def score_target(self) -> Any:
        """Return the function from sources and answers to the log probability of each symbol of these."""
        specs = {**self._front.specs, TARGET: tf.TensorSpec([None], tf.string, name=TARGET)}
        return self.beside_answers(self._scored, specs)

    def explain_answers(self) -> Any:
        """Return the function from sources to what the symbols of their answers attend to."""
        return self.beside_answers(self._explained)

    def margins_of(self, texts: Tensor) -> Tensor:
        """Return the distance of each text's answers from others, float32 `[B]`; run eagerly."""
        with self._weights.used():
            return tf.constant(self._front.margins(texts))

    def margins_as_asked(self, texts: Tensor, *settings: Tensor) -> Tensor:
        """Return the same for requests with settings."""
        with self._weights.used():
            asked = self._front.asked_settings(tf.size(texts), *settings)
            return tf.constant(self._front.margins(texts, asked))

    def _answer(self, inputs: Any) -> dict[str, Tensor]:
        return self._written(inputs, lambda source, _: self._searched(source))

    def _generated(self, texts: Tensor, *settings: Tensor) -> dict[str, Tensor]:
        """Return the answers to texts as the inputs of `SPECS` ask for them.

        Rows of one kind are searched for together. A blank text has its prefix alone for an answer.
        """
        asked, ids = self._front.asked_settings(tf.size(texts), *settings), self._front(texts)
        found = self._written(
            ids,
            lambda source, rows: self._searched_as_asked(source, *asked.of(rows, PADDING)),
            asked.kinds,
        )
        begun = self._front.symbols.graph_texts(asked.prefix)
        best = tf.where(ids.row_lengths() > 1, found[TEXT], begun)
        candidates = tf.concat([best[:, None], found[CANDIDATES][:, 1:]], axis=1)
        return {**found, TEXT: best, CANDIDATES: candidates}

    def _written(
        self, ids: Any, searched: Callable[[Tensor, Tensor], Any], kinds: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the answers to sources, by name; the arguments are those of `_in_groups`."""
        named = self._answers.named
        empty = named(self._front.nothing())
        found = self._in_groups(
            ids, lambda *group: [*named(searched(*group)).values()], [*empty.values()], kinds
        )
        return dict(zip(empty, found, strict=True))

    def _scored(self, texts: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Return `tokens`, string `[B, T]`, padded with "", and `log_probabilities`, float32 `[B, T]`.

        Rows are taken a few at a time, so that their logits take bounded memory.
        """
        symbols, most = self._front.symbols, self._front.settings.max_new_tokens
        same = tf.debugging.assert_equal(
            tf.shape(texts), tf.shape(targets), f"The inputs {TEXT} and {TARGET} differ in number"
        )
        with tf.control_dependencies([same]):
            source = self._front(texts).to_tensor(PADDING)  # [B, S]
        wanted = _with_end(symbols.symbols(targets, most), most)  # ragged [B, T]
        labels = wanted.to_tensor(PADDING)
        rows, longest = tf.unstack(tf.shape(labels))
        each = tf.cast(tf.maximum(1, longest), tf.int64) * symbols.size * _LOGITS * 4
        step = tf.cast(tf.maximum(tf.constant(1, tf.int64), _BYTES // each), tf.int32)

        def part(start: Tensor, count: Tensor, found: Any) -> tuple[Any, ...]:
            end = start + step
            some = labels[start:end]
            scores = log_probabilities(self._front.core, source[start:end], _shifted(some), some)
            scores = tf.where(some == PADDING, 0.0, scores)
            return end, count + 1, found.write(count, scores)

        found = tf.TensorArray(tf.float32, size=0, dynamic_size=True, infer_shape=False)
        _, count, found = tf.while_loop(
            lambda start, *_: start < rows, part, (0, 0, found), parallel_iterations=1
        )
        scores = found.write(count, tf.zeros([0, longest])).concat()
        return {"tokens": self._names(labels), "log_probabilities": tf.ensure_shape(scores, [None, None])}

    def _explained(self, texts: Tensor) -> dict[str, Tensor]:
        """Return the symbols of sources and of their answers, padded with "", and the weights between them.

        `tokens` is string `[B, S]`, `target_tokens` string `[B, T]`, and `weights` float32 `[B, L, H, T, S]`:
        the attention of each layer of the decoder, as it writes a symbol, to those of the source.
        """
        ids = self._front(texts)[:, :EXPLAINED_TOKENS]
        most = self._front.settings.max_new_tokens

        def best(source: Tensor, _rows: Tensor) -> list[Tensor]:
            found = self._searched(source).found.ids[:, 0]  # [b, T]
            return [tf.pad(found, [[0, 0], [0, most - tf.shape(found)[1]]])]

        (answers,) = self._in_groups(ids, best, [tf.zeros([1, most], tf.int32)])
        written = tf.reduce_any(answers != PADDING, axis=0)
        answers = tf.boolean_mask(answers, written, axis=1)  # [B, T]
        source = ids.to_tensor(PADDING)
        weights = attention_to_source(self._front.core, source, answers)
        real = tf.cast(answers != PADDING, tf.float32)[:, None, None, :, None]
        return {
            "tokens": self._names(source),
            "target_tokens": self._names(answers),
            "weights": weights * real,
        }

    def _names(self, ids: Tensor) -> Tensor:
        """Return the symbols of ids, string, "" for padding."""
        names = ["", *self._front.symbols.names[PADDING + 1 :]]
        return tf.gather(tf.constant(names, tf.string), ids)

    def _in_groups(
        self,
        ids: Any,
        answers: Callable[[Tensor, Tensor], Sequence[Tensor]],
        empty: Sequence[Tensor],
        kinds: Tensor | None = None,
    ) -> list[Tensor]:
        """Return the answers to sources, each `[B, ...]`.

        Args:
            ids: of sources, int32 ragged `[B, S]`.
            answers: from padded ids, int32 `[b, S]`, and their rows, int32 `[b]`, to tensors `[b, ...]`.
            empty: the answers to a blank source, `[1, ...]` each.
            kinds: int32 `[B]`; rows of different ones are in different groups.
        """
        lengths = tf.cast(ids.row_lengths(), tf.int32)  # [B]
        order = tf.argsort(lengths, direction="DESCENDING", stable=True)
        if kinds is not None:
            kinds = tf.where(lengths > 1, kinds, kinds.dtype.max)  # blank sources last
            order = tf.gather(order, tf.argsort(tf.gather(kinds, order), stable=True))
            kinds = tf.gather(kinds, order)
        lengths = tf.gather(lengths, order)
        rows = tf.math.count_nonzero(lengths > 1, dtype=tf.int32)
        padded = rows * tf.reduce_max(tf.concat([lengths, [0]], axis=0))
        together = padded <= 2 * tf.size(ids.flat_values) + _PADDING

        def group(start: Tensor, count: Tensor, *found: Any) -> tuple[Any, ...]:
            some = rows if kinds is None else start + _run_of(kinds[start:rows])
            near = tf.where(together, some, start + end_of_group(lengths[start:some], 0))
            end = tf.minimum(near, start + self._front.rows_at_once(lengths[start]))
            source = tf.gather(ids, order[start:end]).to_tensor(PADDING)
            parts = zip(found, answers(source, order[start:end]), strict=True)
            written = (array.write(count, part) for array, part in parts)
            return end, count + 1, *written

        arrays = [tf.TensorArray(each.dtype, size=0, dynamic_size=True, infer_shape=False) for each in empty]
        _, count, *arrays = tf.while_loop(
            lambda start, *_: start < rows, group, (0, 0, *arrays), parallel_iterations=1
        )
        blank, places = tf.size(lengths) - rows, tf.math.invert_permutation(order)
        # Of no row, too, so that there is something to concatenate.
        rest = [tf.repeat(each, blank, axis=0) for each in empty]
        whole = [array.write(count, each).concat() for array, each in zip(arrays, rest, strict=True)]
        return [
            tf.gather(tf.ensure_shape(found, [None, *each.shape[1:]]), places)
            for found, each in zip(whole, empty, strict=True)
        ]


def _run_of(kinds: Tensor) -> Tensor:
    """Return how many of the first values, which are sorted, are equal, int32."""
    return tf.math.count_nonzero(kinds == kinds[0], dtype=tf.int32)


def _with_end(ids: Any, most: int) -> Any:
    """Return ids of answers, ragged `[B, T]`, with the end symbol, unless they were cut at `most` symbols."""
    ends = tf.fill([ids.nrows(), 1], END)
    return tf.concat([ids, ends], axis=1)[:, :most]


def _shifted(labels: Tensor) -> Tensor:
    """Return what the decoder reads for labels, int32 `[B, T]`: the begin symbol, and all but the last."""
    return tf.pad(labels, [[0, 0], [1, 0]], constant_values=BEGIN)[:, :-1]


def attention_to_source(core: Any, source: Tensor, labels: Tensor) -> Tensor:
    """Return the weights of each symbol of answers for those of sources, float32 `[B, L, H, T, S]`.

    Those of a symbol are the weights with which the decoder writes it; `SequenceCore.alignment` is the mean
    of the last layer's.

    Args:
        core: of the model.
        source: int32 `[B, S]`, 0 is padding.
        labels: the symbols of answers, int32 `[B, T]`, 0 is padding.
    """
    *_, weights = core.get_layer("decoder")(
        core.get_layer("positions")(core.embedding(_shifted(labels))),
        core.memory(source),
        memory_mask=source != PADDING,
        training=False,
        return_weights=True,
    )
    return tf.stack([tf.cast(each, tf.float32) for each in weights], axis=1)
