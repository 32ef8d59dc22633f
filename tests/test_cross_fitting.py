"""A pretrained encoder on few rows: its confidence is fitted to rows that its copies were trained without."""

import numpy as np
import pytest
from pretrained_folders import BERT, write_folder

from keras_selfattn import models, training
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.training import cross_fitting, supervised
from keras_selfattn.training.calibration import Calibration, UnseenRows

WORDS = ["a", "the", "good", "bad", "film", "films"]
TEXTS = [f"{a} {b} {c}" for a in WORDS[:2] for b in WORDS[2:4] for c in WORDS]
CONFIG = training.TrainConfig(epochs=1, batch_size=24, refit=True)
KNOWN = ["+" if "good" in text else "-" for text in TEXTS]


@pytest.fixture
def model(tmp_path):
    return models.TextClassifier({"wide": False}, start=write_folder(tmp_path / "tiny", BERT))


@pytest.mark.slow
def test_it_is_as_sure_as_copies_are_right_on_rows_that_they_lack(model, monkeypatch):
    """Sure of one label, and right in three of four rows of each part: the temperature says so."""
    labels = ["+", "+", "+", "-"] * 6
    seen = []

    def trained(copy, kept, epochs, config, **shown):
        assert copy is not model
        copy.adapt(kept.inputs, kept.targets)
        kernel, bias = copy.core.get_layer("logits").weights
        kernel.assign(np.zeros_like(kernel))
        bias.assign([5.0, 0.0])
        seen.append(kept.inputs)

    monkeypatch.setattr(cross_fitting, "fit_unmonitored", trained)
    rows, lines = LabelledRows(TEXTS, labels, "made up"), []
    unseen = cross_fitting.cross_fitted(model, rows, CONFIG, lines.append, callbacks=[], verbose=0)
    assert lines == [
        f"To calibrate it, on {len(kept)} rows, {place + 1} of 4:" for place, kept in enumerate(seen)
    ]
    lacking = [
        [label == "-" for text, label in zip(TEXTS, labels, strict=True) if text not in s] for s in seen
    ]
    assert unseen.targets.tolist() == [int(is_minus) for part in lacking for is_minus in part]
    np.testing.assert_allclose(np.diff(unseen.deep), -5, atol=1e-5)
    assert 2 < unseen.temperature() < 5 / np.log(3), "less than of many such rows"


@pytest.mark.slow
def test_few_rows_are_calibrated_so_and_many_and_those_of_other_models_are_not(
    model, tmp_path, monkeypatch, eager_steps
):
    unseen = UnseenRows(np.array([[3.0, 0.0]] * 8), None, np.array([0, 1] * 4), np.ones(8), exclusive=True)
    asked = []
    monkeypatch.setattr(supervised, "cross_fitted", lambda model, *_, **__: asked.append(model) or unseen)
    run = training.train((TEXTS, KNOWN), tmp_path / "few", model=model, config=CONFIG, verbose=0)
    assert asked == [model]
    temperature = run.model.core.get_layer("probabilities").temperature
    assert float(temperature) == pytest.approx(unseen.temperature())
    assert float(temperature) > 2
    many = [f"{text} {n}" for text in TEXTS for n in range(9)]
    labels = ["+" if "good" in text else "-" for text in many]
    begun = models.TextClassifier({"wide": False}, start=tmp_path / "tiny")
    training.train((many, labels), tmp_path / "many", model=begun, config=CONFIG, verbose=0)
    from_scratch = models.TextClassifier({"width": 8, "num_layers": 1, "num_heads": 1})
    training.train((TEXTS, KNOWN), tmp_path / "scratch", model=from_scratch, config=CONFIG, verbose=0)
    assert asked == [model]


def test_rows_of_several_models_count_together():
    """Right in three of four rows, and equally sure of all: the temperature says three quarters."""
    logits = np.array([[5.0, 0.0]])

    def rows(count, target):
        return UnseenRows(
            np.repeat(logits, count, axis=0), None, np.full(count, target), np.ones(count), exclusive=True
        )

    whole = UnseenRows.joined([rows(300, 0), rows(100, 1)])
    assert whole.wide is None
    assert whole.temperature() == pytest.approx(5 / np.log(3), rel=0.03)
    assert whole.accuracy(whole.deep) == 0.75


@pytest.mark.slow
def test_both_paths_are_fitted_together_however_few_the_rows(tmp_path):
    model = models.TextClassifier(start=write_folder(tmp_path / "tiny", BERT))
    labels = ["+" if "good" in text else "-" for text in TEXTS]
    model.adapt(TEXTS, labels)
    few = LabelledRows(TEXTS[:6], labels[:6], "made up")
    assert not Calibration(model, few).possible
    assert Calibration(model, few, fewest=1).unseen().wide.shape == (6, 2)
