"""Engines that decode have the same weights and answers; others are refused unless they are ties."""

import importlib
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from benchmarks.sequences import decoding
from benchmarks.sequences.decoding_case import BEGIN, END, DecodingCase, Weights, until_end, write_weights
from benchmarks.sequences.decoding_oracle import log_probabilities
from keras_selfattn.models.config import SequenceConfig
from keras_selfattn.models.sequences.sequence_core import SequenceCore

SOURCES = ((5, 6, 7, 8, 3), (9, 3), (11, 4, 17, 3))


@pytest.fixture(scope="module")
def core():
    """A model whose weights are all random, as no trained one has zeros; its answers end."""
    config = SequenceConfig(width=12, num_heads=3, num_layers=1, decoder_layers=2, feed_forward_dim=20)
    made = SequenceCore(config, 19, keras.config.dtype_policy())
    random = np.random.default_rng(0)
    for variable in made.weights:
        variable.assign(random.normal(size=variable.shape) * 0.4 + ("gamma" in variable.path))
    return made


@pytest.fixture
def case(core, tmp_path):
    write_weights(core, 3, tmp_path / "weights.npz")
    files = (str(tmp_path / name) for name in ("weights.npz", "answers.npz"))
    return DecodingCase("case", next(files), SOURCES, 2, 1, 6, next(files))


def greedy(weights, source, most):
    """The most probable symbol, one after the other, by the oracle."""
    found = []
    while len(found) < most and END not in found:
        found.append(int(log_probabilities(weights, source, found)[-1].argmax()))
    return found


def test_the_oracle_computes_what_the_model_computes(core, case):
    answer = [4, 12, 12, 18]
    wanted = keras.ops.log_softmax(core([np.array([SOURCES[0]]), np.array([[BEGIN, *answer]])]))[0]
    found = log_probabilities(Weights(case.weights), SOURCES[0], answer)
    assert found.shape == (5, 19)
    assert np.abs(found[:, 3:] - np.asarray(wanted)[:, 3:]).max() < 1e-5


def test_a_case_is_the_same_after_json(case):
    assert DecodingCase.from_json(case.to_json()) == case
    assert [batch.tolist() for batch in case.batches()] == [
        [[5, 6, 7, 8, 3], [9, 3, 0, 0, 0]],
        [[11, 4, 17, 3]],
    ]


def test_an_answer_ends_with_its_end_symbol():
    assert until_end([7, 3, 9, 3, 0]) == [7, 3]
    assert until_end([7, 8, 0]) == [7, 8]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "build"),
    [
        ("tensorflow", "decoders:ours"),
        ("ctranslate2", "ctranslate2_decoder:build"),
        ("transformers", "transformers_decoder:build"),
        ("keras_hub", "keras_hub_decoder:build"),
    ],
)
def test_every_engine_gives_the_answers_of_the_oracle(case, package, build, monkeypatch):
    pytest.importorskip(package)
    for file in ("decoders", "keras_hub_decoder"):  # threads are set before TensorFlow runs, or never
        monkeypatch.setattr(f"benchmarks.peers.{file}.one_thread_of_tensorflow", lambda: tf)
    module, name = build.split(":")
    made = getattr(importlib.import_module(f"benchmarks.peers.{module}"), name)(case.to_json())
    assert made.figures()["ready cpu s"] > 0
    weights = Weights(case.weights)
    answers = decoding._answers(case.answers)
    assert answers == [greedy(weights, source, 6) for source in SOURCES]
    assert decoding.compared(case, answers, answers) == ("", [])


def test_an_answer_that_is_no_tie_is_refused(case):
    weights = Weights(case.weights)
    wanted = [greedy(weights, source, 6) for source in SOURCES]
    known = log_probabilities(weights, SOURCES[0], wanted[0][:1])[-1]
    second = int(np.argsort(known)[-2])
    other = [[wanted[0][0], second, *wanted[0][2:]], *wanted[1:]]
    gap = known[wanted[0][1]] - known[second]
    refused, ties = decoding.compared(case, wanted, other)
    assert (refused, ties) == (f"refused: symbol 2 of an answer is less probable by {gap:.2g}", [])
    shorter = [wanted[0][:1], *wanted[1:]]
    assert decoding.compared(case, wanted, shorter)[0] == "refused: an answer has 1 symbols instead of 6"
    assert decoding.compared(replace(case, beams=4), wanted, other) == ("", [])


def test_a_tie_is_told_and_not_refused(case, monkeypatch):
    monkeypatch.setattr(decoding, "_TIE", 1e3)
    weights = Weights(case.weights)
    wanted = [greedy(weights, source, 6) for source in SOURCES]
    other = [[4 if wanted[0][0] != 4 else 5, *wanted[0][1:]], *wanted[1:]]
    refused, ties = decoding.compared(case, wanted, other)
    assert (refused, len(ties)) == ("", 1)
    assert ties[0].startswith("a tie at symbol 1: log probabilities are ")
