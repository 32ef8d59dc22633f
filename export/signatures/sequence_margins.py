"""The least distance of a search's choices from others: where it is small, rounding may change an answer.

Axes: B (rows), S (symbols of a source), n (live rows), W (hypotheses of a row), R = n W, k (best
continuations of a row), N (candidates), V (vocabulary).
"""

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from keras_selfattn.models.sequences.decoding import decoded
from keras_selfattn.models.sequences.search import Found, SearchSettings
from keras_selfattn.models.sequences.sequence_core import SharedEmbedding
from keras_selfattn.models.sequences.symbols import PADDING

Tensor = Any
Cache = dict[str, Any]


class WatchedSearch:
    """The search of a live model, compiled once, which remembers how far answers were from others.

    A step in Python takes a hundred times as long, and models search in compiled graphs, too.

    Args:
        core: of the model.
        settings: of the search.

    Call arguments:
        source: int32 `[B, S]`, 0 is padding.
        bounds: int32 `[B]`, the most symbols of each answer; None for that of the settings.
        prefix: int32 `[B, P]`, 0 is padding: what answers begin with; None for nothing.

    Returns:
        The candidates.
    """

    def __init__(self, core: Any, settings: SearchSettings) -> None:
        self._core, self._settings = core, settings
        self._compiled: Any = None
        self._margins: dict[Any, float] = {}
        self._gaps, self._bounds = np.ones(0), np.zeros(0, np.int32)
        self._candidates: list[list[float]] = []

    def __call__(self, source: Tensor, bounds: Tensor | None = None, prefix: Tensor | None = None) -> Found:
        if self._compiled is None:
            self._compiled = self._traced()
        rows = len(source)
        self._gaps, self._candidates = np.ones(rows), [[] for _ in source]
        most = [self._settings.max_new_tokens] * rows if bounds is None else bounds
        self._bounds = np.array(most, np.int32)
        begun = np.zeros([rows, 0], np.int32) if prefix is None else np.asarray(prefix)
        found = Found(
            *self._compiled(*(tf.constant(each, tf.int32) for each in (source, self._bounds, begun)))
        )
        for row, ids in enumerate(np.asarray(source)):
            ordered = sorted(self._candidates[row], reverse=True)[: self._settings.beams + 1]
            apart = itertools.starmap(_distance, itertools.pairwise(ordered))
            key = _key(ids, self._bounds[row], begun[row])
            self._margins[key] = min(self._gaps[row], *apart, 1.0)
        return found

    def margin(self, ids: np.ndarray, bound: int | None = None, prefix: np.ndarray | None = None) -> float:
        """Return the least distance of the answers to a source `[S]` from others.

        It is the least difference of two scores of which the search chose one, or gave one a better place, as
        a share of scores above 1; at most 1.
        """
        most: int = self._settings.max_new_tokens if bound is None else bound
        prefix = np.zeros(0, np.int32) if prefix is None else prefix
        key = _key(ids, most, prefix)
        if key not in self._margins:
            self(ids[None], [most], prefix[None])
        return self._margins[key]

    def _traced(self) -> Any:
        def run(source: Tensor, bounds: Tensor, prefix: Tensor) -> Found:
            settings = dataclasses.replace(self._settings, max_new_tokens=bounds)
            core: Any = _WatchedCore(self._core, self._settings, prefix, self._watch)
            return decoded(core, source, settings, prefix)

        rows, of_rows = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)
        made: Any = tf.function(run, input_signature=[rows, of_rows, rows], autograph=False)
        # A concrete function is not run step by step, whatever `run_functions_eagerly` says.
        return made.get_concrete_function()

    def _watch(self, rows: np.ndarray, length: np.int32, best: np.ndarray, ends: np.ndarray) -> np.int32:
        """Record the best continuations of live rows `[n]`: scores `[n, k]`, and which end their answers."""
        beams = self._settings.beams
        for row, found, ending in zip(rows, best, ends, strict=True):
            gaps, known = _gaps(found, ending, beams), self._candidates[row]
            scores = found / float(length) ** self._settings.length_penalty
            known += scores[:beams][ending[:beams]].tolist()
            going = scores[~ending][:beams].tolist()
            # With beams, a row leaves when its worst ended candidate is better than all hypotheses.
            if beams > 1 and len(known) >= beams and going:
                gaps.append(abs(_distance(going[0], sorted(known)[-beams])))
            if length == self._bounds[row]:
                known += going
            self._gaps[row] = min(self._gaps[row], *gaps, 1.0)
        return np.int32(0)


class _WatchedCore:
    """A core for `decoded`: a cache holds, beside the decoder's, what tells the scores of hypotheses.

    Args:
        core: of the model.
        settings: of the search.
        prefix: int32 `[B, P]`, 0 is padding.
        watch: takes the best continuations of each step.
    """

    def __init__(self, core: Any, settings: SearchSettings, prefix: Tensor, watch: Any) -> None:
        self._core, self._settings, self._prefix, self._watch = core, settings, prefix, watch

    @property
    def embedding(self) -> SharedEmbedding:
        """The vectors of symbols."""
        return self._core.embedding

    def start(self, source: Tensor, max_length: Tensor | int | None = None) -> Cache:
        """Return the cache before the first step."""
        rows = tf.range(tf.shape(source)[0])
        return {
            "decoder": self._core.start(source, max_length),
            "watched_rows": rows,
            "watched_steps": tf.zeros_like(rows),
            "watched_sums": tf.zeros(tf.shape(rows)),
            "watched_logs": tf.zeros([tf.size(rows), self._core.embedding.vocabulary_size]),
        }

    def step(self, tokens: Tensor, cache: Cache, logits: Callable[[Tensor], Tensor]) -> tuple[Tensor, Cache]:
        """Return logits `[R, V]` and the next cache, and record how far the choices of the step are apart."""
        sums = cache["watched_sums"] + tf.gather(cache["watched_logs"], tokens, batch_dims=1)  # [R]
        found, after = self._core.step(tokens, cache["decoder"], logits)
        steps, size = cache["watched_steps"], self._core.embedding.vocabulary_size
        logs = tf.nn.log_softmax(tf.cast(found[:, :size], tf.float32))  # [R, V]
        width = tf.where(steps[0] == 0, 1, self._settings.beams)
        # A hypothesis with an impossible symbol stays impossible, as it does in the search.
        logs = tf.where(self._possible(cache["watched_rows"], steps[0], size), logs, -np.inf)
        scores = tf.reshape(sums[:, None] + logs, [-1, width * size])  # [n, W V]
        best, places = tf.math.top_k(scores, tf.minimum(2 * self._settings.beams + 1, width * size))
        ends = places % size == self._settings.end
        told = tf.numpy_function(
            self._watch, [cache["watched_rows"][::width], steps[0] + 1, best, ends], tf.int32
        )
        with tf.control_dependencies([told]):
            found = tf.identity(found)
        watched = {"watched_sums": sums, "watched_logs": logs, "watched_steps": steps + 1}
        return found, {**cache, "decoder": after, **watched}

    def _possible(self, rows: Tensor, step: Tensor, size: int) -> Tensor:
        """Return which symbols may come next, bool `[R, V]`: that of a prefix, or all but the forbidden."""
        free = ~np.isin(np.arange(size), self._settings.forbidden)  # [V]
        asked = tf.pad(self._prefix, [[0, 0], [0, 1]])[:, tf.minimum(step, tf.shape(self._prefix)[1])]
        asked = tf.gather(asked, rows)[:, None]  # [R, 1]
        return tf.where(asked == PADDING, free, asked == tf.range(size))


def _key(ids: np.ndarray, bound: int, prefix: np.ndarray) -> Any:
    return int(bound), *(np.trim_zeros(np.asarray(each, np.int32), "b").tobytes() for each in (ids, prefix))


def _gaps(best: np.ndarray, ends: np.ndarray, beams: int) -> list[float]:
    """Return the distances of the choices of a step, from the best continuations `[k]` of a row.

    Those of the first that end are candidates, and the best of the others go on.
    """
    if beams == 1:
        return [_distance(*best[:2])] if len(best) > 1 else []
    found = []
    if len(best) > beams:
        found += [_distance(score, best[beams]) for score in best[:beams][ends[:beams]]]
        found += [_distance(best[beams - 1], score) for score in best[beams:][ends[beams:]]]
    going = best[~ends]
    return found + ([_distance(going[beams - 1], going[beams])] if len(going) > beams else [])


def _distance(better: float, worse: float) -> float:
    """Return the distance of two scores; of one that is impossible 1."""
    if not np.isfinite(worse):
        return 1.0
    return float(better - worse) / max(1.0, abs(float(worse)))
