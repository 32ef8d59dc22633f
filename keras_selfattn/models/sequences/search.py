"""The search for answers, greedy or by beams, as one loop of stock TensorFlow operations.

A row of the batch has hypotheses: answers that have not ended, all of one length. A step computes those of
live rows alone; a row whose answers have ended leaves. Hypotheses of a row are kept in the order of their
ids, so that of equal scores the first is that of lower ids.

Axes: B (rows of the batch), n (live rows), W (hypotheses of a row: 1 before the first step, then `beams`), R
= n W (hypotheses), V (vocabulary), N (candidates of a row: `beams`), E (answers found), L (symbols of an
answer).
"""

import dataclasses
import math
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.sequences.symbols import BEGIN, END, PADDING, UNKNOWN

Tensor = Any
Cache = Any
# Symbols of a part of the vocabulary, which are searched together: the highest of each are found in half the
# time that parts of 16 take. A multiple of the float32 that a processor computes at once.
PART = 64

Step = Callable[[Tensor, Cache], tuple[Tensor, Cache]]


@dataclasses.dataclass(frozen=True)
class SearchSettings:
    """Settings of a search.

    Args:
        max_new_tokens: the most symbols of an answer, its end symbol included: an int, or int32 scalar or
            `[B]`, of which numbers below 1 count as 1.
        beams: hypotheses of a row, 1 for greedy search; an int, or int32 scalar of at least 1.
        length_penalty: a candidate's score is the sum of its log probabilities, divided by its length,
            the end symbol included, to the power of this: 0 compares sums, 1 means.
        begin, end: ids of the symbols before and after an answer.
        forbidden: ids that no answer has. Their probabilities count all the same: scores are those that the
            model gives. A model that gives them no probability saves time with none here.

    Raises:
        ConfigError: for numbers below 1, and a penalty that is no finite number.
    """

    max_new_tokens: Any
    beams: Any = 1
    length_penalty: Any = 1.0
    begin: int = BEGIN
    end: int = END
    forbidden: tuple[int, ...] = (PADDING, UNKNOWN, BEGIN)

    def __post_init__(self) -> None:
        for name in ("max_new_tokens", "beams"):
            count = getattr(self, name)
            if isinstance(count, int) and count < 1:
                raise ConfigError(f"`{name}` must be at least 1. Received {count}.")
        penalty = self.length_penalty
        if isinstance(penalty, int | float) and not math.isfinite(penalty):
            raise ConfigError(f"`length_penalty` must be a finite number. Received {penalty}.")
        if self.end in self.forbidden:
            raise ConfigError(
                f"`forbidden` must not have the end symbol, or no answer ends. Received {self.forbidden}."
            )


class Found(NamedTuple):
    """The candidates of each row, best first; of equal scores, first the one whose ids are lower.

    ids: int32 `[B, N, L]`, the end symbol included, padded with 0.
    scores: float32 `[B, N]`; -infinity where a row has fewer candidates, which have no ids then.
    ended: bool `[B, N]`, False where `max_new_tokens` cut the answer.
    """

    ids: Tensor
    scores: Tensor
    ended: Tensor


class _Answers(NamedTuple):
    """Answers found so far: int32 rows, float32 scores and int32 lengths `[E]`, and all their ids, int32."""

    rows: Tensor
    scores: Tensor
    lengths: Tensor
    ids: Tensor


class _Live(NamedTuple):
    """The state before a step.

    rows: int32 `[n]`, places in the batch.
    bounds: int32 `[n]`, the most symbols of their answers.
    best: float32 `[n, N]`, scores of their best ended answers, best first; -infinity where there are fewer.
    scores: float32 `[n, W]`, sums of log probabilities.
    ids: int32 `[R, steps + 1]`, the begin symbol first.
    """

    rows: Tensor
    bounds: Tensor
    best: Tensor
    scores: Tensor
    ids: Tensor


class _Chosen(NamedTuple):
    """The continuations of a step.

    scores: float32 `[n, k]`, best first.
    places: int32 `[n, k]`, `hypothesis size + symbol`.
    ending: bool `[n, k]`, those that are answers now.
    going: bool `[n, k]`, those that go on.
    size: int32, V or more.
    """

    scores: Tensor
    places: Tensor
    ending: Tensor
    going: Tensor
    size: Tensor


def search(
    step: Step,
    cache: Cache,
    batch: Tensor | int,
    settings: SearchSettings,
    *,
    prefix: Tensor | None = None,
    memory: Collection[str] = (),
    growing: Collection[str] = (),
) -> Found:
    """Return the best answers that are found step by step.

    Each step takes the 2 `beams` best continuations of a row's hypotheses, over all of them. Of the first
    `beams`, those that end are candidates; the `beams` best of the others go on. A row leaves when `beams`
    candidates have ended and no hypothesis has a better score than the worst of these: short answers, which
    end first, are not the only ones. At the bound, hypotheses are candidates that have not ended. With one
    beam this is greedy search.

    Args:
        step: of int32 tokens `[R]` and a cache, returns logits `[R, V]` and the next cache.
        cache: a nest of tensors before the first step, whose first axis is the batch; then it is R, in the
            order of the tokens.
        batch: B.
        settings: of the search.
        prefix: int32 `[B, P]`, ragged or padded with 0: symbols that answers begin with, which count in
            scores.
        memory: names of dicts' entries in the cache that are the same for all hypotheses of a row: their
            first axis stays n, and hypotheses of a row are side by side.
        growing: names of entries whose third axis grows from step to step.

    Raises:
        ConfigError: for more beams than the vocabulary has symbols.

    Reference: Freitag and Al-Onaizan 2017, "Beam Search Strategies for Neural Machine Translation", section
    3; Wu et al. 2016, "Google's Neural Machine Translation System", section 7, of scores by length.

    Example:

        >>> logits = tf.math.log([[0, 0, 0, 0.2, 0.8], [0, 0, 0, 0.9, 0.1]])  # after 2: 4; after 4: the end
        >>> def step(tokens, cache):
        ...     return tf.gather(logits, tokens // 4), cache
        >>> found = search(step, {}, 1, SearchSettings(max_new_tokens=5))
        >>> found.ids.numpy().tolist(), found.ended.numpy().tolist()
        ([[[4, 3]]], [[True]])
    """
    if isinstance(prefix, tf.RaggedTensor):
        prefix = prefix.to_tensor(PADDING)
    paths = [{*map(str, path)} for path, _ in keras.tree.flatten_with_path(cache)]
    of_rows = [not path.isdisjoint(memory) for path in paths]
    grows = [not path.isdisjoint(growing) for path in paths]

    def one_more(live: _Live, cache: Cache, answers: _Answers) -> tuple[_Live, Cache, _Answers]:
        logits, cache = step(live.ids[:, -1], cache)
        chosen = _continued(logits, live, settings, prefix)
        return _advanced(chosen, live, cache, answers, settings, of_rows)

    state = _first(batch, settings), cache, _none_found()
    shapes = keras.tree.map_structure(lambda x: tf.TensorShape([None] * x.shape.rank), state)
    flat = [_any_rows(x, more) for x, more in zip(keras.tree.flatten(cache), grows, strict=True)]
    shapes = shapes[0], keras.tree.pack_sequence_as(cache, flat), shapes[2]
    _, _, answers = tf.while_loop(lambda live, *_: tf.size(live.rows) > 0, one_more, state, shapes)
    return _best(answers, batch, settings)


def _any_rows(x: Tensor, grows: bool) -> tf.TensorShape:
    shape = [None, *x.shape[1:]]
    if grows:
        shape[2] = None
    return tf.TensorShape(shape)


def _first(batch: Tensor | int, settings: SearchSettings) -> _Live:
    rows = tf.range(batch, dtype=tf.int32)
    bounds = tf.maximum(tf.cast(settings.max_new_tokens, tf.int32), 1)
    scores = tf.zeros([batch, 1])
    return _Live(
        rows,
        tf.broadcast_to(bounds, [batch]),
        tf.fill([batch, settings.beams], -math.inf),
        scores,
        tf.fill([batch, 1], settings.begin),
    )


def _none_found() -> _Answers:
    none = tf.zeros([0], tf.int32)
    return _Answers(none, tf.zeros([0]), none, none)


def _continued(logits: Tensor, live: _Live, settings: SearchSettings, prefix: Tensor | None) -> _Chosen:
    """Return the best continuations of each live row, from logits `[R, V]`."""
    beams, known = settings.beams, logits.shape[-1]
    if isinstance(beams, int) and known is not None and beams > known:
        raise ConfigError(f"`beams` must be at most {known}, the size of the vocabulary. Received {beams}.")
    scores = _Scores.of(_wide(tf.cast(logits, tf.float32)), live, settings, prefix)
    if _is_greedy(settings):
        found, places = scores.best(1)
        ending = tf.equal(places, settings.end)  # W is 1
        return _Chosen(found, places, ending, tf.logical_not(ending), scores.size)
    found, places = scores.best(2 * beams)
    ends = tf.equal(places % scores.size, settings.end)
    others, there = tf.logical_not(ends), found > -math.inf
    ending = ends & there & (tf.range(tf.shape(found)[1]) < beams)
    going = others & there & (tf.cumsum(tf.cast(others, tf.int32), 1) <= beams)
    return _Chosen(found, places, ending, going, scores.size)


def _wide(logits: Tensor) -> Tensor:
    """Return logits `[R, V]` with impossible symbols added, so that V is a number of whole parts."""
    size: Any = logits.shape[-1] or tf.shape(logits)[1]
    more = -size % PART
    if isinstance(more, int) and more == 0:
        return logits
    return tf.pad(logits, [[0, 0], [0, more]], constant_values=-math.inf)


class _Scores(NamedTuple):
    """The scores of continuations, whose bits do not depend on other rows; `log_softmax`'s do.

    logits: float32 `[R, V]`, -infinity where a symbol may not come next.
    highest: float32 `[R, 1]`, the highest logit of all symbols.
    before: float32 `[n, W]`, what is added to logits less the highest.
    size: V.
    """

    logits: Tensor
    highest: Tensor
    before: Tensor
    size: Tensor

    @classmethod
    def of(cls, logits: Tensor, live: _Live, settings: SearchSettings, prefix: Tensor | None) -> "_Scores":
        """Return scores after logits `[R, V]` of all symbols."""
        size = tf.shape(logits)[1]
        tops = _tops(logits, size)
        highest = tf.reduce_max(tops, 1, keepdims=True)
        # The probability of the highest: oneDNN's softmax takes half the time of exponentials and their sums.
        parts = tf.reshape(tf.nn.softmax(logits), [-1, size // PART, PART])
        of_highest = tf.gather(parts, tf.argmax(tops, 1), batch_dims=1)  # [R, part]
        peaks = tf.reduce_max(of_highest, 1, keepdims=True)
        # Beside others in a vector of the processor, or in one that is not full, it may round otherwise.
        logs = tf.math.log(tf.tile(peaks, [1, PART]))[:, :1]
        before = live.scores + tf.reshape(logs, tf.shape(live.scores))
        return cls(_allowed(logits, live, settings, prefix), highest, before, size)

    def best(self, count: Tensor | int) -> tuple[Tensor, Tensor]:
        """Return the highest scores of each row, best first, and their places, `[n, count or fewer]`.

        They are in those parts of the vocabulary whose highest scores are the highest, so only these are
        searched whole; of equal scores, the first part has the first place.
        """
        rows, width = tf.unstack(tf.shape(self.before))
        shape = tf.stack([rows, width, -1])
        parts = tf.reshape(_tops(self.logits, self.size) - self.highest, shape)  # [n, W, V / part]
        parts = tf.reshape(parts + self.before[:, :, None], [rows, -1])
        _, of_best = tf.math.top_k(parts, tf.minimum(count, tf.shape(parts)[1]))  # [n, count]
        if not (isinstance(count, int) and count == 1):
            of_best = -tf.math.top_k(-of_best, tf.shape(of_best)[1])[0]  # as the places are
        within = tf.gather(tf.reshape(self.logits, [rows, -1, PART]), of_best, batch_dims=1)
        hypotheses = of_best // (self.size // PART)
        highest = tf.gather(tf.reshape(self.highest, [rows, width]), hypotheses, batch_dims=1)  # [n, count]
        before = tf.gather(self.before, hypotheses, batch_dims=1)
        scores = tf.reshape(within - highest[:, :, None] + before[:, :, None], [rows, -1])
        found, places = tf.math.top_k(scores, tf.minimum(count, tf.shape(scores)[1]))
        return found, tf.gather(of_best, places // PART, batch_dims=1) * PART + places % PART


def _tops(logits: Tensor, size: Tensor) -> Tensor:
    """Return the highest of each part of logits `[R, V]`, `[R, V / part]`."""
    return tf.reduce_max(tf.reshape(logits, [-1, size // PART, PART]), 2)


def _allowed(logits: Tensor, live: _Live, settings: SearchSettings, prefix: Tensor | None) -> Tensor:
    """Return logits `[R, V]` that are -infinity where a symbol may not come next."""
    symbols, none = tf.range(tf.shape(logits)[1]), tf.constant(-math.inf)
    free = logits
    if settings.forbidden:
        free += tf.where(tf.reduce_any(symbols[:, None] == list(settings.forbidden), 1), none, 0)
    if prefix is None:
        return free
    done = tf.shape(live.ids)[1] - 1

    def forced() -> Tensor:
        asked = tf.cast(tf.gather(prefix[:, done], live.rows), tf.int32)  # [n]
        asked = tf.repeat(asked, tf.shape(live.scores)[1])[:, None]  # [R, 1]
        return tf.where(asked == PADDING, free, tf.where(asked == symbols, logits, none))

    return tf.cond(done < tf.shape(prefix)[1], forced, lambda: free)


def _advanced(
    chosen: _Chosen,
    live: _Live,
    cache: Cache,
    answers: _Answers,
    settings: SearchSettings,
    of_rows: list[bool],
) -> tuple[_Live, Cache, _Answers]:
    """Return live rows, cache and answers after the continuations that a step chose."""
    size, width, length = chosen.size, tf.shape(live.scores)[1], tf.shape(live.ids)[1]
    best, surpassed = _best_ended(chosen, live, settings)
    bound = length >= live.bounds  # [n]
    done = surpassed | bound
    leaving = chosen.ending | (chosen.going & bound[:, None])
    any_done = tf.reduce_any(done)

    def with_leaving() -> _Answers:
        return _with_answers(answers, chosen, leaving, live, settings)

    after = tf.cond(tf.reduce_any(leaving), with_leaving, lambda: answers)
    places, scores = _going_on(chosen, settings.beams, width)  # [n, N] each
    kept = tf.cond(any_done, lambda: tf.where(~done)[:, 0], lambda: tf.range(tf.size(done, tf.int64)))
    rows = tf.cast(kept, tf.int32)
    moved = any_done
    if not _is_greedy(settings):
        own = places // size  # [n, N], which hypothesis of its row each continues
        other = tf.reduce_any(own != tf.range(settings.beams))
        moved |= other | (width != settings.beams)
        places = tf.gather(places, rows)
        parents = tf.reshape(rows[:, None] * width + places // size, [-1])  # [R]
    else:
        places, parents = tf.gather(places, rows), rows
    flat = keras.tree.flatten(cache)
    ours = [x for x, of_row in zip(flat, of_rows, strict=True) if not of_row]
    ids, *ours = _gathered([live.ids, *ours], parents, moved)
    shared = _gathered([x for x, of_row in zip(flat, of_rows, strict=True) if of_row], rows, any_done)
    sources = {True: iter(shared), False: iter(ours)}
    cache = keras.tree.pack_sequence_as(cache, [next(sources[of_row]) for of_row in of_rows])
    new = tf.reshape(places % size, [-1, 1])
    state: Any = [tf.gather(x, rows) for x in (live.rows, live.bounds, best, scores)]
    return _Live._make([*state, tf.concat([ids, new], 1)]), cache, after


def _best_ended(chosen: _Chosen, live: _Live, settings: SearchSettings) -> tuple[Tensor, Tensor]:
    """Return scores of the best ended answers, `[n, N]`, and whether no other is better, bool `[n]`."""
    if _is_greedy(settings):
        return live.best, chosen.ending[:, 0]
    scores = chosen.scores / _power(live, settings)
    ended = tf.where(chosen.ending, scores, -math.inf)
    best = tf.math.top_k(tf.concat([live.best, ended], 1), settings.beams)[0]
    going = tf.reduce_max(tf.where(chosen.going, scores, -math.inf), 1)
    return best, best[:, -1] >= going


def _power(live: _Live, settings: SearchSettings) -> Tensor:
    """Return the number by which scores of a step are divided, float32."""
    return tf.cast(tf.shape(live.ids)[1], tf.float32) ** settings.length_penalty


def _is_greedy(settings: SearchSettings) -> bool:
    return isinstance(settings.beams, int) and settings.beams == 1


def _gathered(tensors: list[Tensor], places: Tensor, moved: Tensor) -> list[Tensor]:
    """Return tensors with those places of their first axis, or as they are where nothing moved."""
    if not tensors:
        return []
    return tf.cond(moved, lambda: [tf.gather(x, places) for x in tensors], lambda: list(tensors))


def _going_on(chosen: _Chosen, beams: Tensor | int, width: Tensor) -> tuple[Tensor, Tensor]:
    """Return places and scores `[n, N]` of the hypotheses that go on, in the order of their ids.

    Where there are too few, the rest have the score -infinity, and are never chosen before others.
    """
    if isinstance(beams, int) and beams == 1:
        return chosen.places, chosen.scores
    last = width * chosen.size
    ordered, order = tf.math.top_k(-tf.where(chosen.going, chosen.places, last), beams)
    scores = tf.where(chosen.going, chosen.scores, -math.inf)
    places = tf.where(-ordered < last, -ordered, last - chosen.size)  # padding of the last hypothesis
    return places, tf.gather(scores, order, batch_dims=1)


def _with_answers(
    answers: _Answers, chosen: _Chosen, leaving: Tensor, live: _Live, settings: SearchSettings
) -> _Answers:
    """Return answers with the continuations `[n, k]` that leave."""
    found = tf.where(leaving)  # [E, 2]
    rows, places = tf.cast(found[:, 0], tf.int32), tf.gather_nd(chosen.places, found)
    width, length = tf.shape(live.scores)[1], tf.shape(live.ids)[1]
    before = tf.gather(live.ids, rows * width + places // chosen.size)[:, 1:]  # [E, L - 1]
    ids = tf.concat([before, places[:, None] % chosen.size], 1)
    scores = tf.gather_nd(chosen.scores, found) / _power(live, settings)
    new = tf.gather(live.rows, rows), scores, tf.fill(tf.shape(rows), length), tf.reshape(ids, [-1])
    return _Answers(*(tf.concat(pair, 0) for pair in zip(answers, new, strict=True)))


def _best(answers: _Answers, batch: Tensor | int, settings: SearchSettings) -> Found:
    """Return the best candidates of each row."""
    of_lengths: Any = tf.RaggedTensor
    rows: Any = of_lengths.from_row_lengths(answers.ids, answers.lengths, validate=False)
    ids = rows.to_tensor(PADDING)  # [E, L]
    count = tf.size(answers.rows)
    slots, scores = _sorted(answers, tf.range(count), batch, settings.beams)
    equal = tf.reduce_any((scores[:, 1:] == scores[:, :-1]) & (scores[:, 1:] > -math.inf))
    slots, scores = tf.cond(
        equal,
        lambda: _sorted(answers, _by_ids(ids), batch, settings.beams),
        lambda: (slots, scores),
    )
    slots, scores = slots[:, : settings.beams], scores[:, : settings.beams]
    there = scores > -math.inf
    slots = tf.where(there, slots, count)
    # One more, which is the missing one.
    lengths = tf.gather(tf.concat([answers.lengths, [0]], 0), slots)
    ids = tf.gather(tf.pad(ids, [[0, 1], [0, 0]]), slots)[:, :, : tf.reduce_max(lengths, keepdims=False)]
    return Found(ids, scores, there & tf.reduce_any(ids == settings.end, -1))


def _sorted(
    answers: _Answers, order: Tensor, batch: Tensor | int, beams: Tensor | int
) -> tuple[Tensor, Tensor]:
    """Return each row's answers and their scores, best first, `[B, at least N]`; of equal ones, by `order`.

    An answer that is missing has a score of -infinity.
    """
    order = tf.gather(order, tf.argsort(tf.gather(answers.rows, order), stable=True))  # [E], row by row
    of_rows: Any = tf.RaggedTensor
    rows = of_rows.from_value_rowids(
        order, tf.gather(answers.rows, order), tf.cast(batch, tf.int32), validate=False
    )
    slots = tf.pad(rows.to_tensor(-1), [[0, 0], [0, beams]], constant_values=-1)
    scores = tf.gather(tf.concat([[-math.inf], answers.scores], 0), slots + 1)
    scores, places = tf.math.top_k(scores, tf.shape(scores)[1])
    return tf.gather(slots, places, batch_dims=1), scores


def _by_ids(ids: Tensor) -> Tensor:
    """Return the order of rows of ids `[E, L]` by their first difference: a radix sort."""

    def sorted_by(place: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
        column = tf.gather(ids[:, place - 1], order)
        return place - 1, tf.gather(order, tf.argsort(column, stable=True))

    start = tf.shape(ids)[1], tf.range(tf.shape(ids)[0])
    return tf.while_loop(lambda place, _: place > 0, sorted_by, start)[1]
