"""Several encoders side by side: their average, and each trained as if it were alone."""

import keras
import numpy as np
import pytest

from keras_selfattn import export, models, training
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.models.core.ensemble import Averaged

TEXT = models.TextConfig(width=8, num_heads=2, members=2, min_count=1)
TOKENS = models.TokenConfig(width=8, num_layers=1, num_heads=2, members=3)
ROWS = LabelledRows(
    [f"{word} film number{n}" for n in range(30) for word in ("good", "bad", "fine", "poor")],
    ["+", "-", "+", "-"] * 30,
    "made up",
)
SENTENCES = [["Ada", "wrote", "it"], ["She", "lives", "in", "York"]] * 8
NAMES = [["P", "O", "O"], ["O", "O", "O", "L"]] * 8


def adapted(kind, config, rows, targets, seed=0):
    keras.utils.set_random_seed(seed)
    model = kind(config)
    model.adapt(rows, targets)
    return model


def test_the_average_is_that_of_the_logarithms_of_probabilities():
    random = np.random.default_rng(0)
    logits = [random.normal(size=(4, 3)).astype("float32") * 5 for _ in range(3)]
    wanted = np.mean([x - np.log(np.exp(x).sum(1, keepdims=True)) for x in logits], axis=0)
    np.testing.assert_allclose(Averaged(exclusive=True)(logits), wanted, rtol=1e-5)
    np.testing.assert_allclose(Averaged(exclusive=False)(logits), np.mean(logits, axis=0), rtol=1e-5)


@pytest.mark.slow
def test_where_validation_rows_are_given_the_figures_are_of_all_members(tmp_path):
    held_out = LabelledRows(["good new", "poor new", "fine"], ["+", "-", "+"], "dev.csv")
    run = training.train(
        ROWS,
        tmp_path / "run",
        model=models.TextClassifier(TEXT),
        config=training.TrainConfig(epochs=1, batch_size=16),
        validation=held_out,
        verbose=0,
    )
    assert (run.rows, run.again, run.best_epoch) == (120, True, 1)
    assert run.figures.summary() == training.evaluate(run.model, held_out).summary()
    assert "new" not in run.model.tokenizer.vocabulary


@pytest.mark.process
@pytest.mark.parametrize(
    ("kind", "config", "rows", "targets", "name"),
    [
        (models.TextClassifier, TEXT, ROWS.inputs, ROWS.targets, "text"),
        (models.TokenClassifier, TOKENS, SENTENCES, NAMES, "tokens"),
    ],
)
def test_an_export_holds_all_members(kind, config, rows, targets, name, tmp_path, unchecked):
    import tensorflow as tf

    model = adapted(kind, config, rows, targets)
    served = tf.saved_model.load(str(export.export_saved_model(model, tmp_path / "model")))
    answer = served.signatures["serving_default"](**{name: tf.constant(rows[:1])})
    np.testing.assert_allclose(answer["probabilities"][0], model.predict(rows[:1], verbose=0)[0], rtol=1e-4)


@pytest.mark.slow
def test_fit_trains_them_together_and_padding_changes_no_answer():
    keras.utils.set_random_seed(0)
    model = models.TokenClassifier(TOKENS)
    model.compile("adam")
    history = model.fit(SENTENCES, NAMES, epochs=8, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    alone, padded = (model.predict(rows, verbose=0)[0] for rows in (SENTENCES[:1], SENTENCES[:2]))
    np.testing.assert_allclose(alone, padded, rtol=1e-4, atol=1e-6)
