"""Every model under a mixed policy: the gradient of each trained weight is float32's of the same weights."""

import importlib
import inspect
import pkgutil
from types import SimpleNamespace

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
from half_precision import check_gradients, randomise
from pretrained_folders import BERT, ELECTRA, MODERNBERT, MPNET, ROBERTA, write_classifier, write_folder

import keras_selfattn.models as package
from keras_selfattn import models
from keras_selfattn.models.batches.rows import Rows
from keras_selfattn.models.core import encoder_core
from keras_selfattn.models.text.masked_model import MaskedTokenModel

SMALL = {"width": 16, "num_layers": 1, "num_heads": 2}
RANDOM = np.random.default_rng(0)
WORDS = [f"w{number}" for number in range(12)]
TOKENS = [list(RANDOM.choice(WORDS, 64)) for _ in range(64)]
TEXTS = [" ".join(row) for row in TOKENS]
PAIRS = list(zip(TEXTS, TEXTS[1:] + TEXTS[:1], strict=True))
PIECES = ["a good film . bad the films badly"] * 400  # 12 pieces each
SERIES = [RANDOM.normal(size=(48, 2)).cumsum(axis=0).astype("float32") for _ in range(160)]
SOUNDS = [(RANDOM.normal(size=4000), 8000) for _ in range(48)]
IMAGES = RANDOM.uniform(size=(48, 12, 12, 3)).astype("float32")
PROMPTED = {
    "modules__json": [
        {"type": f"sentence_transformers.models.{kind}", "path": path}
        for kind, path in {"Transformer": "", "Pooling": "1_Pooling"}.items()
    ],
    "1_Pooling/config__json": {"pooling_mode": "mean", "include_prompt": False},
    "config_sentence_transformers__json": {"prompts": {"a": "a film "}, "default_prompt_name": "a"},
}


def alternating(rows):
    return [("a", "b")[place % 2] for place in range(len(rows))]


def one_label(rows):
    return ["a"] * len(rows)


def learned(model, rows, targets=None):
    model.adapt(rows, targets)
    return model


# Each model after it has learned from rows; then the rows and targets of a batch, of thousands of tokens. All
# targets are alike, so that gradients add up.
CASES = {
    "members": lambda folder: (
        learned(models.TextClassifier(SMALL | {"members": 2}), TEXTS[:8], alternating(TEXTS[:8])),
        TEXTS,
        one_label(TEXTS),
    ),
    "pairs": lambda folder: (
        learned(models.TextClassifier(SMALL), PAIRS[:8], alternating(PAIRS[:8])),
        PAIRS,
        one_label(PAIRS),
    ),
    "symmetric": lambda folder: (
        learned(models.TextClassifier(SMALL | {"symmetric": True}), PAIRS[:8], alternating(PAIRS[:8])),
        PAIRS,
        one_label(PAIRS),
    ),
    "scores": lambda folder: (
        learned(models.TextRegressor(SMALL), TEXTS[:8], [0.0, 1.0] * 4),
        TEXTS,
        [9.0] * len(TEXTS),
    ),
    "tokens": lambda folder: (
        learned(models.TokenClassifier(SMALL), TOKENS, [alternating(row) for row in TOKENS]),
        TOKENS,
        [one_label(row) for row in TOKENS],
    ),
    "series": lambda folder: (
        learned(models.SeriesClassifier(SMALL | {"kernels": 20}), SERIES[:8], alternating(SERIES[:8])),
        SERIES,
        one_label(SERIES),
    ),
    "regressor": lambda folder: (
        learned(models.SeriesRegressor(SMALL), SERIES[:8], [[0.0], [1.0]] * 4),
        SERIES,
        [[9.0]] * len(SERIES),
    ),
    "forecaster": lambda folder: (
        learned(models.SeriesForecaster(SMALL), SERIES[:8], [[0.0, 1.0], [1.0, 3.0]] * 4),
        SERIES,
        [[9.0, 9.0]] * len(SERIES),
    ),
    "sets": lambda folder: (
        learned(models.SeriesClassifier(SMALL | {"positions": False}), SERIES, alternating(SERIES)),
        SERIES,
        one_label(SERIES),
    ),
    "images": lambda folder: (
        learned(models.ImageClassifier(SMALL), IMAGES, alternating(IMAGES)),
        IMAGES,
        one_label(IMAGES),
    ),
    "sound": lambda folder: (
        learned(models.AudioClassifier(SMALL | {"channels": 4, "kernels": 20}), SOUNDS, alternating(SOUNDS)),
        SOUNDS,
        one_label(SOUNDS),
    ),
    "masked words": lambda folder: (learned(models.MaskedTokenModel(SMALL), TEXTS), TEXTS, None),
    "masked pieces": lambda folder: (
        learned(models.MaskedTokenModel(start=write_folder(folder, ELECTRA)), PIECES),
        PIECES,
        None,
    ),
    "hidden head": lambda folder: (
        models.TextClassifier.from_folder(write_classifier(folder, ["a", "b"], ROBERTA)),
        PIECES,
        one_label(PIECES),
    ),
    "wide beside pieces": lambda folder: (
        learned(
            models.TextClassifier(start=write_folder(folder, MODERNBERT)), PIECES[:8], alternating(PIECES[:8])
        ),
        PIECES,
        one_label(PIECES),
    ),
    "pieces of tokens": lambda folder: (
        learned(
            models.TokenClassifier(start=write_folder(folder, MPNET)), [["a", "bad"]] * 4, [["a", "b"]] * 4
        ),
        [["a", "good", "film", ".", "bad"]] * 400,
        [one_label("12345")] * 400,
    ),
    "sequences": lambda folder: (
        learned(
            models.SequenceToSequence({**SMALL, "decoder_layers": 1, "tokens": "words", "min_count": 1}),
            TEXTS[:8],
            TEXTS[8:16],
        ),
        TEXTS,
        TEXTS[:1] * len(TEXTS),
    ),
    "vectors": lambda folder: (models.TextEncoder(start=write_folder(folder, BERT)), PIECES, None),
    "vectors without a prompt": lambda folder: (
        models.TextEncoder(start=write_folder(folder, BERT, **PROMPTED)),
        PIECES,
        None,
    ),
}


def batch_of(model, rows, targets):
    """Returns the core's inputs, and targets or None."""
    if isinstance(model, models.TextEncoder):
        (batch,) = model.batches(Rows(model.read_inputs(rows), []), len(rows))
        return batch[0], None
    rows = model.read_rows(rows, targets, None, type(model.head))
    masked = isinstance(model, MaskedTokenModel)
    return next(iter(model.batches(rows, len(rows.inputs), training=masked)))[:2]


def gradients(model, inputs, targets, scale=1.0):
    """Returns the gradient of each trained weight of the core by its path, of the loss of a batch."""
    weights = model.core.trainable_weights
    with tf.GradientTape() as tape:
        outputs = model.core(inputs, training=False)
        if targets is None:
            loss = tf.reduce_mean(
                tf.cast(outputs, "float32") * np.linspace(0, 1, outputs.shape[-1], dtype="f")
            )
        else:
            loss = model.head.loss()(targets, outputs)
        loss *= scale
    found = tape.gradient(loss, [weight.value for weight in weights])
    return {
        weight.path: np.asarray(tf.convert_to_tensor(each), "float64") / scale
        for weight, each in zip(weights, found, strict=True)
    }


def walk(case, folder):
    """Compares the gradients of a case under both policies; returns the model."""
    model, rows, targets = CASES[case](folder)
    policies = ("mixed_bfloat16", "mixed_float16")
    narrow = [type(model).from_config({**model.get_config(), "dtype": policy}) for policy in policies]
    randomise(model.core, *(each.core for each in narrow))
    batch = batch_of(model, rows, targets)
    exact = gradients(model, *batch)
    for policy, each in zip(policies, narrow, strict=True):
        assert any(layer.compute_dtype == policy.removeprefix("mixed_") for layer in each.core.layers)
        check_gradients(policy, gradients(each, *batch, scale=256.0), exact)
    return model


WALKED: dict[str, SimpleNamespace] = {}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_gradients_under_mixed_policies_are_those_of_float32(case, tmp_path):
    model = walk(case, tmp_path / "folder")
    layers = {type(layer) for layer in model._flatten_layers()} | {
        type(inner) for layer in model._flatten_layers() for inner in layer._flatten_layers()
    }
    WALKED[case] = SimpleNamespace(model=type(model), layers=layers)


@pytest.mark.slow
def test_a_layer_whose_bias_adds_up_in_half_precision_fails_the_walk(tmp_path, monkeypatch):
    monkeypatch.setattr(encoder_core, "Dense", keras.layers.Dense)
    with pytest.raises(AssertionError, match="'neighbours/dense/bias': 0"):
        walk("members", tmp_path)


@pytest.mark.slow
def test_every_model_and_every_layer_of_the_models_is_walked():
    """Reads what the tests above have met; they come first in this file."""
    if WALKED.keys() != CASES.keys():
        pytest.skip("not all cases were run")
    public = {getattr(models, name) for name in models.__all__}
    of_models = {each for each in public if inspect.isclass(each) and issubclass(each, keras.Model)}
    assert of_models == {case.model for case in WALKED.values()}
    defined = set()
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        members = vars(importlib.import_module(module.name)).values()
        defined |= {each for each in members if inspect.isclass(each) and each.__module__ == module.name}
    of_layers = {
        each for each in defined if issubclass(each, keras.layers.Layer) and not issubclass(each, keras.Model)
    }
    met = set().union(*(case.layers for case in WALKED.values()))
    assert not {each.__name__ for each in of_layers - met}


def test_files_name_the_weights_of_a_hidden_head_as_ever(tmp_path):
    """As files have them that were written while the layer was Keras' own."""
    model = models.TextClassifier.from_folder(write_classifier(tmp_path / "m", ["a", "b"], ROBERTA))
    model.core.save_weights(tmp_path / "a.weights.h5")
    names = ("dense", "dense_1")
    with h5py.File(tmp_path / "a.weights.h5") as file:
        shapes = {name: [file[f"layers/{name}/vars/{place}"].shape for place in "01"] for name in names}
    assert shapes == {"dense": [(8, 8), (8,)], "dense_1": [(8, 2), (2,)]}
