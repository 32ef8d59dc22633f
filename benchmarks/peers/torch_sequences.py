"""torch's modules of a Transformer with the weights of our model.

Axes: B (rows), S (symbols of a source), T (symbols of an answer), D (features), P (positions), V (symbols).
"""

from typing import Any

import numpy as np

# Ids of padding, the unknown symbol and the beginning: no answer is made of them.
_NEVER = 3


def answer_loss(logits: Any, labels: Any, smoothing: float) -> Any:
    """Return the mean cross-entropy of symbols that answers can have, as `AnswerCrossentropy` of ours.

    Args:
        logits: float `[B, T, V - 3]`, as the function of `torch_model` returns them.
        labels: int64 ids `[B, T]`; those that no answer has, such as padding, are left out.
        smoothing: share of each symbol that is spread over all.
    """
    from torch.nn.functional import cross_entropy  # pyright: ignore[reportMissingImports]

    places = (labels - _NEVER).clamp(min=-1).reshape(-1)
    flat = logits.reshape(-1, logits.shape[-1])
    return cross_entropy(flat, places, ignore_index=-1, label_smoothing=smoothing)


def torch_model(core: Any) -> tuple[Any, Any]:
    """Return torch's modules with the weights of a core, and their function from ids to logits.

    The function takes int64 ids of sources `[B, S]` and of answers `[B, T]`; the logits are those of the
    symbols that answers can have, `[B, T, V - 3]`.
    """
    import torch  # pyright: ignore[reportMissingImports]
    from torch import nn  # pyright: ignore[reportMissingImports]

    from keras_selfattn import layers

    kinds = {"encoder": nn.TransformerEncoderLayer, "decoder": nn.TransformerDecoderLayer}
    blocks: Any = {
        name: nn.ModuleList(layers.to_peer(block, kind) for block in core.get_layer(name).blocks)
        for name, kind in kinds.items()
    }
    norms = nn.ModuleDict({name: _norm(core.get_layer(name)) for name in kinds})
    vectors = nn.Parameter(torch.tensor(np.asarray(core.embedding.vectors)))
    model = nn.ModuleDict({**blocks, "norms": norms})
    model.register_parameter("vectors", vectors)
    width, dropout = core.embedding.width, nn.Dropout(core.get_layer("positions").dropout)
    model["dropout"] = dropout
    places = np.asarray(core.get_layer("positions")(np.zeros((1, 512, width), np.float32)))[0]
    places = torch.tensor(places)  # [P, D]

    def embedded(ids: Any) -> Any:
        found = nn.functional.embedding(ids, vectors) * width**0.5
        return dropout(found + places[: ids.shape[1]])

    def forward(source: Any, target: Any) -> Any:
        x, padding = embedded(source), source == 0
        for block in blocks["encoder"]:
            x = block(x, src_key_padding_mask=padding)
        memory = norms["encoder"](x)
        later = torch.triu(torch.ones(2 * [target.shape[1]], dtype=torch.bool), 1)
        y = embedded(target)
        for block in blocks["decoder"]:
            y = block(
                y,
                memory,
                tgt_mask=later,
                tgt_key_padding_mask=target == 0,
                memory_key_padding_mask=padding,
                tgt_is_causal=True,
            )
        return nn.functional.linear(norms["decoder"](y), vectors[_NEVER:])

    return model.train(), forward


def _norm(stack: Any) -> Any:
    """Return torch's layer normalisation with the weights of the last one of a stack."""
    import torch  # pyright: ignore[reportMissingImports]
    from torch import nn  # pyright: ignore[reportMissingImports]

    gain, shift = stack.weights[-2:]
    made = nn.LayerNorm(gain.shape[0], eps=1e-5)
    with torch.no_grad():
        made.weight.copy_(torch.tensor(np.asarray(gain)))
        made.bias.copy_(torch.tensor(np.asarray(shift)))
    return made
