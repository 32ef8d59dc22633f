"""A pretrained encoder that trains on texts that belong together, or have scores."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from pretrained_folders import BERT, MPNET, belonging_in_loops, write_folder

from keras_selfattn import models
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.pretrained.vector_head import VectorHead
from keras_selfattn.models.pretrained_folders.pretrained_config import PretrainedConfig
from keras_selfattn.rows.text_groups import numbered
from keras_selfattn.training.fitting import copy_of

TEXTS = ["a good film .", "bad", "the films badly", "", "goods", "the", "a bad film"]
PAIRS = [(TEXTS[0], "the good film"), ("bad", "a bad film"), ("films", "goods ."), ("the", "")]
SCORES = [5.0, 4.0, 1.0, 0.0]
# One document of two queries, one query of two documents, and a missing negative.
GROUPS = [
    ("a good film", "the film", "bad"),
    ("good", "the film", None),
    ("a good film", "goods"),
    ("bad", "a bad film", "the film"),
]
STILL = {"dropout": 0.0, "attention_dropout": 0.0}

pytestmark = pytest.mark.usefixtures("eager_steps")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("pretrained") / "m", BERT)


@pytest.fixture
def model(folder):
    return models.TextEncoder(STILL, start=folder)


def test_groups_have_the_vectors_of_their_texts(model):
    found = model.predict(GROUPS, verbose=0)
    assert found.shape == (4, 3, 8)
    alone = model.predict([text or "" for group in GROUPS for text in (*group, "")[:3]], verbose=0)
    np.testing.assert_allclose(found.reshape(12, 8), alone, atol=1e-6)
    wanted = model.predict(PAIRS, verbose=0)
    np.testing.assert_allclose(np.asarray(model(PAIRS)), wanted, atol=1e-6)
    np.testing.assert_allclose(np.asarray(model(tf.constant(PAIRS))), wanted, atol=1e-6)
    table = {name: [pair[place] for pair in PAIRS] for place, name in enumerate(["text", "text_pair"])}
    np.testing.assert_allclose(model.predict(table, verbose=0), wanted, atol=1e-6)


def test_a_training_compares_texts_of_any_length(model):
    pairs = [("good " * (1 + row // 8), "bad") for row in range(64)]
    rows = model.read_rows(pairs, np.arange(64.0), None, VectorHead)
    lengths = [(ids[..., 0] != 0).sum(1) for ids, _ in model.batches(rows, 8, training=True, shuffle=True)]
    assert len(lengths) == 8
    # Sorted by length, all rows of a batch would have one length.
    assert min(np.ptp(of_batch) for of_batch in lengths) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("family", [BERT, MPNET], ids=["bert", "mpnet"])
def test_the_loss_is_that_of_the_vectors(tmp_path, family):
    model = models.TextEncoder(STILL, start=write_folder(tmp_path / "m", family))
    model.compile()
    wide = [(*group, None)[:3] for group in GROUPS]
    wanted = belonging_in_loops(numbered(wide), model.predict(GROUPS, verbose=0))
    assert model.evaluate(GROUPS, verbose=0) == pytest.approx(wanted, rel=1e-4)
    assert model.train_on_batch(GROUPS) == pytest.approx(wanted, rel=1e-4)


@pytest.mark.slow
def test_a_step_moves_the_tables_and_all_layers(model):
    before = [np.copy(weight) for weight in model.get_weights()]
    model.compile()
    model.fit(PAIRS, SCORES, epochs=1, verbose=0)
    moved = [not np.array_equal(*each) for each in zip(before, model.get_weights(), strict=True)]
    names = [weight.path for weight, moves in zip(model.weights, moved, strict=True) if not moves]
    # A bias of keys changes no attention.
    assert all(name.endswith("key/bias") for name in names), names


@pytest.mark.parametrize(("groups", "scores"), [(PAIRS, SCORES), (PAIRS, None)], ids=["scores", "groups"])
def test_batches_of_one_pair_are_refused_since_they_would_teach_nothing(model, groups, scores):
    """Their loss is 0, whatever the vectors are."""
    model.compile()
    with pytest.raises(DataError, match=r"With `batch_size` \(--batch-size\) 1, a step has no other pair"):
        model.fit(groups, scores, batch_size=1, epochs=1, verbose=0)


@pytest.mark.parametrize("columns", [["id", "text", "text_pair"], ["doc", "query"], ["words"]])
def test_a_table_of_other_columns_is_refused(model, columns):
    """By their order, ids would be the first texts."""
    table = pd.DataFrame([["a"] * len(columns), ["b"] * len(columns)], columns=columns)
    for call in (model.predict, model.fit, model.adapt):
        with pytest.raises(
            DataError, match=rf"a table of the columns '{columns[0]}'.*'text' and 'text_pair'"
        ):
            call(table)


@pytest.mark.slow
def test_a_group_with_a_negative_is_learned_alone(model):
    model.compile()
    assert model.fit(GROUPS[:1], batch_size=1, epochs=1, verbose=0).history["loss"][0] > 0


@pytest.mark.slow
def test_a_saved_model_gives_the_same_vectors_and_trains_further(model, tmp_path):
    model.compile()
    model.fit(GROUPS, epochs=1, verbose=0)
    model.save(tmp_path / "model.keras")
    again = models.load(tmp_path / "model.keras")
    np.testing.assert_allclose(again.predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0), atol=1e-6)
    assert again.evaluate(GROUPS, verbose=0) == pytest.approx(model.evaluate(GROUPS, verbose=0), rel=1e-5)
    again.fit(PAIRS, SCORES, epochs=1, verbose=0)
    with pytest.raises(ConfigError, match="was trained before, or loaded"):
        again.adapt(GROUPS)


@pytest.mark.slow
def test_an_untrained_copy_begins_with_the_folder(model):
    wanted = model.predict(TEXTS, verbose=0)
    model.adapt(PAIRS, SCORES)
    model.compile()
    model.fit(PAIRS, SCORES, epochs=1, verbose=0)
    assert not np.allclose(model.predict(TEXTS, verbose=0), wanted, atol=1e-4)
    copy = copy_of(model, {"frozen_layers": 1, "members": 1})
    np.testing.assert_array_equal(copy.predict(TEXTS, verbose=0), wanted)
    assert copy.config == dataclasses.replace(model.config, frozen_layers=1)
    with pytest.raises(ConfigError, match="was trained before"):
        model.adapt(PAIRS, SCORES)


def test_a_model_that_made_a_step_begins_no_training(model):
    """Its copies, of a second fit on all rows, would begin with the folder."""
    model.compile()
    model.train_on_batch(PAIRS, SCORES)
    with pytest.raises(ConfigError, match="was trained before"):
        model.adapt(PAIRS, SCORES)


@pytest.mark.slow
def test_frozen_layers_stay_as_they_are(folder):
    model = models.TextEncoder({"frozen_layers": 1}, start=folder)
    table, block = model.core.get_layer("embedding"), model.core.get_layer("encoder").blocks[0]
    before = [np.copy(weight) for weight in (*table.get_weights(), *block.get_weights())]
    last = model.core.get_layer("encoder").blocks[1].get_weights()
    model.compile()
    model.fit(GROUPS, epochs=1, verbose=0)
    for was, weight in zip(before, (*table.get_weights(), *block.get_weights()), strict=True):
        np.testing.assert_array_equal(was, weight)
    assert not np.array_equal(last[0], model.core.get_layer("encoder").blocks[1].get_weights()[0])


def test_a_model_of_a_file_before_it_was_trained_loads(model):
    """Its config had no fields of training."""
    config = model.get_config()
    kept = {field.name for field in dataclasses.fields(PretrainedConfig)}
    config["config"] = {name: value for name, value in config["config"].items() if name in kept}
    again = models.TextEncoder.from_config(config)
    assert again.config.score_loss == "order"
    assert models.TextEncoder(PretrainedConfig(**config["config"]), vocabulary=config["vocabulary"])


def test_negatives_of_long_texts_bound_the_rows_of_a_batch(model, monkeypatch):
    from keras_selfattn.models.batches import length_sorted

    # Two texts of three tokens: 18 pairs of tokens a row, 36 of two rows.
    monkeypatch.setattr(length_sorted, "_MAX_PAIRS", 36)
    rows = model.read_rows([("good", "bad"), ("bad", "good")] * 2, None, None, VectorHead)
    assert [len(ids) for ids, _ in model.batches(rows, 4)] == [2, 2]


@pytest.mark.parametrize(
    ("x", "y", "settings", "said"),
    [
        (TEXTS, None, {}, r"learned from, and measured on, groups of texts: \(text, text_pair\)"),
        (TEXTS, [1.0] * 7, {}, "Received texts alone; the first is 'a good film .'"),
        (PAIRS, SCORES[:3], {}, "differ in number. Received 4 and 3"),
        (PAIRS[:1], [1.0], {}, "One pair with a score is less alike than no other"),
        (PAIRS, [1.0] * 4, {}, "All 4 scores are 1 in float32"),
        (PAIRS, [2.0**24, 2.0**24 + 1] * 2, {}, "All 4 scores are .* in float32"),
        (PAIRS, ["a", "b", "c", "d"], {}, "must be a number, finite in float32. Received 'a'"),
        (GROUPS, SCORES, {}, r"A score is of two texts. Group 0 \(counted from 0\) has 3 and the score 5"),
        (PAIRS, SCORES, {"score_loss": "cosine"}, r"from -1 to 1. Score 0 \(counted from 0\) is 5"),
        ([("a", "b"), ("c", "b")], None, {}, "each second text belongs to each first one"),
        ([("a", "b"), "c"], None, {}, r"Group 1 \(counted from 0\) must be two texts or more"),
    ],
)
def test_rows_that_cannot_train_are_refused_before_a_step(folder, x, y, settings, said):
    model = models.TextEncoder(settings, start=folder)
    model.compile()
    with pytest.raises(DataError, match=said):
        model.fit(x, y, verbose=0)
    with pytest.raises(DataError, match=said):
        model.adapt(x, y)
    assert int(model.optimizer.iterations) == 0


@pytest.mark.parametrize(
    ("scores", "held_out", "said"),
    [
        (SCORES, (GROUPS[2:3], None), "The training rows have scores and the validation rows have none"),
        (None, (PAIRS, SCORES), "The validation rows have scores and the training rows have none"),
    ],
)
def test_rows_that_another_loss_would_measure_choose_no_epoch(model, scores, held_out, said):
    model.compile()
    with pytest.raises(DataError, match=said):
        model.fit(PAIRS, scores, validation_data=held_out, verbose=0)
    assert int(model.optimizer.iterations) == 0


def test_weights_of_rows_are_refused_and_so_are_fields_of_the_folder(model, folder):
    model.compile()
    with pytest.raises(DataError, match="counts all rows alike. Leave `sample_weight` out"):
        model.fit(PAIRS, SCORES, sample_weight=[1, 1, 2, 2], verbose=0)
    with pytest.raises(ConfigError, match="`class_weight` is for one label a row. The task is embedding"):
        model.fit(PAIRS, SCORES, class_weight="balanced", verbose=0)
    with pytest.raises(ConfigError, match="`score_loss` must be one of order, cosine"):
        models.TextEncoder({"score_loss": "mse"}, start=folder)
    with pytest.raises(ConfigError, match="`pooling` is 'mean' in .*whose weights the model begins with"):
        models.TextEncoder({"pooling": "first"}, start=folder)
