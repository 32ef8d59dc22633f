"""State in the config of a layer beside the arguments of its constructor: its LoRA and its quantization."""

from collections.abc import Mapping
from typing import Any

from keras_selfattn.layers.weights.low_rank import restore_lora
from keras_selfattn.layers.weights.quantized import quantize_parts, quantized_parts

_NAMES = ("lora", "quantized")


def arguments(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the constructor in a config."""
    return {name: value for name, value in config.items() if name not in _NAMES}


def take_state(layer: Any, config: Mapping[str, Any]) -> None:
    """Let a new layer become like that of a config when it is built."""
    layer.lora = config.get("lora")
    layer._to_quantize = dict(config.get("quantized") or {})


def state_config(layer: Any) -> dict[str, Any]:
    """Return the state of a layer for its config."""
    lora = {} if layer.lora is None else {"lora": layer.lora}
    quantized = quantized_parts(layer) or getattr(layer, "_to_quantize", None)
    return {**lora, **({"quantized": dict(quantized)} if quantized else {})}


def restore_state(layer: Any) -> None:
    """Quantize the parts and make the updates that the config of a layer has, as it is built."""
    if parts := getattr(layer, "_to_quantize", None):
        layer.built = True  # all its weights exist
        quantize_parts(layer, parts)
    restore_lora(layer)
