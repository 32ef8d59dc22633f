"""Vectors of n-grams: neighbours, spellings and hidden words."""

import keras
import numpy as np

from keras_selfattn.models.text.ngram_embedding import HiddenTokens, NGramEmbedding, SpellingEmbedding


def test_ngrams_see_their_neighbours_and_not_the_padding():
    layer = NGramEmbedding(50, 4, max_ngram=3, ngram_buckets=1009)
    layer.build((None, None))
    random = np.random.default_rng(0)
    layer.set_weights([random.normal(size=w.shape) for w in layer.weights])
    alone, padded = np.asarray(layer(np.array([[3, 4, 5]]))), np.asarray(layer(np.array([[3, 4, 5, 0, 0]])))
    np.testing.assert_array_equal(alone[0], padded[0, :3])
    of = {
        ids: [int(n[0, 1]) for n in layer._ngrams(np.array([ids], "int32"))]
        for ids in ((3, 4, 5), (9, 4, 5), (3, 4, 9))
    }
    token, pair, triple = of[3, 4, 5]
    before, after = of[9, 4, 5], of[3, 4, 9]
    assert (before[0], after[0]) == (token, token)
    assert before[1] != pair == after[1], "a pair has the token before and not the one after"
    assert len({triple, before[2], after[2]}) == 3, "a triple has both"
    buckets = [np.asarray(ids) for ids in layer._ngrams(np.arange(100, dtype="int32")[None])]
    assert all(0 <= ids.min() and ids.max() < 1009 for ids in buckets)
    assert all(len(np.unique(ids)) > 85 for ids in buckets), "neighbouring ids spread over the buckets"


def test_a_spelling_is_the_sum_of_its_pieces():
    layer = SpellingEmbedding(vocabulary_size=4, pieces=3, buckets=7, width=2)
    layer.build((None, None))
    assert not np.asarray(layer(np.array([[2, 3]]))).any(), "before training it says nothing"
    table = np.random.default_rng(0).normal(size=(7, 2)).astype("float32")
    layer._table.set_weights([table])
    layer.places.assign([[0, 0, 0], [0, 0, 0], [1, 6, 6], [5, 1, 2]])
    found = np.asarray(layer(np.array([[2, 3, 1]])))
    wanted = [table[1] + 2 * table[6], table[5] + table[1] + table[2], 3 * table[0]]
    np.testing.assert_allclose(found[0], np.sqrt(2) * np.array(wanted), rtol=1e-5)
    assert np.asarray(layer.compute_mask(np.array([[3, 1, 0]]))).tolist() == [[True, True, False]]


def test_hidden_words_are_unknown_in_training_alone_and_padding_stays():
    keras.utils.set_random_seed(0)
    layer, ids = HiddenTokens(0.3), np.array([[5] * 400 + [0] * 100])
    found = np.asarray(layer(ids, training=True))
    assert set(found[0, :400].tolist()) == {1, 5}
    assert 0.2 < (found[0, :400] == 1).mean() < 0.4
    assert not found[0, 400:].any()
    np.testing.assert_array_equal(layer(ids), ids)
    np.testing.assert_array_equal(HiddenTokens(0.0)(ids, training=True), ids)
