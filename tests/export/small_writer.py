"""A small model that writes texts, and its signatures as graphs."""

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn import models
from keras_selfattn.export.contract import contract_for
from keras_selfattn.export.saved_weights import Weights
from keras_selfattn.export.signatures.model_signatures import specs_of
from keras_selfattn.models.sequences.symbols import END

SOURCES = ["abc two the film", "bca", "a two"] * 4
ANSWERS = ["cba good", "acb what", "y x z"] * 4
ASKED = ["abc", "", "two the film", " \t", "abc" * 30, "b", "film of the two", "never seen ☃ 日本語"]


def made(beams, tokens="characters", **settings):
    """Return a model that ends some answers, and runs into the bound with others."""
    keras.utils.set_random_seed(0)
    small = {"width": 16, "num_layers": 1, "decoder_layers": 2, "num_heads": 2, "min_count": 1}
    bounds = {"max_new_tokens": 9, "max_tokens": 20, "beams": beams}
    model = models.SequenceToSequence({**small, **bounds, "tokens": tokens, **settings})
    model.adapt(SOURCES, ANSWERS)
    (table,) = [weight for weight in model.core.weights if weight.shape[0] == model.symbols.size]
    values = np.array(table)
    values[END] *= 1.6
    table.assign(values)
    return model


def signature_of(model, name="serving_default"):
    return contract_for(model, Weights(model)).signatures[name]


def asked(signature, **columns):
    """The outputs of a signature's graph, which is traced at the first call."""
    specs = {spec.name: spec.dtype for spec in specs_of(signature.function)}
    found = signature.concrete(**{name: tf.constant(rows, specs[name]) for name, rows in columns.items()})
    return {name: value.numpy() for name, value in found.items()}
