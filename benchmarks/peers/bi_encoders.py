"""A pretrained encoder trained on pairs of texts with scores, and its correlation on the test rows."""

import dataclasses
import tempfile
from typing import Any, NamedTuple

import numpy as np

from benchmarks.accuracy.peer import timed
from benchmarks.peak import peak_growth
from keras_selfattn.data.labelled import LabelledRows

_BATCH = 64  # when predicting


class Pairs(NamedTuple):
    """The rows of a set: pairs of texts with scores."""

    train: LabelledRows
    development: LabelledRows
    test: LabelledRows


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How a contestant trains; None for its default.

    Args:
        score_loss: "order" or "cosine", as `TextEncoderConfig` names them. For "cosine" scores are divided by
            the largest of the training rows.
        learning_rate: the highest.
        epochs: passes over the rows, at most; those that are best on the development rows are kept.
        batch_size: rows in a step.
    """

    score_loss: str = "order"
    learning_rate: float | None = None
    epochs: int | None = None
    batch_size: int | None = None


def ours(folder: str, pairs: Pairs, seed: int, recipe: Recipe) -> dict[str, float]:
    """Train like `keras-selfattn train --task embedding --from FOLDER --validation FILE`."""
    from keras_selfattn.cli.shared.backend import import_tensorflow

    import_tensorflow(batches=True)
    from keras_selfattn import models, training

    if recipe.score_loss == "cosine":
        pairs = _as_cosines(pairs)
    model = models.TextEncoder({"score_loss": recipe.score_loss}, start=folder)
    asked = {
        name: value for name, value in dataclasses.asdict(recipe).items() if value and name != "score_loss"
    }
    config = training.TrainConfig(**{**model.advised_training(len(pairs.train)), **asked, "seed": seed})

    def train() -> Any:
        with tempfile.TemporaryDirectory() as output:
            given = {"validation": pairs.development, "verbose": 0}
            return training.train(pairs.train, f"{output}/run", model=model, config=config, **given)

    run, figures = _measured(train)
    return figures | {"spearman": training.evaluate(run.model, pairs.test).summary()["spearman"]}


def sentence_transformers(folder: str, pairs: Pairs, seed: int, recipe: Recipe) -> dict[str, float]:
    """Train the same weights with sentence-transformers' loss, AdamW and a linear schedule, on PyTorch.

    Weights are those of the epoch that is best on the development rows, whose measurement takes part in the
    time, as in ours.
    """
    import torch  # pyright: ignore[reportMissingImports]
    from sentence_transformers import SentenceTransformer  # pyright: ignore[reportMissingImports]
    from sentence_transformers.sentence_transformer import (  # pyright: ignore[reportMissingImports]
        losses,
    )
    from transformers import get_linear_schedule_with_warmup  # pyright: ignore[reportMissingImports]

    torch.manual_seed(seed)
    pairs = _as_cosines(pairs)
    model = SentenceTransformer(folder, device="cpu")
    loss = losses.CoSENTLoss(model) if recipe.score_loss == "order" else losses.CosineSimilarityLoss(model)
    # The defaults of its trainer, and the epochs of its own example on this set.
    rate, epochs, size = recipe.learning_rate or 5e-5, recipe.epochs or 4, recipe.batch_size or 16
    columns, scores = list(zip(*pairs.train.inputs, strict=True)), np.array(pairs.train.targets, np.float32)

    def train() -> None:
        optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
        steps = epochs * -(-len(scores) // size)
        schedule = get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
        random, best = np.random.default_rng(seed), (-np.inf, {})
        for _ in range(epochs):
            order = random.permutation(len(scores))
            model.train()
            for chosen in np.split(order, range(size, len(order), size)):
                texts = [[column[place] for place in chosen] for column in columns]
                found = loss([model.preprocess(each) for each in texts], torch.tensor(scores[chosen]))
                optimizer.zero_grad()
                found.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
            reached = _spearman(model, pairs.development)
            if reached > best[0]:
                best = reached, {name: value.clone() for name, value in model.state_dict().items()}
        model.load_state_dict(best[1])

    _, figures = _measured(train)
    return figures | {"spearman": _spearman(model, pairs.test)}


def _spearman(model: Any, rows: LabelledRows) -> float:
    """Return the correlation of scores and cosines of a model of sentence-transformers."""
    from keras_selfattn.metrics.vectors import cosines, similarity_report

    columns = zip(*rows.inputs, strict=True)
    vectors = [model.encode(list(texts), batch_size=_BATCH, show_progress_bar=False) for texts in columns]
    return similarity_report(np.array(rows.targets), cosines(np.stack(vectors, axis=1))).spearman


def _as_cosines(pairs: Pairs) -> Pairs:
    """Return the rows with scores of at most 1."""
    most = max(pairs.train.targets)
    return Pairs(*(dataclasses.replace(rows, targets=[s / most for s in rows.targets]) for rows in pairs))


def _measured(train: Any) -> tuple[Any, dict[str, float]]:
    """Return the result of a training, with its seconds and the megabytes that it takes."""
    found: list[Any] = []
    grown = peak_growth(lambda: found.append(timed(train)))
    result, (wall, cpu) = found[0]
    return result, {"seconds": wall, "cpu s": cpu, "memory MB": grown / 1e6}
