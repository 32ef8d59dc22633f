"""The search against loops in NumPy, on steps that are a table: exact ties, many lengths, any batch."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.sequences.search import SearchSettings, search
from keras_selfattn.models.sequences.symbols import BEGIN, END

V, STATES, PART = 37, 61, 16  # a vocabulary of several parts, the last not whole
MASKED = -np.inf


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr("keras_selfattn.models.sequences.search.PART", PART)


def table(seed, ties=True):
    """Log probabilities `[STATES, V]` of the next symbol; whole logits make many of them equal."""
    random = np.random.default_rng(seed)
    logits = random.integers(0, 3, (STATES, V)) if ties else random.normal(size=(STATES, V))
    logits = logits.astype(np.float32)
    logits[:, END] += random.integers(-1, 3, STATES)  # some rows are long
    return logits


def normalised(logits):
    """Logits less their maximum, and the logarithm of its probability, each row by itself."""
    shifted = logits - logits.max(1, keepdims=True)
    whole = np.pad(shifted, [(0, 0), (0, -V % PART)], constant_values=-np.inf)
    peaks = [tf.reduce_max(tf.nn.softmax(row[None])) for row in whole]
    return shifted, np.array([tf.math.log(tf.fill([PART], peak)).numpy()[0] for peak in peaks])


def next_state(state, token):
    return (state * 31 + token * 17 + 5) % STATES


class TableStep:
    """A step whose logits follow from the row's key and all symbols so far.

    The cache has what a model's has: a state of each hypothesis, symbols so far, which grow, and the memory,
    a key of each row.
    """

    def __init__(self, logits):
        self.logits = tf.constant(logits)
        self.rows = []

    def start(self, keys):
        keys = tf.convert_to_tensor(keys, tf.int32)
        count = tf.size(keys)
        blocks = [{"key": tf.zeros([count, 1, 0]), "memory_key": keys}]
        return {
            "position": tf.zeros([count], tf.int32),
            "state": tf.zeros([count], tf.int32),
            "blocks": blocks,
        }

    def __call__(self, tokens, cache):
        self.rows.append(tokens.shape[0])
        block = cache["blocks"][0]
        first = tf.cast(cache["position"] == 0, tf.int32)
        state = (1 - first) * next_state(cache["state"], tokens)
        grown = tf.concat([block["key"], tf.cast(tokens, tf.float32)[:, None, None]], 2)
        read = tf.cast(tf.reduce_sum(grown[:, 0, 1:], 1), tf.int32)  # what the grown symbols say counts, too
        width = tf.size(tokens) // tf.size(block["memory_key"])
        place = (state + tf.repeat(block["memory_key"], width) + read) % STATES
        after = {
            "position": cache["position"] + 1,
            "state": state,
            "blocks": [{"key": grown, "memory_key": block["memory_key"]}],
        }
        return tf.gather(self.logits, place), after


OPTIONS = {"memory": ["memory_key"], "growing": ["key"]}


def reference(logits, key, bound, beams, penalty, forbidden=(0, 1, 2), prefix=(), first=1):
    """Candidates of one row, `(ids, score, ended)`, best first, and how many rows its steps computed.

    Of equal scores that of the lower ids comes first, of the higher ones where `first` is -1.
    """
    shifted, logs = normalised(logits)

    def order(found):
        return found[0], [first * symbol for symbol in found[1]]

    live, candidates, rows = [((), np.float32(0), 0)], [], 0
    powers = [float(tf.cast(length, tf.float32) ** penalty) for length in range(1, bound + 1)]
    for length in range(1, bound + 1):
        rows += 1 if length == 1 else beams
        forced = prefix[length - 1] if length <= len(prefix) else 0
        found = []
        for (ids, score, state), token in itertools.product(live, range(V)):
            place = (state + key + sum(ids)) % STATES
            total = np.float32(shifted[place, token] + np.float32(score + logs[place]))
            if (token == forced) if forced else (token not in forbidden):
                found.append(
                    (-total, (*ids, token), next_state(state, token) if ids else next_state(0, token))
                )
        found = sorted(found, key=order)[: 2 * beams]
        over = [each for each in found[:beams] if each[1][-1] == END]
        live = [(ids, -total, state) for total, ids, state in found if ids[-1] != END][:beams]
        score = np.float32(powers[length - 1])
        candidates += [(total / score, ids, True) for total, ids, _ in over]
        ended = sorted(-each[0] for each in candidates)[-beams:]
        if length == bound:
            candidates += [(-total / score, ids, False) for ids, total, _ in live]
        elif not live or (len(ended) == beams and ended[0] >= max(total for _, total, _ in live) / score):
            break
    return [(ids, -total, done) for total, ids, done in sorted(candidates, key=order)[:beams]], rows


def candidates_of(found):
    """Candidates of each row as `reference` has them."""
    rows = []
    for ids, scores, ended in zip(*(each.numpy() for each in found), strict=True):
        row = []
        for symbols, score, done in zip(ids, scores, ended, strict=True):
            (places,) = np.nonzero(symbols)
            assert places.tolist() == list(range(len(places))), "padding is behind all symbols"
            if score > -np.inf:
                row.append((tuple(symbols[: len(places)].tolist()), score, bool(done)))
            else:
                assert not len(places)
                assert not done
        rows.append(row)
    return rows


def by_graph(logits, settings):
    step = TableStep(logits)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
    def run(keys):
        return search(step, step.start(keys), tf.size(keys), settings, **OPTIONS)

    return lambda keys: run(tf.constant(keys, tf.int32))


@pytest.mark.parametrize("ties", [True, False], ids=["ties", "no ties"])
@pytest.mark.parametrize(
    ("beams", "penalty", "bound"),
    [(1, 1.0, 12), (1, 0.0, 3), (2, 1.0, 9), (3, 0.0, 1), (4, 0.6, 8), (5, 0.8, 9)],
)
def test_candidates_are_those_of_a_loop_alone_and_in_any_batch(beams, penalty, bound, ties):
    logits = table(beams, ties)
    run = by_graph(logits, SearchSettings(bound, beams, penalty))
    keys = np.random.default_rng(0).permutation(STATES)[:24].tolist()
    wanted = {key: reference(logits, key, bound, beams, penalty)[0] for key in keys}
    together = run(keys)
    assert together.ids.shape[1] == beams
    assert candidates_of(together) == [wanted[key] for key in keys]
    for part in (keys[:1], keys[7:9], keys[::-1], [keys[3]] * 3, keys[:5] + keys[4::-1]):
        assert candidates_of(run(part)) == [wanted[key] for key in part]
    lengths = {len(candidates[0][0]) for candidates in wanted.values()}
    assert len(lengths) > 1 or bound == 1, "rows of one length prove little"


def test_answers_that_end_first_do_not_keep_out_a_better_one_that_is_longer():
    # The end, which is not likely, is the second of two beams at each step until 4 and 5 are there.
    after = {BEGIN: {4: 0.9, END: 0.1}, 4: {5: 0.9, END: 0.1}, 5: {END: 0.9, 4: 0.1}}
    rows = [[after.get(last, {}).get(symbol, 0) for symbol in range(6)] for last in range(6)]
    logits = tf.constant(np.log(np.maximum(rows, 1e-30)), tf.float32)
    found = search(lambda tokens, cache: (tf.gather(logits, tokens), cache), {}, 1, SearchSettings(9, 2))
    assert found.ids.numpy().tolist() == [[[4, 5, END, 0, 0], [4, 5, 4, 5, END]]]
    wanted = [np.log(0.9), (4 * np.log(0.9) + np.log(0.1)) / 5]  # of [4, END], which ended before, -1.2
    np.testing.assert_allclose(found.scores, [wanted], rtol=1e-5)


@pytest.mark.parametrize(("beams", "penalty"), [(1, 1.0), (4, 0.6)])
def test_another_order_of_equal_scores_has_other_candidates(beams, penalty):
    """So the tests above see the order."""
    logits = table(beams)
    others = 0
    for key in range(10):
        found, turned = (reference(logits, key, 8, beams, penalty, first=first)[0] for first in (1, -1))
        others += found != turned
    assert others > 5


@pytest.mark.parametrize("beams", [1, 3])
def test_eager_and_graph_agree(beams):
    logits = table(7)
    settings, keys = SearchSettings(6, beams), [5, 1, 40]
    step = TableStep(logits)
    eager = search(step, step.start(keys), 3, settings, **OPTIONS)
    assert candidates_of(eager) == candidates_of(by_graph(logits, settings)(keys))


@pytest.mark.parametrize("beams", [1, 4])
def test_only_live_rows_are_computed(beams):
    logits, bound = table(2), 12
    keys = list(range(0, 60, 4))
    step = TableStep(logits)
    search(step, step.start(keys), len(keys), SearchSettings(bound, beams), **OPTIONS)
    rows = [reference(logits, key, bound, beams, 1.0)[1] for key in keys]
    assert sum(step.rows) == sum(rows) < len(keys) * max(rows)


def test_greedy_search_copies_no_cache_until_a_row_ends():
    step = TableStep(table(2))
    seen, kept = [], []

    def watched(tokens, cache):
        kept.append(bool(seen) and cache["state"] is seen[-1][0] and seen[-1][1] == tokens.shape[0])
        seen.append((step(tokens, cache)[1]["state"], tokens.shape[0]))
        logits, after = step(tokens, cache)
        return logits, {**after, "state": seen[-1][0]}

    keys = list(range(0, 60, 4))
    search(watched, step.start(keys), len(keys), SearchSettings(12), **OPTIONS)
    rows = [count for _, count in seen]
    assert kept[1:] == [now == before for before, now in itertools.pairwise(rows)]
    assert any(kept)


def test_beams_bounds_and_penalty_may_be_tensors():
    logits, keys = table(3), [3, 14, 15, 9]
    step = TableStep(logits)
    spec = tf.TensorSpec([], tf.int32)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32), spec, spec, tf.TensorSpec([], tf.float32)])
    def run(keys, bound, beams, penalty):
        settings = SearchSettings(bound, beams, penalty)
        return search(step, step.start(keys), tf.size(keys), settings, **OPTIONS)

    for bound, beams, penalty in [(5, 1, 1.0), (1, 1, 0.0), (4, 3, 0.5), (7, 2, 1.0)]:
        wanted = [reference(logits, key, bound, beams, penalty)[0] for key in keys]
        assert candidates_of(run(keys, bound, beams, penalty)) == wanted


@pytest.mark.parametrize("beams", [1, 2])
def test_each_row_may_have_a_bound(beams):
    logits, keys, bounds = table(3), [3, 14, 15, 9, 26], [1, 5, 0, 9, 2]
    found = by_graph(logits, SearchSettings(tf.constant(bounds), beams))(keys)
    wanted = [
        reference(logits, key, max(bound, 1), beams, 1.0)[0] for key, bound in zip(keys, bounds, strict=True)
    ]
    assert candidates_of(found) == wanted


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("ragged", [True, False])
def test_answers_begin_with_a_prefix(beams, ragged):
    logits, keys = table(5), [3, 14, 15, 9]
    prefixes: list[list[int]] = [[], [4], [6, 1, 5], [4, END]]
    given = tf.ragged.constant(prefixes, dtype=tf.int32)
    given = given if ragged else given.to_tensor(0)
    step = TableStep(logits)
    found = search(step, step.start(keys), 4, SearchSettings(6, beams), prefix=given, **OPTIONS)
    wanted = [
        reference(logits, key, 6, beams, 1.0, prefix=prefix)[0]
        for key, prefix in zip(keys, prefixes, strict=True)
    ]
    assert [[one for one in row if one[1] > -np.inf] for row in wanted] == candidates_of(found)
    assert candidates_of(found)[2][0][0][:3] == (6, 1, 5)


def test_forbidden_symbols_never_come_out_and_their_probability_counts():
    logits = table(1)
    logits[:, [0, 1, 2, 5]] += 9
    for beams in (1, 3):
        found = by_graph(logits, SearchSettings(6, beams, forbidden=(0, 1, 2, 5)))([2, 11])
        wanted = [reference(logits, key, 6, beams, 1.0, forbidden=(0, 1, 2, 5))[0] for key in (2, 11)]
        assert candidates_of(found) == wanted
        assert not {1, 2, 5} & set(found.ids.numpy().ravel().tolist())
        assert found.scores.numpy().max() < -5


def test_a_batch_may_be_empty():
    for beams in (1, 4):
        found = by_graph(table(1), SearchSettings(6, beams))([])
        assert found.scores.shape == (0, beams)
        assert found.ids.shape[:2] == (0, beams)
        assert found.ended.shape == (0, beams)


def test_beams_may_be_as_many_as_symbols_and_missing_candidates_have_no_ids():
    logits = np.full((STATES, V), MASKED, np.float32)
    logits[:, 4] = 0  # one answer, without an end
    found = by_graph(logits, SearchSettings(3, V))([0, 1])
    assert candidates_of(found) == [[((4, 4, 4), 0.0, False)]] * 2
    logits = table(6)
    wanted = reference(logits, 8, 5, V, 1.0, forbidden=(0,))[0]
    assert candidates_of(by_graph(logits, SearchSettings(5, V, forbidden=(0,)))([8])) == [wanted]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"beams": 0}, "`beams` must be at least 1. Received 0"),
        ({"max_new_tokens": 0}, "`max_new_tokens` must be at least 1. Received 0"),
        ({"length_penalty": float("nan")}, "`length_penalty` must be a finite number. Received nan"),
        ({"forbidden": (END,)}, "`forbidden` must not have the end symbol"),
        ({"beams": V + 1}, f"`beams` must be at most {V}, the size of the vocabulary. Received {V + 1}"),
    ],
)
def test_settings_out_of_range_are_refused(settings, reason):
    step = TableStep(table(0))
    with pytest.raises(ConfigError, match=reason):
        search(step, step.start([1]), 1, SearchSettings(**({"max_new_tokens": 4} | settings)), **OPTIONS)


def test_the_begin_symbol_is_read_first():
    read = []

    def step(tokens, cache):
        read.append(tokens.numpy().tolist())
        return tf.one_hot(tf.fill(tf.shape(tokens), END), V, on_value=50.0), cache

    assert candidates_of(search(step, {}, 2, SearchSettings(4))) == [[((END,), 0.0, True)]] * 2
    assert read == [[BEGIN, BEGIN]]
