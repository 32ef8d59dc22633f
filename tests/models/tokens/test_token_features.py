"""Features of tokens: words, spellings, shapes, and their vectors."""

import numpy as np
import tensorflow as tf

from keras_selfattn import models
from keras_selfattn.models.tokens.token_features import FEATURES, FeatureEmbedding, TokenFeatures, learn_words


def features(*tokens, vocabulary=("word",)):
    return TokenFeatures(models.TokenConfig(), vocabulary)(tf.constant([list(tokens)])).numpy()[0]


def test_words_are_looked_up_without_case_and_rare_ones_are_unknown():
    rows = [["The", "the", "film"], ["FILM", "once"]]
    assert learn_words(models.TokenConfig(), rows) == ["film", "the"]
    assert learn_words(models.TokenConfig(vocabulary_size=1), rows) == ["film"]
    assert learn_words(models.TokenConfig(), [["only", "once"]]) == ["once", "only"]
    found = features("THE", "once", "", vocabulary=["film", "the"])
    assert found[:, 0].tolist() == [3, 1, 0]
    assert (found[2] == 0).all(), "padding has no features"


def test_tokens_share_the_features_of_what_they_share_in_spelling():
    """Columns: word, then prefix and suffix of 1 to 4 characters in turn, shape, whole."""
    names = ["word", *(f"{kind}{n}" for n in (1, 2, 3, 4) for kind in ("prefix", "suffix")), "shape", "whole"]
    assert len(names) == FEATURES

    def shared(one, other):
        same = np.equal(*features(one, other))
        return {name for name, equal in zip(names, same, strict=True) if equal} - {"word"}

    assert shared("walking", "talking") == {"suffix1", "suffix2", "suffix3", "suffix4", "shape"}
    assert shared("Größe", "größer") == {"prefix1", "prefix2", "prefix3", "prefix4"}
    assert shared("Paris", "BERLIN") == set()
    assert shared("Paris", "Berlin") == {"shape"}
    assert shared("12.30", "7.5") == {"shape", "prefix1", "suffix1"}, "all digits are one"
    assert shared("2024", "1999") == set(names) - {"word"}
    assert shared("IBM", "USA") == {"shape"}
    assert shared("東京", "東北") == {"prefix1", "shape"}


def test_rows_have_the_features_of_the_graph():
    given = [["Ada", "\ud800"], [], ["it", "Ada", "x\x00"]]
    read = TokenFeatures(models.TokenConfig(hash_buckets=64), ["ada", "it"])
    for row, found in zip(given, read.rows(given), strict=True):
        assert (found.shape, found.dtype) == ((len(row), FEATURES), np.int32)
        wanted = [read(tf.constant([token.encode(errors="replace")])).numpy()[0] for token in row]
        np.testing.assert_array_equal(found, np.array(wanted).reshape(found.shape))
        assert found.min(initial=1) >= 1
        assert found[:, 1:].max(initial=1) < 64


def test_the_embedding_sums_the_vectors_of_word_and_spelling():
    layer = FeatureEmbedding(5, 7, 3)
    layer.build((None, None, 4))
    words, hashed = (
        np.random.default_rng(0).normal(size=shape).astype("float32") for shape in ((5, 3), (7, 3))
    )
    layer._words.set_weights([words])
    layer._hashed.set_weights([hashed])
    found = np.asarray(layer(np.array([[[2, 1, 6, 6], [0, 0, 0, 0]]])))
    np.testing.assert_allclose(found[0, 0], np.sqrt(3) * (words[2] + hashed[1] + 2 * hashed[6]), rtol=1e-5)
    assert (found[0, 1] == 0).all()


def test_dropped_words_keep_their_parts_and_lose_their_whole_spelling():
    layer = FeatureEmbedding(5, 7, 3, word_dropout=0.5)
    layer.build((None, None, 3))
    words, hashed = np.eye(5, 3, dtype="float32"), np.zeros((7, 3), "float32")
    words[2], hashed[4], hashed[5] = [1, 0, 0], [0, 1, 0], [0, 0, 1]
    words[1] = 0
    layer._words.set_weights([words])
    layer._hashed.set_weights([hashed])
    inputs = np.array([[[2, 4, 5]] * 400])
    kinds = {
        tuple(row) for row in (np.asarray(layer(inputs, training=True))[0] / np.sqrt(3)).round(3).tolist()
    }
    assert kinds == {(1, 1, 1), (0, 1, 0)}
    dropped = (np.asarray(layer(inputs, training=True))[0, :, 0] == 0).mean()
    assert 0.4 < dropped < 0.6
    assert (np.asarray(layer(inputs))[0, :, 0] > 0).all(), "only in training"
