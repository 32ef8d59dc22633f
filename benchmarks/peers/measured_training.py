"""The common part of contestants that train an encoder on pairs of texts with scores."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.accuracy.peer import timed
from benchmarks.peak import peak_growth
from keras_selfattn.data.labelled import LabelledRows


class Pairs(NamedTuple):
    """The rows of a set: pairs of texts with scores."""

    train: LabelledRows
    development: LabelledRows
    test: LabelledRows


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The training of a contestant; None for its default.

    Args:
        loss: of vectors "order" or "cosine", as `TextEncoderConfig` names them; of scores "squared error" or
            "cross-entropy". For "cosine" and "cross-entropy" scores are divided by the largest of the
            training rows.
        learning_rate: the highest.
        epochs: passes over the rows, at most; those that are best on the development rows are kept.
        batch_size: rows in a step.
    """

    loss: str | None = None
    learning_rate: float | None = None
    epochs: int | None = None
    batch_size: int | None = None

    def given(self) -> dict[str, Any]:
        """Return the settings of a `TrainConfig` that are not the defaults."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value and name != "loss"}

    def with_defaults(self, **settings: Any) -> "Recipe":
        """Return the recipe with settings in place of those that are None."""
        left = {name: value for name, value in settings.items() if getattr(self, name) is None}
        return dataclasses.replace(self, **left)


def on_one_scale(pairs: Pairs) -> Pairs:
    """Return the rows with scores of at most 1."""
    most = max(pairs.train.targets)
    return Pairs(*(dataclasses.replace(rows, targets=[s / most for s in rows.targets]) for rows in pairs))


def measured(train: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Return the result of a training, with its seconds and the megabytes that it takes."""
    found: list[Any] = []
    grown = peak_growth(lambda: found.append(timed(train)))
    result, (wall, cpu) = found[0]
    return result, {"seconds": wall, "cpu s": cpu, "memory MB": grown / 1e6}


def best_epoch_of(
    model: Any,
    loss_of: Callable[[np.ndarray], Any],
    reached: Callable[[], float],
    rows: int,
    seed: int,
    recipe: Recipe,
) -> int:
    """Train a module of PyTorch as the trainer of sentence-transformers does; return its best epoch.

    AdamW, a rate that rises in a tenth of the steps and then falls to 0, gradients clipped to norm 1.

    Args:
        model: gets the weights of its best epoch.
        loss_of: from the places of the rows of a step to its loss.
        reached: measures the model on the development rows; more is better.
        rows: the number of training rows.
        seed: of their order.
        recipe: without None, but for the loss.
    """
    import torch  # pyright: ignore[reportMissingImports]
    from transformers import get_linear_schedule_with_warmup  # pyright: ignore[reportMissingImports]

    rate, epochs, size = (recipe.learning_rate or 0.0), (recipe.epochs or 1), (recipe.batch_size or 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    steps = epochs * -(-rows // size)
    schedule = get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
    random, best, kept = np.random.default_rng(seed), -np.inf, 0
    weights: dict[str, Any] = {}
    for epoch in range(1, epochs + 1):
        order = random.permutation(rows)
        model.train()
        for chosen in np.split(order, range(size, len(order), size)):
            loss = loss_of(chosen)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
        found = reached()
        if found > best:
            best, kept = found, epoch
            _keep(model, weights)
    model.load_state_dict(weights)
    return kept


def _keep(model: Any, weights: dict[str, Any]) -> None:
    """Copy the weights of a module of PyTorch to where those of an earlier epoch are."""
    for name, value in model.state_dict().items():
        if name in weights:
            weights[name].copy_(value)
        else:
            weights[name] = value.clone()
