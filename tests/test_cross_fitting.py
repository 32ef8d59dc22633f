"""A pretrained encoder on few rows: its temperature is fitted to rows that its copies lack."""

import numpy as np
import pytest
from pretrained_folders import BERT, write_folder

from keras_selfattn import models, training
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import DataError, TrainingError
from keras_selfattn.training import cross_fitting, supervised
from keras_selfattn.training.calibration import Calibration, UnseenRows

WORDS = ["a", "the", "good", "bad", "film", "films"]
TEXTS = [f"{a} {b} {c}" for a in WORDS[:2] for b in WORDS[2:4] for c in WORDS]
KNOWN = ["+" if "good" in text else "-" for text in TEXTS]
CONFIG = training.TrainConfig(epochs=1, batch_size=24, refit=True)


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "tiny", BERT)


@pytest.fixture
def unfitted(monkeypatch):
    """The parts that copies are trained on; the training itself is left out."""
    seen = []

    def adapt(copy, kept, *_, **__):
        copy.adapt(kept.inputs, kept.targets)
        seen.append(kept)

    monkeypatch.setattr(cross_fitting, "fit_unmonitored", adapt)
    return seen


def cross_fitted(model, rows, lines=None):
    report = [].append if lines is None else lines.append
    return cross_fitting.cross_fitted(model, rows, CONFIG, report, callbacks=[], verbose=0)


@pytest.mark.slow
def test_it_is_as_sure_as_copies_are_right_on_rows_that_they_lack(folder, monkeypatch):
    """Sure of one label, and right in three of four rows of each part: the temperature says so."""
    model, labels = models.TextClassifier({"wide": False}, start=folder), ["+", "+", "+", "-"] * 6
    seen = []

    def trained(copy, kept, epochs, config, **shown):
        assert copy is not model
        copy.adapt(kept.inputs, kept.targets)
        kernel, bias = copy.core.get_layer("logits").weights
        kernel.assign(np.zeros_like(kernel))
        bias.assign([5.0, 0.0])
        seen.append(kept.inputs)

    monkeypatch.setattr(cross_fitting, "fit_unmonitored", trained)
    lines = []
    unseen = cross_fitted(model, LabelledRows(TEXTS, labels, "made up"), lines)
    assert lines == [
        f"To calibrate it, on {len(kept)} rows, {place + 1} of 4:" for place, kept in enumerate(seen)
    ]
    lacking = [
        [label == "-" for text, label in zip(TEXTS, labels, strict=True) if text not in kept] for kept in seen
    ]
    assert unseen.targets.tolist() == [int(is_minus) for part in lacking for is_minus in part]
    np.testing.assert_allclose(np.diff(unseen.deep), -5, atol=1e-5)
    assert 2 < unseen.temperature() < 5 / np.log(3), "less than of many such rows"


@pytest.mark.slow
def test_shares_stay_as_they_are_so_that_no_label_changes(folder, unfitted):
    model = models.TextClassifier(start=folder)
    unseen = cross_fitted(model, LabelledRows(TEXTS, KNOWN, "made up"))
    assert unseen.wide is None
    model.adapt(TEXTS, KNOWN)
    rows = LabelledRows(TEXTS[:6], KNOWN[:6], "made up")
    assert not Calibration(model, rows).possible
    fit = Calibration(model, rows, temperature_only=True)
    before = model.predict(TEXTS, verbose=0).argmax(axis=1)
    assert fit.possible
    assert fit.set() != 1.0
    assert model.core.get_layer("mixture").shares.numpy().tolist() == pytest.approx([1.0, 0.1])
    assert model.predict(TEXTS, verbose=0).argmax(axis=1).tolist() == before.tolist()


@pytest.mark.slow
def test_rows_of_several_labels_and_labelled_tokens_are_counted_alike(folder, unfitted):
    several = [["+", "new"] if n % 3 else ["-"] for n, _ in enumerate(TEXTS)]
    model = models.TextClassifier(start=folder)
    unseen = cross_fitted(model, LabelledRows(TEXTS, several, "made up"))
    held_out = sum(len(TEXTS) - len(kept) for kept in unfitted)
    assert unseen.targets.shape == unseen.deep.shape == (held_out, 3)
    assert not unseen.exclusive
    unfitted.clear()
    tokens = [text.split() for text in TEXTS]
    tags = [["X", "Y" if "good" in words else "X", "X"] for words in tokens]
    labeller = models.TokenClassifier({"max_tokens": 12}, start=folder)
    unseen = cross_fitted(labeller, LabelledRows(tokens, tags, "made up"))
    assert len(unseen.targets) == len(unseen.deep) == 3 * sum(len(TEXTS) - len(kept) for kept in unfitted)


@pytest.mark.slow
def test_a_part_that_cannot_be_trained_or_lacks_a_label_is_left_out(folder, monkeypatch, unfitted):
    model = models.TextClassifier(start=folder)

    class Grouped(LabelledRows):
        def split(self, held_out, seed):
            chosen = range(6) if seed else range(12)  # all with "good" in the first half
            return self.take([n for n in range(24) if n not in chosen]), self.take(list(chosen))

    rows = Grouped(TEXTS, ["+"] * 12 + ["-"] * 12, "made up")
    assert len(cross_fitted(model, rows).targets) == 3 * 6

    def fails(*_, **__):
        raise next(errors)

    errors = iter([TrainingError("The loss became NaN."), DataError("x"), TrainingError("x"), DataError("x")])
    monkeypatch.setattr(cross_fitting, "fit_unmonitored", fails)
    assert cross_fitted(model, LabelledRows(TEXTS, KNOWN, "made up")) is None


@pytest.mark.slow
def test_few_rows_of_a_pretrained_encoder_trained_again_are_calibrated_so_and_no_others(
    folder, tmp_path, monkeypatch, eager_steps
):
    unseen = UnseenRows(np.array([[3.0, 0.0]] * 8), None, np.array([0, 1] * 4), np.ones(8), exclusive=True)
    asked = []
    monkeypatch.setattr(supervised, "cross_fitted", lambda model, *_, **__: asked.append(model) or unseen)

    def trained(name, rows, refit=True, start=folder, **settings):
        config = training.TrainConfig(epochs=1, batch_size=24, refit=refit)
        small = {"wide": False} if start else {"width": 8, "num_layers": 1, "num_heads": 1}
        model = models.TextClassifier(small, start=start)
        run = training.train(rows, tmp_path / name, model=model, config=config, verbose=0, **settings)
        return model, float(run.model.core.get_layer("probabilities").temperature)

    model, temperature = trained("few", (TEXTS, KNOWN))
    assert asked == [model]
    assert temperature == pytest.approx(unseen.temperature())
    assert temperature > 2
    many = [f"{text} {n}" for text in TEXTS for n in range(9)]
    trained("many", (many, ["+" if "good" in text else "-" for text in many]))
    trained("once", (TEXTS, KNOWN), refit=False)
    trained("validated", (TEXTS, KNOWN), validation=(TEXTS[:9], KNOWN[:9]))
    trained("scratch", (TEXTS, KNOWN), start=None)
    assert asked == [model]


def test_rows_of_several_models_count_together():
    """Right in three of four rows, and equally sure of all: the temperature says three quarters."""

    def rows(count, target):
        logits = np.repeat(np.array([[5.0, 0.0]]), count, axis=0)
        return UnseenRows(logits, None, np.full(count, target), np.ones(count), exclusive=True)

    whole = UnseenRows.joined([rows(300, 0), rows(100, 1)])
    assert whole.wide is None
    assert whole.temperature() == pytest.approx(5 / np.log(3), rel=0.03)
    assert whole.accuracy(whole.deep) == 0.75
