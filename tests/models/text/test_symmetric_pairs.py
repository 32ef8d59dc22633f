"""Models for which a pair of texts and its reverse are one thing: one row, and one answer to the last bit."""

import random

import keras
import numpy as np
import pytest
import tensorflow as tf
from pretrained_folders import (
    BERT,
    class_logits,
    classifier_weights,
    pieces_of,
    write_byte_pairs,
    write_classifier,
    write_folder,
)

from keras_selfattn import models
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.batches.length_sorted import padded
from keras_selfattn.models.text.pair_ngrams import named_pair_ngrams, pair_kinds
from keras_selfattn.rows.text_pairs import SYMMETRIC_PAIRS

SMALL = {"width": 8, "num_layers": 1, "num_heads": 2, "ngram_buckets": 64}
PAIRS = [("a good film", "it is good"), ("bad", "it is a film"), ("good", "")] * 4
LABELS = ["same", "other", "same"] * 4


def reverse(pairs):
    return [(second, first) for first, second in pairs]


def made_up(count, seed=0):
    made = random.Random(seed)
    words = ["good", "a", "film", "Film", "New", "☃", "日本", "."]
    return [tuple(" ".join(made.choices(words, k=made.randrange(9))) for _ in range(2)) for _ in range(count)]


def of_words(symmetric=True, **settings):
    """Returns a model without wide path, whose weights are random: those of one seed for either value."""
    config = models.TextConfig(**SMALL, wide=False, symmetric=symmetric, **settings)
    model = models.TextClassifier(
        config, vocabulary=["a", "film", "good"], labels=["+", "-", "0"], text_pairs=True
    )
    made = np.random.default_rng(0)
    for weight in model.core.trainable_variables:
        weight.assign(made.normal(size=weight.shape))
    return model


@pytest.fixture(scope="module")
def adapted():
    keras.utils.set_random_seed(0)
    model = models.TextClassifier(models.TextConfig(**SMALL, symmetric=True))
    model.adapt(PAIRS, LABELS)
    for weight in model.core.trainable_variables:
        weight.assign(keras.random.normal(weight.shape, seed=len(weight.path)))
    return model


@pytest.mark.parametrize("members", [1, 2])
def test_the_answer_is_that_of_the_mean_of_the_logits_of_both_orders(members):
    pairs = made_up(20)
    model, plain = of_words(members=members), of_words(symmetric=False, members=members)
    orders = [_logits(plain, each) for each in (pairs, reverse(pairs))]  # [orders, members, B, C]
    assert np.abs(orders[0] - orders[1]).max() > 0.1
    each = np.mean(orders, axis=0)
    each -= np.log(np.exp(each).sum(axis=-1, keepdims=True))
    wanted = np.exp(each.mean(axis=0))
    wanted /= wanted.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(np.asarray(model(pairs)), wanted, atol=1e-5)


def _logits(model, pairs):
    layers = [layer for layer in model.core.layers if layer.name.startswith("logits")]
    until = keras.Model(model.core.inputs[0], [layer.output for layer in layers])
    found = until(padded(model._features(pairs)))  # of one layer alone, no list
    return np.reshape(np.array(found), (len(layers), len(pairs), -1))


def test_every_way_to_ask_has_one_answer_for_both_orders(adapted):
    pairs = made_up(30, seed=1)
    found = adapted.predict(pairs, verbose=0)
    np.testing.assert_array_equal(found, adapted.predict(reverse(pairs), verbose=0))
    in_graph = [np.asarray(adapted(tf.constant(each))) for each in (pairs, reverse(pairs))]
    np.testing.assert_array_equal(*in_graph)
    np.testing.assert_allclose(found, in_graph[0], atol=1e-5)
    wide = [adapted._side_inputs(each, training=False) for each in (pairs, reverse(pairs))]
    np.testing.assert_array_equal(*wide)
    assert np.ptp(wide[0]) > 1e-2
    told = adapted.explain([("a good film", "bad")])[0]
    assert told.tokens == ["a", "good", "film", "[SEP]", "bad"]
    order = [4, 3, 0, 1, 2]
    other = adapted.explain([("bad", "a good film")])[0]
    assert np.abs(told.weights - other.weights[..., order, :][..., order]).max() > 1e-4  # of the given order


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_ids_and_types_are_those_of_each_order(kind):
    pairs = made_up(30, seed=2)
    model, plain = of_words(tokens=kind), of_words(symmetric=False, tokens=kind)
    orders = [plain._features(each) for each in (pairs, reverse(pairs))]
    for row, one, other in zip(model._features(pairs), *orders, strict=True):
        wanted = [np.concatenate(each, axis=1).tolist() for each in ((one, other), (other, one))]
        assert row.tolist() in wanted
    for row, again in zip(model._features(pairs), model._features(reverse(pairs)), strict=True):
        np.testing.assert_array_equal(row, again)


def test_of_cut_pairs_both_orders_have_the_same_tokens():
    model = of_words(max_tokens=8)
    words = "a film good new"
    rows = model._features([(f"{words} {words}", f"{words} {words}"), (words, "a"), ("a", "film")])
    assert [len(row) for row in rows] == [8, 6, 3]
    for row in rows:
        assert sorted(row[:, 0]) == sorted(row[:, 2])


def test_words_of_either_text_are_one_feature_and_shares_are_of_the_fewer_and_the_more():
    config = models.TextConfig(symmetric=True)
    told = []
    for first, second in (("A good good film", "good play"), ("good play", "A good good film")):
        found = named_pair_ngrams(config, tf.constant([first]), tf.constant([second]))
        names = [name.decode() for name in found.names.numpy()]
        kinds = [pair_kinds(config)[kind] for kind in found.kinds.numpy()]
        told.append((list(zip(kinds, names, strict=True)), found.ngrams.ids.numpy().tolist()))
    assert told[0] == told[1]
    words = sorted(each for each in told[0][0] if each[0] != "agreement")
    assert words == sorted(
        [("either", word) for word in ("a", "good", "good", "good", "film", "play")]
        + [("both", "good"), ("one", "a"), ("one", "film"), ("one", "play")]
    )
    shares = [name for kind, name in told[0][0] if kind == "agreement"]
    assert shares[:3] == [
        "words of all in both, tenths: 2",
        "words of the fewer in both, tenths: 5",
        "words of the more in both, tenths: 3",
    ]


def test_an_imported_score_is_the_mean_of_both_orders_by_the_formulas(tmp_path):
    tensors = classifier_weights(BERT, 1)
    folder = write_classifier(tmp_path / "m", ["score"], BERT, tensors)
    pieces, words = pieces_of(BERT), (["a", "good", "film", "."], ["bad", "##ly"])
    logits = []
    for first, second in (words, words[::-1]):
        ids = [pieces.index(piece) for piece in ("[CLS]", *first, "[SEP]", *second, "[SEP]")]
        types = [0] * (len(first) + 2) + [1] * (len(second) + 1)
        logits.append(class_logits(BERT, tensors, ids, types))
    assert abs(logits[0] - logits[1]) > 1e-3
    model = models.TextRegressor.from_folder(folder, symmetric=True)
    assert (model.text_pairs, model.row_kind) == (True, SYMMETRIC_PAIRS)
    pair = ("a good film .", "badly")
    found = model.predict([pair], verbose=0)
    assert model.config.bounded
    np.testing.assert_allclose(found, [[1 / (1 + np.exp(-np.mean(logits)))]], atol=1e-5)
    np.testing.assert_array_equal(found, model.predict([pair[::-1]], verbose=0))
    with pytest.raises(ConfigError, match=r"`symmetric` is for two texts a row.*text_pairs=False"):
        models.TextRegressor.from_folder(folder, symmetric=True, text_pairs=False)


def test_a_pretrained_encoder_reads_both_orders_with_its_own_separators(tmp_path):
    pairs = [("good film", "bad film"), ("good", "good")] * 6
    bert = models.TextClassifier({"symmetric": True}, start=write_folder(tmp_path / "bert"))
    bert.adapt(pairs, ["+", "-"] * 6)
    # The folder's own order of ids is not that of these, which have padding first.
    orders = bert.tokenizer.rows_of_pairs([("good", "bad film"), ("bad film", "good")])[0]
    (row,) = bert._features([("good", "bad film")])
    assert row.tolist() in [np.concatenate(each, axis=1).tolist() for each in (orders, orders[::-1])]
    np.testing.assert_array_equal(bert.predict(pairs, verbose=0), bert.predict(reverse(pairs), verbose=0))
    roberta = models.TextClassifier({"symmetric": True}, start=write_byte_pairs(tmp_path / "roberta"))
    roberta.adapt(pairs, ["+", "-"] * 6)
    (row,) = roberta._features([("good", "bad")])
    ends = row[:, [0, 2]].T.tolist()
    assert ends[0][1] == ends[1][4]
    assert ends[0][4] == ends[1][1]
    assert ends[0][2:4] == ends[1][2:4]
    assert not row[:, [1, 3]].any()


def test_the_saved_file_says_it_and_its_weights_fit_no_other_model(adapted, tmp_path):
    adapted.save(tmp_path / "pairs.keras")
    again = models.load(tmp_path / "pairs.keras")
    assert (again.symmetric, again.row_kind) == (True, SYMMETRIC_PAIRS)
    # Its weights lie elsewhere in memory, and some processors then add in another order.
    found, wanted = (model.predict(PAIRS, verbose=0) for model in (again, adapted))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-7)
    plain = models.TextClassifier(models.TextConfig(**SMALL))
    plain.adapt(PAIRS, LABELS)
    with pytest.raises(ConfigError, match="`symmetric` is True in the file and False here"):
        plain.load_weights(tmp_path / "pairs.keras")
    old = plain.get_config()
    del old["config"]["symmetric"]  # as in files of earlier versions
    assert models.TextClassifier.from_config(old).symmetric is False
    begun = models.TextClassifier({"symmetric": True, "wide": False}, start=_saved(plain, tmp_path))
    begun.adapt(PAIRS, LABELS)
    found = [np.asarray(begun(each)) for each in (PAIRS, reverse(PAIRS))]
    np.testing.assert_array_equal(*found)


def _saved(model, folder):
    model.save(folder / "plain.keras")
    return folder / "plain.keras"


def test_one_text_a_row_is_refused_by_name():
    config = models.TextConfig(**SMALL, symmetric=True)
    with pytest.raises(ConfigError, match=r"`symmetric` is for two texts a row. Received text_pairs=False"):
        models.TextClassifier(config, text_pairs=False)
    model = models.TextClassifier(config)
    assert model.text_pairs is True
    with pytest.raises(DataError, match=r"because it is `symmetric` \(--symmetric\). Received one, 'good'"):
        model.fit(["good", "bad"], ["+", "-"])
    with pytest.raises(ConfigError, match="`symmetric` must be True or False. Received 'yes'"):
        models.TextConfig(symmetric="yes")
    with pytest.raises(ConfigError, match="`symmetric` is for two texts a row, and pretraining reads one"):
        models.MaskedTokenModel(config)


@pytest.mark.slow
def test_training_takes_either_order_and_evaluation_both(eager_steps):
    model = models.TextRegressor(models.ScoreConfig(**SMALL, symmetric=True))
    model.compile()
    scores = np.arange(12.0) % 3
    history = model.fit(PAIRS, scores, epochs=2, verbose=0, validation_data=(reverse(PAIRS), scores))
    measured = model.evaluate(PAIRS, scores, verbose=0)
    assert history.history["val_loss"][-1] == pytest.approx(measured[0], rel=1e-5)
    np.testing.assert_array_equal(model.predict(PAIRS, verbose=0), model.predict(reverse(PAIRS), verbose=0))
    wide = model.baselines(PAIRS)["ridge"]
    np.testing.assert_array_equal(wide, model.baselines(reverse(PAIRS))["ridge"])
