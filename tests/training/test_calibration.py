"""Calibration of the paths of a model."""

from types import SimpleNamespace

import pytest

from keras_selfattn.training.calibration import Calibration, SharesFitted


@pytest.mark.parametrize(
    ("rows", "independent", "fits"), [(500, 500, True), (500, 1, False), (99, 99, False)]
)
def test_shares_are_fitted_to_many_rows_that_are_no_group(rows, independent, fits):
    mixture = SimpleNamespace(first=SimpleNamespace(rows=100))
    of = SimpleNamespace(possible=True, _mixture=mixture, _count=rows, _independent=independent)
    assert Calibration.mixes.fget(of) == fits


def test_an_epoch_is_recorded_with_the_loss_and_accuracy_of_both_paths():
    class Fit:
        def set_shares(self):
            return {"loss": 0.25, "accuracy": 0.75}

    for logs in ({"val_loss": 1.0, "val_accuracy": 0.0, "loss": 2.0}, {"val_loss": 1.0, "loss": 2.0}):
        wanted = logs | ({"val_accuracy": 0.75} if "val_accuracy" in logs else {}) | {"val_loss": 0.25}
        SharesFitted(Fit()).on_epoch_end(0, logs)
        assert logs == wanted
