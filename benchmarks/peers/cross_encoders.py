"""A pretrained encoder trained to give pairs of texts a score, both texts read together."""

import dataclasses
import tempfile
from typing import Any

import numpy as np

from benchmarks.peers.measured_training import Pairs, Recipe, best_epoch_of, measured, on_one_scale
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.metrics.correlations import pearson, spearman
from keras_selfattn.rows.targets import NUMBERS
from keras_selfattn.rows.text_pairs import TEXT_PAIRS

_BATCH = 64  # when predicting


def ours(folder: str, pairs: Pairs, seed: int, recipe: Recipe) -> dict[str, float]:
    """Train like `train --task score --text-pair COLUMN --from FOLDER --validation FILE`."""
    from keras_selfattn.cli.shared.backend import import_tensorflow

    import_tensorflow(batches=True)
    from keras_selfattn import models, training

    bounded = recipe.loss == "cross-entropy"
    rows = Pairs(*(_scored(each) for each in (on_one_scale(pairs) if bounded else pairs)))
    model = models.TextRegressor({"bounded": bounded}, start=folder, text_pairs=True)
    settings = {**model.advised_training(len(rows.train)), **recipe.given(), "seed": seed}
    config = training.TrainConfig(**settings)

    def train() -> Any:
        with tempfile.TemporaryDirectory() as output:
            given = {"validation": rows.development, "verbose": 0}
            return training.train(rows.train, f"{output}/run", model=model, config=config, **given)

    run, figures = measured(train)
    found = run.model.predict(rows.test.inputs, batch_size=_BATCH, verbose=0)[:, 0]
    return figures | {"best epoch": run.best_epoch} | _correlations(rows.test, found)


def sentence_transformers(folder: str, pairs: Pairs, seed: int, recipe: Recipe) -> dict[str, float]:
    """Train the same weights as a `CrossEncoder`, with its binary cross-entropy and AdamW, on PyTorch.

    The head is its own, begun by the seed. Weights are those of the epoch that is best on the development
    rows, whose measurement takes part in the time, as in ours.
    """
    import torch  # pyright: ignore[reportMissingImports]
    from sentence_transformers import CrossEncoder  # pyright: ignore[reportMissingImports]
    from sentence_transformers.cross_encoder import losses  # pyright: ignore[reportMissingImports]

    torch.manual_seed(seed)
    pairs = on_one_scale(pairs)
    model = CrossEncoder(folder, num_labels=1, device="cpu")
    loss = losses.BinaryCrossEntropyLoss(model)
    first, second = (list(column) for column in zip(*pairs.train.inputs, strict=True))
    scores = np.array(pairs.train.targets, np.float32)

    def loss_of(chosen: np.ndarray) -> Any:
        texts = [[column[place] for place in chosen] for column in (first, second)]
        return loss(texts, torch.tensor(scores[chosen]))

    def reached(rows: LabelledRows) -> dict[str, float]:
        found = model.predict(list(rows.inputs), batch_size=_BATCH, show_progress_bar=False)
        return _correlations(rows, found)

    # The epochs and the batch of its own example on this set, and the rate of its trainer.
    recipe = recipe.with_defaults(learning_rate=5e-5, epochs=4, batch_size=64)
    development = pairs.development
    epoch, figures = measured(
        lambda: best_epoch_of(
            model, loss_of, lambda: reached(development)["spearman"], len(scores), seed, recipe
        )
    )
    return figures | {"best epoch": epoch} | reached(pairs.test)


def _scored(rows: LabelledRows) -> LabelledRows:
    """Return pairs with their scores as the task "score" reads them."""
    scores = [np.array([score], np.float32) for score in rows.targets]
    return dataclasses.replace(rows, targets=scores, kind=TEXT_PAIRS, target_kind=NUMBERS)


def _correlations(rows: LabelledRows, found: np.ndarray) -> dict[str, float]:
    scores, found = np.array(rows.targets, np.float64).reshape(-1), np.asarray(found, np.float64)
    return {"spearman": float(spearman(scores, found)), "pearson": float(pearson(scores, found))}
