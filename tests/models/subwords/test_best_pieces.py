"""The best segmentation is that of `tokenizers`' Unigram, to the rounding of its sums."""

import functools
import itertools
import random

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from keras_selfattn.models.subwords import best_pieces
from keras_selfattn.models.subwords.best_pieces import BestPieces
from keras_selfattn.models.subwords.pieces import FIRST

LETTERS = "ab-."
UNKNOWN = 2
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))]


def random_vocabulary(seed, *, even=False):
    """Pieces of a few letters, of which some have equal scores; `even` ones have all of them equal."""
    draw = random.Random(seed)
    names = {"".join(draw.choice(LETTERS) for _ in range(draw.randint(1, 5))) for _ in range(60)}
    names |= {"-" * count for count in (1, 2, 3, 4, 7)}
    pieces = [("<s>", 0.0), ("é", -3.5), ("<unk>", 0.0)]
    return pieces + [(name, -1.0 if even else -draw.randint(20, 90) / 7) for name in sorted(names)]


def traced(pieces):
    """The graph of a segmentation, which many calls run faster."""
    return tf.function(
        pieces.__call__, input_signature=[tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.int64)]
    )


def segmented(graph, words):
    """The ids of the pieces of each word."""
    codes = tf.strings.unicode_decode(words, "UTF-8")
    splits = codes.row_splits
    flat = tf.tensor_scatter_nd_add(codes.flat_values, splits[:-1, None], tf.fill([len(words)], FIRST))
    ids, places, _ = (each.numpy() for each in graph(flat, splits))
    borders = np.searchsorted(places, splits.numpy())
    return [ids[first:last].tolist() for first, last in itertools.pairwise(borders)]


@functools.cache
def both(seed, even=False):
    """The package's model, and the graph of ours."""
    vocabulary = random_vocabulary(seed, even=even)
    names, scores = zip(*vocabulary, strict=True)
    return Tokenizer(models.Unigram(vocabulary, unk_id=UNKNOWN)), traced(BestPieces(names, scores, UNKNOWN))


def check(oracle, graph, words):
    for word, ids in zip(words, segmented(graph, words), strict=True):
        assert ids == oracle.encode(word, add_special_tokens=False).ids, word


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("even", [False, True])
def test_words_have_the_pieces_of_tokenizers(seed, even):
    draw = random.Random(seed)
    words = ["".join(draw.choice(LETTERS + "éxy") for _ in range(draw.randint(1, 30))) for _ in range(400)]
    check(*both(seed, even), [*words, *("-" * count for count in range(1, 30)), "<s>a<unk>"])


@pytest.mark.parametrize("seed", SEEDS)
def test_long_words_are_cut_where_it_changes_nothing(seed, monkeypatch):
    """The sums of a stretch begin with those before it: without them, equal ways are chosen by rounding."""
    draw = random.Random(seed)
    words = ["".join(draw.choice(LETTERS + "éx") for _ in range(draw.randint(60, 300))) for _ in range(40)]
    for count in (65, 66, 100, 333):
        words += ["-" * count, f"ab.{'-' * count}x{'.' * count}", f"x{'-' * count}é{'-' * count}"]
    check(*both(seed), words)
    monkeypatch.setattr(best_pieces, "_LONG", 0)  # short ones, too
    names, scores = zip(*random_vocabulary(seed), strict=True)
    graph = traced(BestPieces(names, scores, UNKNOWN))
    check(both(seed)[0], graph, [word[:count] for count, word in enumerate(words, start=1)])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(LETTERS + "éx", min_size=1, max_size=80), min_size=1, max_size=4))
def test_any_words_have_the_pieces_of_tokenizers(words):
    check(*both(1), words)


def test_several_unknown_characters_are_one_piece_and_words_stay_apart():
    graph = traced(BestPieces(["<s>", "a", "<unk>"], [0.0, -1.0, 0.0], UNKNOWN))
    assert segmented(graph, ["xyz", "x", "axya", "x<s>"]) == [[2], [2], [1, 2, 1], [2, 0]]


def test_no_words_have_no_pieces():
    pieces = BestPieces(["a", "b", "<unk>"], [-1.0, -2.0, 0.0], UNKNOWN)
    assert [each.shape for each in pieces(tf.zeros([0], tf.int32), tf.zeros([1], tf.int64))] == [0, 0, 0]


def test_a_text_without_blanks_is_cut_into_stretches_that_do_not_grow_with_it():
    """The steps, and so the time, are those of the longest stretch."""
    names, scores = zip(*random_vocabulary(1), strict=True)
    pieces = BestPieces(names, scores, UNKNOWN)
    draw = random.Random(5)
    word = "".join(draw.choice("ab.é") for _ in range(20_000))
    codes = np.array([ord(letter) for letter in word], np.int32)
    codes[0] += FIRST
    ids, places, stretches = (
        each.numpy() for each in traced(pieces)(codes, tf.constant([0, len(word)], tf.int64))
    )
    assert np.diff([*stretches, len(word)]).max() < 200
    assert {*stretches} <= {*places}
    assert len(ids) == len(places)
