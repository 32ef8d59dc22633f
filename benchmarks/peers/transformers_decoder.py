"""Answers by `generate` of Hugging Face's transformers on PyTorch, from the weights of our model.

Its Pegasus has our architecture: pre-norm with a last normalisation, sinusoidal positions, shared vectors.

Axes: B (sources), S (symbols of a source), L (symbols of an answer), D (features).
"""

from typing import Any

import numpy as np

from benchmarks.prepared import Prepared
from benchmarks.sequences.decoding_case import (
    BEGIN,
    END,
    EPSILON,
    LENGTH_PENALTY,
    PADDING,
    DecodingCase,
    Weights,
)
from benchmarks.sequences.decoding_peer import Decode, prepared_decoder

_ATTENTION = {"q_proj": "query", "k_proj": "key", "v_proj": "value", "out_proj": "output"}


def build(fields: dict[str, Any]) -> Prepared:
    """Prepare `generate` with its cache, on one thread."""
    return prepared_decoder(DecodingCase.from_json(fields), _decoder)


def _decoder(case: DecodingCase) -> Decode:
    import torch  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)
    model = _model(Weights(case.weights))
    settings = {
        "num_beams": case.beams,
        "max_new_tokens": case.max_new_tokens,
        "do_sample": False,
        "use_cache": True,
        "return_dict_in_generate": True,
        "output_scores": True,
        # As ours: a source is answered when so many candidates have ended.
        **({"early_stopping": True, "length_penalty": LENGTH_PENALTY} if case.beams > 1 else {}),
    }

    def decode(sources: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ids = torch.from_numpy(sources).long()
        with torch.inference_mode():
            found = model.generate(ids, attention_mask=(ids != PADDING).long(), **settings)
        answers = found.sequences[:, 1:].numpy()
        known = getattr(found, "sequences_scores", None)
        return answers, np.full(len(sources), np.nan) if known is None else known.numpy()

    return decode


def _model(weights: Weights) -> Any:
    import torch  # pyright: ignore[reportMissingImports]
    from transformers import (  # pyright: ignore[reportMissingImports]
        PegasusConfig,
        PegasusForConditionalGeneration,
    )

    size, width = weights.embeddings.shape
    encoder, decoder = (weights.blocks(stack) for stack in ("encoder", "decoder"))
    hidden = weights.pair(f"{encoder[0]}/feed_forward/hidden")[0].shape[1]
    model = PegasusForConditionalGeneration(
        PegasusConfig(
            vocab_size=size,
            d_model=width,
            encoder_layers=len(encoder),
            decoder_layers=len(decoder),
            encoder_attention_heads=weights.heads,
            decoder_attention_heads=weights.heads,
            encoder_ffn_dim=hidden,
            decoder_ffn_dim=hidden,
            activation_function="gelu",
            scale_embedding=True,
            max_position_embeddings=len(weights.positions),
            pad_token_id=PADDING,
            eos_token_id=END,
            decoder_start_token_id=BEGIN,
            forced_eos_token_id=None,
        )
    ).eval()
    model.generation_config.forced_eos_token_id = None
    found = _state(weights)
    state = model.state_dict()
    for name, value in found.items():
        state[name] = torch.from_numpy(np.array(value))
    model.load_state_dict(state)
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = EPSILON
    return model


def _state(weights: Weights) -> dict[str, np.ndarray]:
    """Return the arrays of the model's state by their names there."""
    found = {"model.shared.weight": weights.embeddings, "lm_head.weight": weights.embeddings}
    found["final_logits_bias"] = weights.never[None]

    def add(name: str, pair: tuple[np.ndarray, np.ndarray]) -> None:
        found[f"{name}.weight"], found[f"{name}.bias"] = pair[0].T, pair[1]

    for stack in ("encoder", "decoder"):
        around = f"model.{stack}"
        found[f"{around}.embed_tokens.weight"] = weights.embeddings
        found[f"{around}.embed_positions.weight"] = weights.positions
        add(f"{around}.layer_norm", weights.norm(f"{stack}/norm"))
        for place, block in enumerate(weights.blocks(stack)):
            layer = f"{around}.layers.{place}"
            attentions = {"self_attn": "attention", "encoder_attn": "cross_attention"}
            for theirs, our in list(attentions.items())[: 1 if stack == "encoder" else 2]:
                add(f"{layer}.{theirs}_layer_norm", weights.norm(f"{block}/{our}_norm"))
                for to, name in _ATTENTION.items():
                    add(f"{layer}.{theirs}.{to}", weights.projection(f"{block}/{our}", name))
            add(f"{layer}.final_layer_norm", weights.norm(f"{block}/feed_forward_norm"))
            add(f"{layer}.fc1", weights.pair(f"{block}/feed_forward/hidden"))
            add(f"{layer}.fc2", weights.pair(f"{block}/feed_forward/output"))
    return found
