"""Several encoders of one training: each is trained as if it were alone."""

import keras
import numpy as np
import pytest

from keras_selfattn import models, training
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.models.core.ensemble import copy_member
from keras_selfattn.runs.run_folder import load_run
from keras_selfattn.training.fitting import copy_of

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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "config", "rows", "targets"),
    [
        (models.TextClassifier, TEXT, ROWS.inputs, ROWS.targets),
        (models.TokenClassifier, TOKENS, SENTENCES, NAMES),
    ],
)
def test_members_with_the_weights_of_models_answer_as_these_on_average(kind, config, rows, targets):
    whole = adapted(kind, config, rows, targets)
    alone = [
        adapted(kind, copy_of(kind(config), {"members": 1, **kind.encoder_only}).config, rows, targets, seed)
        for seed in range(1, config.members + 1)
    ]
    for place, model in enumerate(alone):
        logits = model.core.get_layer("logits")
        logits.kernel.assign(4 * logits.kernel)
        copy_member(model.core, whole.core, place)
    if kind is models.TextClassifier:
        whole.core.get_layer("mixture").shares.assign([1.0, 0.0])
    answers = [model.predict(rows[:6], verbose=0) for model in (whole, *alone)]
    for found, *each in zip(*answers, strict=True):
        wanted = np.exp(np.mean(np.log(each), axis=0))
        np.testing.assert_allclose(found, wanted / wanted.sum(-1, keepdims=True), rtol=2e-4, atol=1e-6)
    assert np.abs(answers[1][0] - answers[2][0]).max() > 1e-3, "they are not all the same"


@pytest.mark.slow
def test_each_member_is_trained_as_if_it_were_alone(tmp_path):
    settings = {"epochs": 1, "batch_size": 16, "learning_rate": 0.01, "refit": True}
    lines = []
    run = training.train(
        ROWS,
        tmp_path / "run",
        model=models.TextClassifier(TEXT),
        config=training.TrainConfig(**settings, seed=5),
        verbose=0,
        report=lines.append,
    )
    assert lines.pop(0) == "Training on 120 rows of made up, 2 classes"
    assert lines == [f"Again, on 120 rows, encoder {place} of 2:" for place in (1, 2)]
    everything = LabelledRows(["good", "bad"], ["+", "-"], "dev.csv")
    for place, body in enumerate((run.model.core, run.model.core.get_layer("member_2"))):
        alone = training.train(
            ROWS,
            tmp_path / f"alone{place}",
            model=copy_of(models.TextClassifier(TEXT), {"members": 1, "wide": False}),
            config=training.TrainConfig(**{**settings, "refit": False}, seed=5 + place),
            validation=everything,
            verbose=0,
        ).model
        for layer in ("embedding", "encoder"):
            for ours, theirs in zip(
                body.get_layer(layer).get_weights(), alone.core.get_layer(layer).get_weights(), strict=True
            ):
                np.testing.assert_array_equal(ours, theirs)
    found, wanted = (model.predict(ROWS.inputs[:4], verbose=0) for model in (load_run(run.path), run.model))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
