"""The wide path of two texts: the words and shares that it reads, and that it learns what both have."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_selfattn import models
from keras_selfattn.models.text.pair_ngrams import PAIR_KINDS, named_pair_ngrams, pair_ngram_ids

CONFIG = models.TextConfig(width=8, num_layers=1, num_heads=1, ngram_buckets=64)


def test_words_of_each_text_of_both_and_of_one_are_told_with_shares():
    found = named_pair_ngrams(CONFIG, tf.constant(["A good good film", ""]), tf.constant(["good play", ""]))
    told = [
        (PAIR_KINDS[kind], name.decode())
        for row, kind, name in zip(
            found.ngrams.rows.numpy(), found.kinds.numpy(), found.names.numpy(), strict=True
        )
        if row == 0
    ]
    words = [each for each in told if each[0] != "agreement"]
    assert sorted(words) == sorted(
        [("text", word) for word in ("a", "good", "good", "film")]
        + [("text_pair", word) for word in ("good", "play")]
        + [("both", "good"), ("one", "a"), ("one", "film"), ("one", "play")]
    )
    # One of four different words, of three and of two; "goo", "ood" and more of the runs of three.
    shares = [name for kind, name in told if kind == "agreement"]
    assert shares[:3] == [
        "words of all in both, tenths: 2",
        "words of text in both, tenths: 3",
        "words of text_pair in both, tenths: 5",
    ]
    assert len(shares) == 6
    ids = pair_ngram_ids(CONFIG, tf.constant(["a", "b"]), tf.constant(["b", "a"]))
    by_row = [set(ids.ids.numpy()[ids.rows.numpy() == row].tolist()) for row in (0, 1)]
    assert by_row[0] != by_row[1]


def test_of_characters_no_more_are_read_than_max_tokens():
    config = dataclasses.replace(CONFIG, tokens="characters", max_tokens=5)
    read, cut = (
        pair_ngram_ids(config, tf.constant([text]), tf.constant(["a"])) for text in ("good film", "good ")
    )
    assert sorted(read.ids.numpy()) == sorted(cut.ids.numpy())


@pytest.mark.slow
def test_it_learns_which_pairs_agree_whatever_their_words(eager_steps):
    made = np.random.default_rng(0)
    words = [f"word{n}" for n in range(300)]

    def pairs(count):
        rows, labels = [], []
        for n in range(count):
            first = made.choice(words, 6, replace=False)
            second = np.concatenate([first[:4] if n % 2 else made.choice(words, 4), made.choice(words, 2)])
            rows.append((" ".join(first), " ".join(made.permutation(second))))
            labels.append("same" if n % 2 else "other")
        return rows, labels

    keras.utils.set_random_seed(0)
    model = models.TextClassifier(CONFIG)
    model.adapt(*pairs(120))
    rows, labels = pairs(60)
    assert np.mean(np.array(model.label(rows)) == labels) > 0.9
    in_graph = np.asarray(model(tf.constant(rows)))
    np.testing.assert_allclose(model.predict(rows, verbose=0), in_graph, atol=1e-5)
