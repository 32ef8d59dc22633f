"""The share of attention beside a wide path: 0 where it does not help on rows that neither has seen."""

import keras
import numpy as np
import pytest

from keras_selfattn import models, training
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.models.probabilities import Mixture
from keras_selfattn.training import fitting
from keras_selfattn.training.cross_fitting import cross_fitted_share, share_of_attention

SMALL = {"width": 8, "num_layers": 1, "num_heads": 2, "max_positions": 4, "kernels": 20}


def logits_of(classes, strength, seed, spread=1.0):
    """Return noise with the logits of the right classes raised."""
    noise = spread * np.random.default_rng(seed).normal(size=(len(classes), 3))
    return noise + strength * np.eye(3)[classes]


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_path_that_knows_nothing_has_no_share_and_one_that_knows_more_most(exclusive):
    classes = np.random.default_rng(0).integers(0, 3, 300)
    targets = classes if exclusive else np.eye(3)[classes]
    good, noise, other = (logits_of(classes, strength, seed) for seed, strength in enumerate((3.0, 0.0, 3.0)))
    assert share_of_attention(noise, good, targets, exclusive=exclusive) == 0.0
    assert share_of_attention(good, noise, targets, exclusive=exclusive) > 0.8
    # Two that err independently of each other share alike.
    assert 0.5 < share_of_attention(other, good, targets, exclusive=exclusive) <= 1.0


def test_what_repeats_the_other_path_adds_nothing():
    classes = np.random.default_rng(0).integers(0, 3, 60)
    good = logits_of(classes, 3.0, 1)
    weaker = good + 2 * np.random.default_rng(2).normal(size=good.shape)
    assert share_of_attention(weaker, good, classes, exclusive=True) == 0.0


def test_each_half_is_trained_on_once_and_labels_that_a_half_lacks_give_no_share():
    rows = LabelledRows([np.full((3, 1), row) for row in range(48)], ["a", "b"] * 24, "made up")
    seen = []

    def trained(half):
        seen.append([float(row[0, 0]) for row in half.inputs])
        model = models.SeriesClassifier(SMALL)
        model.adapt(half.inputs, half.targets)
        return model

    cross_fitted_share(rows, 0, trained)
    assert sorted(seen[0] + seen[1]) == [float(row) for row in range(48)]
    assert len(seen) == 2

    def never(half):
        raise AssertionError("nothing is trained")

    rare = LabelledRows(rows.inputs, ["c", *rows.targets[1:]], "made up")
    assert cross_fitted_share(rare, 0, never) == 0.0
    few = LabelledRows(rows.inputs[:30], rows.targets[:30], "made up")
    assert cross_fitted_share(few, 0, never) == 0.0


@pytest.mark.slow
def test_training_on_few_rows_sets_the_cross_validated_share(monkeypatch, tmp_path):
    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    rows = [random.normal(size=(6, 1)).astype("float32") + (row % 2) for row in range(44)]
    monkeypatch.setattr(fitting, "cross_fitted_share", lambda rows, seed, trained: 0.25)
    config = training.TrainConfig(epochs=1, refit=True)
    run = training.train(
        (rows, ["a", "b"] * 22),
        tmp_path / "run",
        model=models.SeriesClassifier(SMALL),
        config=config,
        verbose=0,
    )
    mixture = next(layer for layer in run.model.core.layers if isinstance(layer, Mixture))
    assert np.asarray(mixture.shares).tolist() == [0.25, 1.0]
