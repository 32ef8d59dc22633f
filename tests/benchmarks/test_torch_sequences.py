"""A training on torch is one of ours in all but dropout's numbers, and goes on where it was stopped."""

import keras
import numpy as np
import pytest

from benchmarks.peers import torch_sequences
from benchmarks.peers.sequence_models import SequenceRows
from keras_selfattn import models, training
from keras_selfattn.data.labelled import LabelledRows

CONFIG = {"width": 12, "num_heads": 3, "num_layers": 1, "decoder_layers": 2, "tokens": "characters"}
SETTINGS = training.TrainConfig(epochs=3, batch_size=4, learning_rate=0.01, label_smoothing=0.1, seed=5)

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _needs_torch():
    pytest.importorskip("torch")


@pytest.fixture
def rows():
    texts = ["".join("abcde"[number // 5**place % 5] for place in range(3)) for number in range(0, 125, 6)]
    whole = LabelledRows(texts, [(text[::-1],) for text in texts], "made up")
    return SequenceRows(whole, whole.take(range(5)), {"test": whole.take(range(5))})


def trained(rows, dropout, checkpoint, after_epoch=lambda: None):
    """The best epoch and the weights of a training on torch."""
    model = models.SequenceToSequence({**CONFIG, "dropout": dropout, "max_new_tokens": 6})
    best = torch_sequences.train(model, rows, SETTINGS, checkpoint, after_epoch)
    return best, model.core.get_weights()


def test_it_ends_with_the_weights_of_ours(rows, tmp_path):
    """Symbols, first weights, batches, loss, clipping, decay, rates and the chosen epoch are the same."""
    model = models.SequenceToSequence({**CONFIG, "dropout": 0.0, "max_new_tokens": 6})
    run = training.train(
        rows.train,
        tmp_path / "run",
        model=model,
        config=SETTINGS,
        validation=rows.development,
        verbose=0,
        report=lambda line: None,
    )
    best, weights = trained(rows, 0.0, tmp_path / "torch.pt")
    assert best == run.best_epoch
    keras.utils.set_random_seed(SETTINGS.seed)
    before = models.SequenceToSequence({**CONFIG, "dropout": 0.0, "max_new_tokens": 6})
    before.adapt(rows.train.inputs, rows.train.targets)
    for first, ours, theirs in zip(before.core.get_weights(), model.core.get_weights(), weights, strict=True):
        np.testing.assert_allclose(theirs, ours, atol=1e-3)
        assert np.abs(ours - first).max() > 0.01


def test_a_stopped_training_ends_as_one_that_was_not(rows, tmp_path):
    whole_best, whole = trained(rows, 0.3, tmp_path / "whole.pt")
    calls = []

    def stop() -> None:
        calls.append(None)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(rows, 0.3, tmp_path / "torch.pt", stop)
    best, weights = trained(rows, 0.3, tmp_path / "torch.pt", lambda: calls.append(None))
    assert len(calls) == 4  # the second epoch again, and the third
    assert best == whole_best
    for one, other in zip(weights, whole, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
