"""Steps of training from texts to texts: of ours, and of torch's modules of a Transformer with our weights.

Axes: B (rows), S (symbols of a source), T (symbols of an answer), D (features), P (positions).
"""

import os
from typing import Any

import numpy as np

from benchmarks.prepared import Prepared
from benchmarks.sequences.training_steps import RATE, SMOOTHING, StepsCase

# Ids of padding, the unknown symbol and the beginning: no label is one of them.
_NEVER = 3


def _core(case: StepsCase) -> Any:
    """Return the model of the case, the same weights for every contestant, on one thread."""
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    import keras

    from keras_selfattn.models.config import SequenceConfig
    from keras_selfattn.models.sequences.sequence_core import SequenceCore

    keras.utils.set_random_seed(0)
    return SequenceCore(SequenceConfig(**case.config), case.vocabulary, keras.config.dtype_policy())


def ours(fields: dict[str, Any]) -> Prepared:
    """Prepare steps as `model.fit` makes them."""
    case = StepsCase(**fields)
    core = _core(case)
    import keras

    from keras_selfattn.models.sequences.sequence_head import AnswerCrossentropy, SymbolAccuracy

    loss = AnswerCrossentropy(SMOOTHING)
    core.compile(keras.optimizers.Adam(RATE), loss, metrics=[SymbolAccuracy(name="accuracy")])
    batches = case.read()

    def step(source: np.ndarray, target: np.ndarray, labels: np.ndarray) -> None:
        core.train_on_batch([source, target], labels)

    def first_loss() -> dict[str, float]:
        source, target, labels = batches[0]
        return {"loss": float(loss(labels, core([source, target], training=False)))}

    return _prepared(batches, step, first_loss)


def torch(fields: dict[str, Any]) -> Prepared:
    """Prepare steps of torch's encoder and decoder layers."""
    case = StepsCase(**fields)
    model, forward = _torch_model(_core(case))
    import torch  # pyright: ignore[reportMissingImports]
    from torch.nn.functional import cross_entropy  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)
    optimizer = torch.optim.Adam(model.parameters(), RATE, fused=True)
    batches: Any = [tuple(torch.tensor(each).long() for each in batch) for batch in case.read()]

    def loss(source: Any, target: Any, labels: Any) -> Any:
        logits = forward(source, target)
        flat = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1) - _NEVER
        return cross_entropy(*flat, ignore_index=-_NEVER, label_smoothing=SMOOTHING)

    def step(*batch: Any) -> None:
        optimizer.zero_grad()
        loss(*batch).backward()
        optimizer.step()

    def first_loss() -> dict[str, float]:
        model.eval()
        with torch.no_grad():
            found = float(loss(*batches[0]))
        model.train()
        return {"loss": found}

    return _prepared(batches, step, first_loss)


def _prepared(batches: list[Any], step: Any, first_loss: Any) -> Prepared:
    """Return a contestant whose call is a step on each batch."""
    known = first_loss()  # before training

    def run() -> None:
        for batch in batches:
            step(*batch)

    return Prepared(run, lambda: step(*(array[:2] for array in batches[0])), figures=lambda: known)


def _torch_model(core: Any) -> tuple[Any, Any]:
    """Return torch's modules with the weights of a core, and their function from ids to logits `[B, T, V]`.

    The logits are those of the symbols that answers can have.
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
