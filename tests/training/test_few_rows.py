"""A pretrained encoder on few labelled texts: it learns from pairs, and a linear model from its vectors."""

import dataclasses
import itertools

import keras
import numpy as np
import pytest
from pretrained_folders import BERT, write_classifier, write_folder
from sklearn.linear_model import LogisticRegression

from keras_selfattn import models, training
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import TrainingError
from keras_selfattn.training import few_rows
from keras_selfattn.training.few_rows import (
    PairLoss,
    balanced_batches,
    fit_on_pairs,
    fit_output_layer,
    trains_on_pairs,
)

WORDS = ["a", "the", "good", "bad", "film", "films"]
TEXTS = [f"{a} {b} {c}" for a in WORDS[:2] for b in WORDS[2:4] for c in WORDS]
KNOWN = ["+" if "good" in text else "-" for text in TEXTS]
FIVE = [text.split()[2][0] for text in TEXTS]  # a, t, g, b or f
CONFIG = training.TrainConfig(epochs=2, batch_size=8, learning_rate=0.01, refit=True)
SILENT = {"callbacks": [], "verbose": 0}


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "tiny", BERT)


def adapted(folder, labels, texts=TEXTS, **config):
    """A model that has learned its labels but nothing else, compiled."""
    keras.utils.set_random_seed(0)
    model = models.TextClassifier(
        {"wide": False, "head_dropout": 0.0, "dropout": 0.0, **config}, start=folder
    )
    model.adapt(texts, labels)
    model.compile()
    return model


def vectors(model, texts=TEXTS):
    """The input of the output layer, of each text alone."""
    inner = keras.Model(model.core.input, model.core.get_layer("logits").input)
    return np.concatenate([inner(model.tokenizer.padded([text])).numpy() for text in texts])


def by_definition(labels, vectors):
    """The loss, pair by pair."""
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    same, other = [], []
    for a, b in itertools.permutations(range(len(labels)), 2):
        cosine = units[a] @ units[b]
        if labels[a] == labels[b]:
            same.append((1 - cosine) ** 2)
        else:
            other.append(cosine**2)
    return sum(np.mean(part) for part in (same, other) if part)


@pytest.mark.parametrize("labels", [[0, 1, 0, 2, 2, 2], [0, 0, 0], [0, 1, 2], [3]])
def test_the_loss_is_that_of_all_pairs(labels):
    found = np.random.default_rng(1).normal(size=(len(labels), 5)).astype("float32")
    np.testing.assert_allclose(
        PairLoss()(np.array(labels)[:, None], found), by_definition(labels, found), rtol=1e-5
    )


def test_the_loss_is_0_where_vectors_of_a_label_are_the_same_and_others_at_right_angles():
    found = np.array([[2.0, 0.0], [0.5, 0.0], [0.0, 3.0]], "float32")
    assert float(PairLoss()(np.array([[7], [7], [1]]), found)) == pytest.approx(0, abs=1e-12)


def test_each_batch_has_as_many_rows_of_each_label_and_none_twice():
    labels = np.array([0] * 50 + [1] * 5 + [2])
    batches = list(itertools.islice(balanced_batches(labels, 9, seed=3), 20))
    for chosen in batches:
        assert len(set(chosen)) == len(chosen)
        assert np.bincount(labels[chosen]).tolist() == [3, 3, 1]
    assert set(np.concatenate(batches)) >= set(range(50, 56)), "each row of a rare label comes"


def test_of_many_labels_a_batch_has_some_with_two_rows_each():
    labels = np.repeat(np.arange(40), 3)
    batches = list(itertools.islice(balanced_batches(labels, 8, seed=0), 60))
    for chosen in batches:
        counts = np.bincount(labels[chosen], minlength=40)
        assert sorted(counts[counts > 0]) == [2, 2, 2, 2]
    assert set(labels[np.concatenate(batches)]) == set(range(40))


def test_a_batch_has_two_labels_at_least():
    labels = np.array([0, 0, 1, 1, 2, 2])
    for chosen in itertools.islice(balanced_batches(labels, 1, seed=0), 5):
        assert np.unique(labels[chosen], return_counts=True)[1].tolist() == [2, 2]


def test_the_same_seed_draws_the_same_batches():
    labels = np.repeat([0, 1], 9)
    first, again, other = (next(balanced_batches(labels, 6, seed)).tolist() for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("labels", [KNOWN, FIVE], ids=["two", "five"])
def test_the_output_layer_is_a_logistic_regression_of_vectors_that_are_spread_by_1(folder, labels):
    model, rows = adapted(folder, labels), LabelledRows(TEXTS, labels, "made up")
    found = vectors(model)
    fit_output_layer(model, found, rows, None)
    found -= found.mean(axis=0)
    found /= np.sqrt(np.mean(np.sum(found**2, axis=1)))
    wanted = LogisticRegression(max_iter=1000).fit(found, labels)
    assert model.labels == wanted.classes_.tolist()
    np.testing.assert_allclose(model.predict(TEXTS, verbose=0), wanted.predict_proba(found), atol=1e-3)


def test_rows_without_weight_do_not_change_the_output_layer(folder):
    kept = np.array([place % 3 > 0 for place in range(len(TEXTS))])
    wrong = [label if keep else "+-".replace(label, "") for label, keep in zip(KNOWN, kept, strict=True)]
    model, outputs = adapted(folder, KNOWN), []
    found = vectors(model)
    for labels, weights in ((KNOWN, kept * 1.0), (wrong, kept * 1.0), (wrong, None)):
        fit_output_layer(model, found.copy(), LabelledRows(TEXTS, labels, ""), weights)
        outputs.append(model.core.get_layer("logits").get_weights()[0])
    np.testing.assert_allclose(outputs[0], outputs[1], atol=1e-6)
    assert np.abs(outputs[0] - outputs[2]).max() > 1e-3


@pytest.mark.slow
def test_texts_of_a_label_come_together_and_texts_of_two_apart(folder):
    # Words that two labels share make plateaus, which rounding decides how long to stay on.
    texts = [" ".join([word] * count) for word in ("good", "bad") for count in (1, 2, 3)] * 2
    labels = ["+" if "good" in text else "-" for text in texts]
    model = adapted(folder, labels, texts, attention_dropout=0.0)
    before = by_definition(labels, vectors(model, texts))
    config = dataclasses.replace(CONFIG, batch_size=16, learning_rate=0.05)
    history = fit_on_pairs(model, LabelledRows(texts, labels, "made up"), None, 20, config, **SILENT)
    assert set(history) == {"loss", "learning_rate"}
    assert len(history["loss"]) == 20
    assert before > 0.9
    assert by_definition(labels, vectors(model, texts)) < 0.1
    assert model.evaluate(texts, labels, verbose=0, return_dict=True)["accuracy"] == 1.0


@pytest.mark.slow
def test_a_run_tells_of_each_epoch_and_keeps_the_last(folder, tmp_path):
    model, lines = models.TextClassifier(start=folder), []
    rows = LabelledRows(TEXTS, KNOWN, "made up")
    run = training.train(rows, tmp_path / "run", model=model, config=CONFIG, verbose=0, report=lines.append)
    assert (run.best_epoch, run.rows) == (2, len(TEXTS))
    assert lines == ["Training on 24 rows of made up, 2 classes", "Again, on 24 rows:"]
    header, *epochs = (tmp_path / "run" / "history.csv").read_text().splitlines()
    assert header.startswith("epoch,")
    assert len(epochs) == 2
    loaded = models.load(tmp_path / "run")
    np.testing.assert_allclose(
        loaded.predict(TEXTS, verbose=0), run.model.predict(TEXTS, verbose=0), atol=1e-6
    )


@pytest.mark.slow
def test_a_loss_that_is_nan_ends_the_run_and_leaves_no_folder(folder, tmp_path):
    rows, model = LabelledRows(TEXTS, KNOWN, "made up"), models.TextClassifier(start=folder)
    config = dataclasses.replace(CONFIG, learning_rate=1e30)
    with pytest.raises(TrainingError, match="NaN or infinite. Lower the learning rate"):
        training.train(rows, tmp_path / "run", model=model, config=config, verbose=0)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_the_kept_model_is_trained_as_the_measured_one_was(folder, tmp_path, monkeypatch):
    """Of 24 rows 22 are few, and the model on all of them is trained on pairs, too."""
    monkeypatch.setattr(few_rows, "FEW_ROWS", 22)
    counts, fit = [], few_rows.fit_on_pairs

    def counted(model, rows, *arguments, **settings):
        counts.append(len(rows))
        return fit(model, rows, *arguments, **settings)

    monkeypatch.setattr("keras_selfattn.training.fitting.fit_on_pairs", counted)
    rows, model = LabelledRows(TEXTS, KNOWN, "made up"), models.TextClassifier(start=folder)
    training.train(rows, tmp_path / "run", model=model, config=CONFIG, verbose=0)
    assert counts == [22, 24]


@pytest.mark.slow
def test_a_class_of_weight_0_is_never_answered_nor_seen(folder, tmp_path, monkeypatch):
    seen, batches = [], few_rows.balanced_batches

    def told(labels, *arguments):
        seen.append(set(labels))
        return batches(labels, *arguments)

    monkeypatch.setattr(few_rows, "balanced_batches", told)
    config = dataclasses.replace(CONFIG, class_weight={"f": 0.0})
    rows, model = LabelledRows(TEXTS, FIVE, "made up"), models.TextClassifier({"wide": False}, start=folder)
    run = training.train(rows, tmp_path / "run", model=model, config=config, verbose=0)
    unwanted = run.model.labels.index("f")
    assert seen
    assert all(unwanted not in labels for labels in seen)
    assert unwanted not in run.model.predict(TEXTS, verbose=0).argmax(axis=1)


def test_pairs_are_for_few_rows_of_one_label_each(folder, monkeypatch):
    model, rows = adapted(folder, KNOWN), LabelledRows(TEXTS, KNOWN, "made up")
    assert trains_on_pairs(model, rows, CONFIG)
    assert not trains_on_pairs(model, rows, dataclasses.replace(CONFIG, label_smoothing=0.1))
    several = [[label] if label == "+" else [] for label in KNOWN]
    assert not trains_on_pairs(adapted(folder, several), LabelledRows(TEXTS, several, ""), CONFIG)
    monkeypatch.setattr(few_rows, "FEW_ROWS", len(TEXTS) - 1)
    assert not trains_on_pairs(model, rows, CONFIG)


def test_pairs_are_not_for_an_encoder_that_is_frozen_as_a_whole(folder):
    rows = LabelledRows(TEXTS, KNOWN, "made up")
    assert [trains_on_pairs(adapted(folder, KNOWN, frozen_layers=n), rows, CONFIG) for n in (1, 2)] == [
        True,
        False,
    ]


def test_pairs_are_not_for_words_learned_from_the_rows():
    model = models.TextClassifier({"width": 8, "num_layers": 1, "num_heads": 1})
    model.adapt(TEXTS, KNOWN)
    assert not trains_on_pairs(model, LabelledRows(TEXTS, KNOWN, ""), CONFIG)


def test_a_folder_s_output_layer_for_the_same_labels_is_kept(tmp_path):
    folder = write_classifier(tmp_path / "m", ["+", "-"])
    assert not trains_on_pairs(adapted(folder, KNOWN), LabelledRows(TEXTS, KNOWN, ""), CONFIG)
    assert trains_on_pairs(adapted(folder, FIVE), LabelledRows(TEXTS, FIVE, ""), CONFIG)
