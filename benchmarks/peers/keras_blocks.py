"""Our blocks and KerasHub's, with the case's weights in them, on whichever backend Keras runs."""

from collections.abc import Callable
from typing import Any

import numpy as np

from keras_selfattn.benchmarks.case import EPSILON, FEED_FORWARD, Array, Case

Block = dict[str, Array]


class Stack:
    """Keras layers, one after the other, and how the case's weights lie in them.

    Args:
        case: what to build.
        layers: one for each block.
        call: from layer, inputs, mask and training to outputs.
        arrays: from a block's weights to its layer's, by the end of their path.
    """

    def __init__(
        self, case: Case, layers: list[Any], call: Callable, arrays: Callable[[Block], Block]
    ) -> None:
        self.layers = layers
        self._call = call
        self._arrays = arrays
        for layer, block in zip(layers, case.weights(), strict=True):
            layer.build((None, None, case.width))
            for variable, array in zip(layer.trainable_weights, self._in_order(layer, block), strict=True):
                variable.assign(array)

    def __call__(self, x: Any, mask: Any, training: bool) -> Any:
        """Returns the outputs `[B, T, D]`."""
        for layer in self.layers:
            x = self._call(layer, x, mask, training)
        return x

    @property
    def weights(self) -> list[Any]:
        """The trainable variables of all layers."""
        return [variable for layer in self.layers for variable in layer.trainable_weights]

    def direction(self, case: Case) -> list[Array]:
        """Returns the case's direction, an array for each of `weights`."""
        pairs = zip(self.layers, case.direction(), strict=True)
        return [array for layer, block in pairs for array in self._in_order(layer, block)]

    def _in_order(self, layer: Any, block: Block) -> list[Array]:
        arrays = self._arrays(block)
        weights = layer.trainable_weights
        ends = [end for weight in weights for end in arrays if weight.path.endswith("/" + end)]
        if sorted(ends) != sorted(arrays):
            raise ValueError(f"the layer's weights are {[w.path for w in weights]}, known are {list(arrays)}")
        return [arrays[end].reshape(weight.shape) for end, weight in zip(ends, weights, strict=True)]


def ours(case: Case) -> Stack:
    """Returns our `EncoderBlock`s."""
    from keras_selfattn import layers

    blocks = [
        layers.EncoderBlock(
            case.heads,
            FEED_FORWARD * case.width,
            case.dropout,
            case.activation,
            norm_first=False,
            window=case.window,
            seed=case.seed + index,
            dtype=case.dtype,
            name=f"block_{index}",
        )
        for index in range(case.layers)
    ]
    return Stack(
        case, blocks, lambda block, x, mask, training: block(x, mask=mask, training=training), _our_arrays
    )


def kerashub(case: Case) -> Stack:
    """Returns KerasHub's `TransformerEncoder`s."""
    import keras_hub  # pyright: ignore[reportMissingImports]

    dropout: Any = case.dropout  # their annotation says int, by its default of 0

    blocks = [
        keras_hub.layers.TransformerEncoder(
            FEED_FORWARD * case.width,
            case.heads,
            dropout,
            case.activation,
            EPSILON,
            dtype=case.dtype,
            name=f"block_{index}",
        )
        for index in range(case.layers)
    ]
    return Stack(
        case,
        blocks,
        lambda block, x, mask, training: block(x, padding_mask=mask, training=training),
        _kerashub_arrays,
    )


def _our_arrays(block: Block) -> Block:
    parts = ("query", "key", "value")
    return {
        "attention/query_key_value_kernel": np.concatenate([block[f"{part}_kernel"] for part in parts], 1),
        "attention/query_key_value_bias": np.concatenate([block[f"{part}_bias"] for part in parts]),
        "attention/output_kernel": block["context_kernel"],
        "attention/output_bias": block["context_bias"],
        "feed_forward/hidden/kernel": block["hidden_kernel"],
        "feed_forward/hidden/bias": block["hidden_bias"],
        "feed_forward/output/kernel": block["back_kernel"],
        "feed_forward/output/bias": block["back_bias"],
        "attention_norm/gamma": block["attention_gamma"],
        "attention_norm/beta": block["attention_beta"],
        "feed_forward_norm/gamma": block["feed_forward_gamma"],
        "feed_forward_norm/beta": block["feed_forward_beta"],
    }


def _kerashub_arrays(block: Block) -> Block:
    attention = {"query": "query", "key": "key", "value": "value", "attention_output": "context"}
    found = {
        f"self_attention_layer/{theirs}/{part}": block[f"{name}_{part}"]
        for theirs, name in attention.items()
        for part in ("kernel", "bias")
    }
    for theirs, name in (("intermediate_dense", "hidden"), ("output_dense", "back")):
        found |= {f"feedforward_{theirs}/{part}": block[f"{name}_{part}"] for part in ("kernel", "bias")}
    for theirs, name in (("self_attention", "attention"), ("feedforward", "feed_forward")):
        found |= {f"{theirs}_layer_norm/{part}": block[f"{name}_{part}"] for part in ("gamma", "beta")}
    return found
