"""Our blocks and KerasHub's, with the case's weights in them, on whichever backend Keras runs."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.case import EPSILON, FEED_FORWARD, Array, Case

Block = dict[str, Array]


class Stack:
    """Keras layers, one after the other, and the places of the case's weights in them.

    Args:
        case: the case to build.
        layers: the layers; all have the same number of blocks.
        mask_name: the layers' name for the padding mask.
        arrays: from the weights of a layer's blocks to the layer's weights, by the end of their path.
    """

    def __init__(
        self, case: Case, layers: list[Any], mask_name: str, arrays: Callable[[list[Block]], Block]
    ) -> None:
        self.layers = layers
        self.mask_name = mask_name
        self._arrays = arrays
        for layer in layers:
            layer.build((None, None, case.width))
        for variable, array in zip(self.weights, self._in_order(case.weights()), strict=True):
            variable.assign(array)

    def __call__(self, x: Any, mask: Any, training: bool) -> Any:
        """Return the outputs `[B, T, D]`."""
        for layer in self.layers:
            x = layer(x, training=training, **{self.mask_name: mask})
        return x

    @property
    def weights(self) -> list[Any]:
        """The trainable variables of all layers."""
        return [variable for layer in self.layers for variable in layer.trainable_weights]

    def direction(self, case: Case) -> list[Array]:
        """Return the case's direction, an array for each of `weights`."""
        return self._in_order(case.direction())

    def _in_order(self, blocks: list[Block]) -> list[Array]:
        """Return an array for each of `weights`."""
        share = len(blocks) // len(self.layers)
        groups = [blocks[start : start + share] for start in range(0, len(blocks), share)]
        pairs = zip(self.layers, groups, strict=True)
        return [array for layer, group in pairs for array in self._of_layer(layer, group)]

    def _of_layer(self, layer: Any, blocks: list[Block]) -> list[Array]:
        arrays = self._arrays(blocks)
        weights = layer.trainable_weights
        ends = [end for weight in weights for end in arrays if weight.path.endswith("/" + end)]
        if sorted(ends) != sorted(arrays):
            raise ValueError(f"the layer's weights are {[w.path for w in weights]}, known are {list(arrays)}")
        return [arrays[end].reshape(weight.shape) for end, weight in zip(ends, weights, strict=True)]


def ours(case: Case) -> Stack:
    """Return our `Encoder`."""
    from keras_selfattn import layers

    encoder = layers.Encoder(
        case.layers,
        case.heads,
        FEED_FORWARD * case.width,
        case.dropout,
        case.activation,
        norm_first=False,
        window=case.window,
        seed=case.seed,
        dtype=case.dtype,
    )
    return Stack(case, [encoder], "mask", _our_arrays)


def kerashub(case: Case) -> Stack:
    """Return KerasHub's `TransformerEncoder`s."""
    import keras_hub  # pyright: ignore[reportMissingImports]

    dropout: Any = case.dropout  # KerasHub's annotation says int, because of the default 0

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
    return Stack(case, blocks, "padding_mask", _kerashub_arrays)


def _our_arrays(blocks: list[Block]) -> Block:
    return {
        f"block_{index}/{end}": array
        for index, block in enumerate(blocks)
        for end, array in _our_block(block).items()
    }


def _our_block(block: Block) -> Block:
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


def _kerashub_arrays(blocks: list[Block]) -> Block:
    (block,) = blocks
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
