"""Batches of sources and answers: every row once, its parts together, bounded by both sides."""

import numpy as np
import pytest

from keras_selfattn.models.sequences import sequence_batches
from keras_selfattn.models.sequences.sequence_batches import SequenceBatches

RANDOM = np.random.default_rng(0)


def rows(count, longest=12):
    sources = [np.append(RANDOM.integers(4, 9, RANDOM.integers(longest)), 3) for _ in range(count)]
    answers = [np.concatenate([[2], RANDOM.integers(4, 9, RANDOM.integers(longest)), [3]]) for _ in sources]
    return [each.astype(np.int32) for each in sources], [each.astype(np.int32) for each in answers]


def without_padding(row):
    return tuple(row[row != 0].tolist())


@pytest.mark.parametrize("shuffle", [False, True])
def test_each_row_comes_once_with_its_answer_and_weight(shuffle):
    sources, answers = rows(37)
    weights = np.arange(37, dtype="float32")
    batches = SequenceBatches(sources, answers, weights, vocabulary_size=9, batch_size=5, shuffle=shuffle)
    found = []
    for (source, target), labels, weight in batches:
        assert len(source) <= 5
        for read, written, learned, of_row in zip(source, target, labels, weight, strict=True):
            assert without_padding(written)[1:] == without_padding(learned)[:-1]
            found.append((int(of_row), without_padding(read), (2, *without_padding(learned))))
    assert len(batches) == 8
    assert sorted(found) == [
        (place, tuple(source.tolist()), tuple(answer.tolist()))
        for place, (source, answer) in enumerate(zip(sources, answers, strict=True))
    ]
    if not shuffle:
        assert [place for place, *_ in found] == batches.order.tolist()


def test_iterations_of_equal_seeds_are_equal_and_differ_from_each_other():
    sources, answers = rows(30)

    def made():
        return SequenceBatches(sources, answers, vocabulary_size=9, batch_size=4, shuffle=True, seed=5)

    first, second = made(), made()
    orders = [
        [(labels.tolist(), target.tolist()) for (_, target), labels in each] for each in (first, second)
    ]
    assert orders[0] == orders[1]
    assert [(labels.tolist(), target.tolist()) for (_, target), labels in first] != orders[0]


def test_long_answers_and_large_vocabularies_make_smaller_batches(monkeypatch):
    sources = [np.full(4, 5, np.int32)] * 16
    short, long = [np.full(5, 5, np.int32)] * 16, [np.full(65, 5, np.int32)] * 16
    monkeypatch.setattr(sequence_batches, "_MAX_SYMBOLS", 16 * 8)
    assert [
        len(SequenceBatches(sources, each, vocabulary_size=9, batch_size=16)) for each in (short, long)
    ] == [
        1,
        16,
    ]
    monkeypatch.setattr(sequence_batches, "_MAX_LOGITS", 4 * 9 * 8)
    assert len(SequenceBatches(sources, short, vocabulary_size=9, batch_size=16)) == 2


def test_rows_of_one_length_are_batched_together():
    lengths = [(2, 9), (9, 2), (2, 2), (9, 9)] * 8
    sources = [np.full(read, 5, np.int32) for read, _ in lengths]
    answers = [np.full(written + 1, 5, np.int32) for _, written in lengths]
    batches = SequenceBatches(sources, answers, vocabulary_size=9, batch_size=8, shuffle=True)
    assert all((source != 0).all() and (target != 0).all() for (source, target), _ in batches)
