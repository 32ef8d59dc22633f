"""Gradients under a mixed policy beside those in float32, of the same weights, and how far they may be."""

import keras
import numpy as np

# Of the norm of a gradient. Rounding gives up to 2 % (bfloat16) and 0.3 % (float16); a sum of thousands of
# tokens in half precision is 10 to 90 % off.
BOUND = {"mixed_bfloat16": 0.05, "mixed_float16": 0.02}


def rounded(values):
    """The numbers as bfloat16 has them, which every policy reads alike."""
    return np.asarray(keras.ops.convert_to_numpy(keras.ops.cast(np.float32(values), "bfloat16")), "float32")


def randomise(layer, *others):
    """Gives a layer random weights of 8 bits, and others the same; whole numbers stay."""
    random, found = np.random.default_rng(1), []
    for weight in layer.weights:
        value = np.asarray(keras.ops.convert_to_numpy(weight))
        if weight.trainable:
            start = float("gamma" in weight.name or "gain" in weight.name)
            fan = np.prod(value.shape[:-1]) if "kernel" in weight.name else 12
            value = rounded(start + random.normal(size=value.shape) * 0.7 / np.sqrt(fan))
        found.append(value)
    for each in (layer, *others):
        each.set_weights(found)


def check_gradients(policy, half, exact):
    """Fails for each gradient, by the path of its variable, that is not near float32's."""
    assert half.keys() == exact.keys()
    errors = {}
    for path, wanted in exact.items():
        error = np.linalg.norm(half[path] - wanted) / np.linalg.norm(wanted)
        if not error < BOUND[policy]:  # also for NaN
            errors[path] = round(float(error), 3)
    assert not errors, errors
