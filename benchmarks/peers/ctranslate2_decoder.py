"""Answers by CTranslate2 in float32, from the weights of our model.

Axes: B (sources), S (symbols of a source), L (symbols of an answer), D (features).
"""

import tempfile
from typing import Any

import numpy as np

from benchmarks.prepared import Prepared
from benchmarks.sequences.decoding_case import (
    BEGIN,
    END,
    EPSILON,
    LENGTH_PENALTY,
    UNKNOWN,
    DecodingCase,
    Weights,
    padded,
    until_end,
)
from benchmarks.sequences.decoding_peer import Decode, prepared_decoder


def build(fields: dict[str, Any]) -> Prepared:
    """Prepare CTranslate2, on one thread."""
    return prepared_decoder(DecodingCase.from_json(fields), _decoder)


def _decoder(case: DecodingCase) -> Decode:
    import ctranslate2  # pyright: ignore[reportMissingImports]

    with tempfile.TemporaryDirectory() as folder:
        _specification(Weights(case.weights)).save(folder)
        translator = ctranslate2.Translator(
            folder, device="cpu", compute_type="float32", inter_threads=1, intra_threads=1
        )

    def decode(sources: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = [[str(each) for each in until_end(source)] for source in sources]
        found = translator.translate_batch(
            rows,
            beam_size=case.beams,
            length_penalty=LENGTH_PENALTY,
            max_decoding_length=case.max_new_tokens,
            max_input_length=0,
            return_scores=True,
            return_end_token=True,
        )
        ids = [[int(token) for token in each.hypotheses[0]] for each in found]
        return padded(ids), np.array([each.scores[0] for each in found])

    return decode


def _specification(weights: Weights) -> Any:
    from ctranslate2 import specs  # pyright: ignore[reportMissingImports]

    layers = len(weights.blocks("encoder")), len(weights.blocks("decoder"))
    made = specs.TransformerSpec.from_config(
        layers, weights.heads, pre_norm=True, activation=specs.Activation.GELU
    )
    for stack in ("encoder", "decoder"):
        spec = getattr(made, stack)
        embeddings = spec.embeddings[0] if stack == "encoder" else spec.embeddings
        embeddings.weight = weights.embeddings
        spec.position_encodings.encodings = weights.positions
        _set_norm(spec.layer_norm, weights.norm(f"{stack}/norm"))
        for block, layer in zip(weights.blocks(stack), spec.layer, strict=True):
            _set_block(layer, weights, block)
    made.decoder.projection.weight = weights.embeddings
    made.decoder.projection.bias = weights.never
    vocabulary = [str(each) for each in range(len(weights.embeddings))]
    made.register_source_vocabulary(vocabulary)
    made.register_target_vocabulary(vocabulary)
    made.config.bos_token, made.config.eos_token = str(BEGIN), str(END)
    made.config.unk_token, made.config.decoder_start_token = str(UNKNOWN), str(BEGIN)
    made.config.layer_norm_epsilon = EPSILON
    made.validate()
    return made


def _set_block(layer: Any, weights: Weights, block: str) -> None:
    attention = layer.self_attention
    _set_norm(attention.layer_norm, weights.norm(f"{block}/attention_norm"))
    _set(
        attention.linear[0], *(weights.projection(f"{block}/attention", n) for n in ("query", "key", "value"))
    )
    _set(attention.linear[1], weights.projection(f"{block}/attention", "output"))
    if hasattr(layer, "attention"):
        cross = f"{block}/cross_attention"
        _set_norm(layer.attention.layer_norm, weights.norm(f"{cross}_norm"))
        _set(layer.attention.linear[0], weights.projection(cross, "query"))
        _set(layer.attention.linear[1], *(weights.projection(cross, name) for name in ("key", "value")))
        _set(layer.attention.linear[2], weights.projection(cross, "output"))
    _set_norm(layer.ffn.layer_norm, weights.norm(f"{block}/feed_forward_norm"))
    _set(layer.ffn.linear_0, weights.pair(f"{block}/feed_forward/hidden"))
    _set(layer.ffn.linear_1, weights.pair(f"{block}/feed_forward/output"))


def _set(linear: Any, *projections: tuple[np.ndarray, np.ndarray]) -> None:
    """Give a linear layer the weights of one projection, or of several beside each other."""
    kernels, biases = zip(*projections, strict=True)
    linear.weight = np.ascontiguousarray(np.concatenate(kernels, 1).T)
    linear.bias = np.concatenate(biases)


def _set_norm(norm: Any, given: tuple[np.ndarray, np.ndarray]) -> None:
    norm.gamma, norm.beta = given
