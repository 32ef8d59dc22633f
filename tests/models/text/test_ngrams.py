"""N-grams of texts: words, pairs, gaps and pieces, counted in bounded memory."""

import numpy as np
import tensorflow as tf

from keras_selfattn import models
from keras_selfattn.models.text.ngram_counts import counted
from keras_selfattn.models.text.ngrams import ngram_ids

CONFIG = models.TextConfig(width=8, num_layers=1, num_heads=2, ngram_buckets=64)


def test_a_word_of_a_megabyte_is_cut_up_as_far_as_a_long_word():
    assert ngram_ids(CONFIG, tf.constant(["x" * 1_000_000])).ids.shape[0] < 400


def test_long_texts_are_counted_a_few_at_a_time(monkeypatch):
    texts = ["a good film " * 3, "bad", "fine " * 4, "so so"]
    together = [np.concatenate(each) for each in zip(*counted(CONFIG, texts), strict=True)]
    monkeypatch.setattr("keras_selfattn.models.text.ngram_counts._CHARACTERS", 30)
    apart = list(counted(CONFIG, texts))
    assert len(apart) == 2, "the first text alone, then as many as have 30 characters together"
    for wanted, found in zip(together, zip(*apart, strict=True), strict=True):
        np.testing.assert_array_equal(np.concatenate(found), wanted)


def test_a_text_is_cut_where_the_config_says_for_the_wide_path_too():
    config = models.TextConfig(tokens="characters", max_tokens=4)
    cut, whole = (sorted(ngram_ids(config, tf.constant([text])).ids.numpy()) for text in ("good bad", "good"))
    assert cut == whole
