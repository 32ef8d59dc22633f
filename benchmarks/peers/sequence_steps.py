"""Steps of training from texts to texts: of ours, and of torch's modules with our weights."""

import os
from typing import Any

import numpy as np

from benchmarks.peers.torch_sequences import answer_loss, torch_model
from benchmarks.prepared import Prepared
from benchmarks.sequences.training_steps import RATE, SMOOTHING, StepsCase


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
    model, forward = torch_model(_core(case))
    import torch  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)
    optimizer = torch.optim.Adam(model.parameters(), RATE, fused=True)
    batches: Any = [tuple(torch.tensor(each).long() for each in batch) for batch in case.read()]

    def loss(source: Any, target: Any, labels: Any) -> Any:
        return answer_loss(forward(source, target), labels, SMOOTHING)

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
