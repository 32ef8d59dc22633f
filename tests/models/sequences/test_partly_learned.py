"""Answers that a model learns in part: it says so at training, at later ones and at evaluation."""

import warnings

import numpy as np
import pytest
import tensorflow as tf

from keras_selfattn import models
from keras_selfattn.errors import DataError
from keras_selfattn.metrics.evaluation import evaluate

SMALL = {"width": 16, "num_layers": 1, "decoder_layers": 1, "num_heads": 2, "tokens": "characters"}
SOURCES, TARGETS = ["ab", "ba", "aab", "bba"], ["ba", "ab", "baX", "abb"]


def learned(sources=SOURCES, targets=TARGETS, **settings):
    model = models.SequenceToSequence({**SMALL, "max_new_tokens": 9, **settings})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.adapt(sources, targets)
    return model, [str(each.message) for each in caught]


@pytest.fixture(scope="module")
def model():
    found, _ = learned()
    found.compile()
    return found


def test_answers_with_rare_symbols_are_counted_and_named():
    _, (told,) = learned()
    assert told == (
        "1 of 4 answers have characters that the model does not know and never writes, such as 'X'. The rest "
        "of these answers is learned. Rare characters are not learned (min_count=2, vocabulary_size=20000): "
        'set `min_count` to 1, or `tokens` (--tokens) to "pieces".'
    )
    assert learned(min_count=1)[1] == []
    assert learned(targets=[["ba", "X"], ["Y", "ab"], "ab", "b"])[1][0].startswith("2 of 6 answers")


def test_evaluation_counts_rows_that_can_never_be_right(model):
    told = "The right answers of 2 of 3 rows have characters that the model .* 'X', 'é'. They count as wrong"
    with pytest.warns(UserWarning, match=told):
        evaluate(model, (["ab", "b", "a"], ["bX", "é", ["X", "a"]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(model, (["ab", "a"], ["ba", ["X", "a"]]))


@pytest.mark.slow
def test_training_tells_of_validation_rows_that_can_never_be_right(tmp_path):
    from keras_selfattn import training

    rows, held_out = (["ab", "ba"] * 4, ["ba", "ab"] * 4), (["ab", "ba"], ["bZ", "ab"])
    config = training.TrainConfig(epochs=2, batch_size=8)
    with pytest.warns(UserWarning, match="validation rows") as caught:
        training.train(
            rows,
            tmp_path / "run",
            model=models.SequenceToSequence({**SMALL, "max_new_tokens": 9}),
            config=config,
            validation=held_out,
            verbose=0,
        )
    told = [str(each.message) for each in caught if "have characters" in str(each.message)]
    assert len(told) == 1  # not in each epoch
    assert "of 1 of 2 validation rows have characters that the model does not know" in told[0]


def test_a_later_fit_tells_what_the_first_one_would(model):
    with pytest.raises(DataError, match="all 2 rows are empty"):
        model.fit(["ab", "b"], ["", " "], verbose=0)
    with pytest.raises(DataError, match="None of the characters of the 2 answers is known"):
        model.fit(["ab", "b"], ["X", "Y"], verbose=0)
    with pytest.warns(UserWarning, match="1 of 2 answers have characters"):
        model.fit(["ab", "b"], ["ba", "aY"], verbose=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(["ab", "b"], ["ba", "aY"], verbose=0)  # the same rows: once is enough
    with pytest.warns(UserWarning, match="1 of 2 answers are longer than max_new_tokens=9"):
        model.fit(["ab", "b"], ["ba", "ab" * 9], verbose=0)


def test_the_accuracy_of_keras_counts_unknown_symbols_as_wrong(model):
    table = next(weight for weight in model.weights if "table" in weight.path)
    kept = table.numpy()
    table.assign(np.zeros(table.shape))  # all logits are equal: the loss is the log of what can be written
    known, unknown = (
        model.evaluate(["ab"], [answer], return_dict=True, verbose=0) for answer in ("ba", "bX")
    )
    table.assign(kept)
    choices = np.log(model.symbols.size - 3)
    assert known["loss"] == pytest.approx(choices, abs=1e-4) == unknown["loss"]
    # The first of equals is the end symbol: right in one place of three.
    assert known["accuracy"] == pytest.approx(1 / 3) == unknown["accuracy"]


def test_batches_in_place_of_texts_are_refused_by_name(model):
    batches = tf.data.Dataset.from_tensor_slices(SOURCES).batch(2)
    for ask in (model.generate, model.explain, lambda given: model.score_target(given, TARGETS)):
        with pytest.raises(DataError, match="Received batches, a _BatchDataset: `predict` takes them"):
            ask(batches)
    assert len(model.predict(batches, verbose=0)) == len(SOURCES)


def test_answers_of_other_number_are_called_answers(model):
    with pytest.raises(DataError, match="Texts and answers differ in number. Received 2 and 1"):
        model.fit(["ab", "b"], ["ba"], verbose=0)
