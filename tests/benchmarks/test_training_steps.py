"""Contestants of a step of training have the same model and loss, and learn; others are refused."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.peers import sequence_steps
from benchmarks.results import Result
from benchmarks.sequences.training_steps import StepsCase, compared, write_batches

CONFIG = {"width": 12, "num_heads": 3, "num_layers": 1, "decoder_layers": 2}


@pytest.fixture
def fields(tmp_path):
    """A case of two batches, one with padding on both sides."""
    source, target = np.array([[5, 6, 3], [9, 3, 0]]), np.array([[2, 7, 8], [2, 9, 0]])
    labels = np.array([[7, 8, 3], [9, 3, 0]])
    batches = [tuple(array.astype(np.int32) for array in (source, target, labels))] * 2
    write_batches(batches, tmp_path / "batches.npz")
    return {"batches": str(tmp_path / "batches.npz"), "vocabulary": 11, "config": CONFIG}


def test_batches_are_the_same_after_they_are_read(fields):
    batches = StepsCase(**fields).read()
    assert [[array.tolist() for array in batch] for batch in batches] == [
        [[[5, 6, 3], [9, 3, 0]], [[2, 7, 8], [2, 9, 0]], [[7, 8, 3], [9, 3, 0]]]
    ] * 2


@pytest.mark.slow
def test_both_have_the_same_loss(fields, monkeypatch):
    pytest.importorskip("torch")
    # Threads are set before TensorFlow runs, or never.
    for kind in ("intra", "inter"):
        monkeypatch.setattr(tf.config.threading, f"set_{kind}_op_parallelism_threads", lambda count: None)
    made = [build(fields) for build in (sequence_steps.ours, sequence_steps.torch)]
    ours, theirs = (each.figures()["loss"] for each in made)
    assert ours == pytest.approx(theirs, abs=1e-5)
    for each in made:
        each.warm()
        each.run()


def test_another_loss_is_refused():
    first, same, other = (Result("row", str(loss), {"loss": loss}) for loss in (2.0, 2.0001, 2.1))
    assert compared([first, same]) == [first, same]
    (_, refused) = compared([first, other])
    assert refused.skipped == "refused: the loss is 2.1000 instead of 2.0000"
    assert not refused.figures
    skipped = Result("row", "peer", skipped="torch is not installed")
    assert compared([skipped, same]) == [skipped, same]
    assert compared([]) == []
