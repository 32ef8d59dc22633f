"""Sequences on torch: its modules of a Transformer with our weights, and a training of them that is as ours.

Axes: B (rows), S (symbols of a source), T (symbols of an answer), D (features), P (positions), V (symbols).
"""

import functools
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.measured_training import measured
from benchmarks.peers.sequence_models import SequenceRows, UsedTime, figures_of_answers
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.files.atomic import new_file

# Ids of padding, the unknown symbol and the beginning: no answer is made of them.
_NEVER = 3
_EPSILON, _BETA = 1e-7, 0.999  # of Keras' Adam; torch's own epsilon is 1e-8
_CLIPPED = 1.0  # norm of all gradients of a step, as `training.train` has it


def torch(
    rows: SequenceRows,
    config: dict[str, Any],
    given: dict[str, Any],
    seed: int,
    beams: Sequence[int] = (),
    folder: Path | None = None,
) -> dict[str, float]:
    """Train torch's encoder and decoder layers as `sequence_models.ours` trains ours.

    Their weights are then those of our model, so that both have the same search for answers.

    Args:
        rows, config, given, seed, beams, folder: as there; `patience` has no effect.
    """
    from keras_selfattn.cli.shared.backend import import_tensorflow

    import_tensorflow("torch", batches=True)
    from keras_selfattn import models, training

    model = models.SequenceToSequence(config)
    settings = training.TrainConfig(**{**model.advised_training(len(rows.train)), **given, "seed": seed})
    with tempfile.TemporaryDirectory() if folder is None else nullcontext(folder) as output:
        used = UsedTime(Path(output, "used.json"))
        checkpoint = Path(output, "torch.pt")
        train_on_torch = functools.partial(train, model, rows, settings, checkpoint, used.keep)
        best_epoch, figures = measured(train_on_torch)
    return {
        **used.added_to(figures),
        "best epoch": best_epoch,
        **figures_of_answers(model, rows, beams),
    }


def train(
    model: Any, rows: SequenceRows, config: Any, checkpoint: Path, after_epoch: Callable[[], None]
) -> int:
    """Train on torch, leave the weights of the best epoch in a model of ours, and return that epoch.

    Symbols, first weights, batches, the loss, AdamW and its rates are those of `training.train`; so is the
    choice of the epoch, by the character error rate of answers to the development rows. Dropout draws
    other numbers.

    Args:
        model: of ours, before it has seen rows.
        rows: of the set; all development rows are answered after each epoch.
        config: the `TrainConfig`.
        checkpoint: file that is written after each epoch; a training goes on from one that is there.
        after_epoch: called before it is written.
    """
    import keras

    from keras_selfattn.metrics.evaluation import measured as evaluated

    keras.utils.set_random_seed(config.seed)  # weights are drawn when symbols are known
    model.adapt(rows.train.inputs, rows.train.targets)
    training = TorchTraining(model, rows.train, config)
    if checkpoint.exists():
        training.restore(checkpoint)
    for _ in range(training.epochs, config.epochs):
        training.run_epoch()
        copy_to_core(training.modules, model.core)
        assert rows.development is not None
        figures = evaluated(model, rows.development).figures.summary()
        training.judge(figures["character_error_rate"])
        after_epoch()
        training.save(checkpoint)
    training.modules.load_state_dict(training.best["weights"])
    copy_to_core(training.modules, model.core)
    return training.best["epoch"]


class TorchTraining:
    """A training of torch's modules, on the batches of a model of ours and from its weights on.

    Args:
        model: of ours, whose symbols are known.
        rows: to train on.
        config: the `TrainConfig`.

    Attributes:
        modules: those that are trained.
        epochs: passes over the rows so far.
        best: the best epoch, its error and weights.
    """

    def __init__(self, model: Any, rows: LabelledRows, config: Any) -> None:
        import torch  # pyright: ignore[reportMissingImports]

        from keras_selfattn.models.sequences.sequence_head import AnswerHead
        from keras_selfattn.training.schedule import scheduled_optimizer

        torch.manual_seed(config.seed)
        self.modules, self._forward = torch_model(model.core)
        read = model.read_rows(rows.inputs, rows.targets, None, AnswerHead)
        order = {"shuffle": True, "seed": config.seed}
        self._batches = model.batches(read, config.batch_size, training=True, **order)
        self._smoothing = config.label_smoothing
        # Ours takes no step: it tells the rate of each.
        steps = len(self._batches) * config.epochs
        self._rates: Any = scheduled_optimizer(model, config, config.learning_rate, steps)[0]
        settings: dict[str, Any] = {"weight_decay": config.weight_decay, "fused": True}
        self._optimizer = torch.optim.AdamW(self.modules.parameters(), **settings)
        self.epochs = 0
        self.best: dict[str, Any] = {"epoch": 0, "error": float("inf"), "weights": {}}

    def run_epoch(self) -> list[float]:
        """Pass over the rows once; return the loss of each step."""
        first = self.epochs * len(self._batches)
        losses = [self._step(first + place, *batch) for place, batch in enumerate(self._batches)]
        self.epochs += 1
        return losses

    def judge(self, error: float) -> None:
        """Keep the weights if the error of the epoch is lower than any before."""
        if error < self.best["error"]:
            weights = {name: value.clone() for name, value in self.modules.state_dict().items()}
            self.best = {"epoch": self.epochs, "error": error, "weights": weights}

    def save(self, file: Path) -> None:
        """Write all that the next epoch depends on; the file appears whole."""
        import torch  # pyright: ignore[reportMissingImports]

        state = {
            "modules": self.modules.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "random": torch.get_rng_state(),
            "epochs": self.epochs,
            "best": self.best,
        }
        with new_file(file) as opened:
            torch.save(state, opened)

    def restore(self, file: Path) -> None:
        """Go on from a file of `save`."""
        import torch  # pyright: ignore[reportMissingImports]

        state = torch.load(file, weights_only=True)
        self.modules.load_state_dict(state["modules"])
        self._optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
        self.epochs, self.best = state["epochs"], state["best"]
        self._batches.skip(self.epochs)

    def _step(self, number: int, inputs: Any, labels: np.ndarray) -> float:
        import torch  # pyright: ignore[reportMissingImports]

        self._rates.iterations.assign(number)
        for group in self._optimizer.param_groups:
            group["lr"] = float(self._rates.learning_rate)
            # Keras adds epsilon before it corrects the second moment, torch after it.
            group["eps"] = _EPSILON / (1 - _BETA ** (number + 1)) ** 0.5
        source, target, wanted = (torch.tensor(each).long() for each in (*inputs, labels))
        self._optimizer.zero_grad()
        loss = answer_loss(self._forward(source, target), wanted, self._smoothing)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.modules.parameters(), _CLIPPED)
        self._optimizer.step()
        return loss.item()


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


def copy_to_core(modules: Any, core: Any) -> None:
    """Copy the weights of `torch_model` back to the core that it was made of, or one alike."""
    from keras_selfattn import layers

    for name, norm in modules["norms"].items():
        stack = core.get_layer(name)
        for block, peer in zip(stack.blocks, modules[name], strict=True):
            block.set_weights(layers.from_peer(peer).get_weights())
        for weight, peer in zip(stack.weights[-2:], (norm.weight, norm.bias), strict=True):
            weight.assign(peer.detach().numpy())
    core.embedding.set_weights([modules.vectors.detach().numpy()])
