"""A pretrained encoder trained on pairs of texts with scores, and its correlation on the test rows."""

import tempfile
from typing import Any

import numpy as np

from benchmarks.peers.measured_training import Pairs, Recipe, best_epoch_of, measured, on_one_scale
from keras_selfattn.data.labelled import LabelledRows

_BATCH = 64  # when predicting
_FIGURES = ("spearman", "pearson")


def ours(folder: str, pairs: Pairs, seed: int, recipe: Recipe) -> dict[str, float]:
    """Train like `keras-selfattn train --task embedding --from FOLDER --validation FILE`."""
    from keras_selfattn.cli.shared.backend import import_tensorflow

    import_tensorflow(batches=True)
    from keras_selfattn import models, training

    chosen = recipe.with_defaults(loss="order")
    if chosen.loss == "cosine":
        pairs = on_one_scale(pairs)
    model = models.TextEncoder({"score_loss": chosen.loss}, start=folder)
    settings = {**model.advised_training(len(pairs.train)), **recipe.given(), "seed": seed}
    config = training.TrainConfig(**settings)

    def train() -> Any:
        with tempfile.TemporaryDirectory() as output:
            given = {"validation": pairs.development, "verbose": 0}
            return training.train(pairs.train, f"{output}/run", model=model, config=config, **given)

    run, figures = measured(train)
    found = training.evaluate(run.model, pairs.test).summary()
    return figures | {"best epoch": run.best_epoch} | {name: found[name] for name in _FIGURES}


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

    torch.manual_seed(seed)
    pairs = on_one_scale(pairs)
    # The defaults of its trainer, and the epochs of its own example on this set.
    recipe = recipe.with_defaults(loss="order", learning_rate=5e-5, epochs=4, batch_size=16)
    model = SentenceTransformer(folder, device="cpu")
    loss = losses.CoSENTLoss(model) if recipe.loss == "order" else losses.CosineSimilarityLoss(model)
    columns, scores = list(zip(*pairs.train.inputs, strict=True)), np.array(pairs.train.targets, np.float32)

    def loss_of(chosen: np.ndarray) -> Any:
        texts = [[column[place] for place in chosen] for column in columns]
        return loss([model.preprocess(each) for each in texts], torch.tensor(scores[chosen]))

    def reached() -> float:
        return _correlations(model, pairs.development)["spearman"]

    epoch, figures = measured(lambda: best_epoch_of(model, loss_of, reached, len(scores), seed, recipe))
    return figures | {"best epoch": epoch} | _correlations(model, pairs.test)


def _correlations(model: Any, rows: LabelledRows) -> dict[str, float]:
    """Return the correlations of scores and cosines of a model of sentence-transformers."""
    from keras_selfattn.metrics.vectors import cosines, similarity_report

    columns = zip(*rows.inputs, strict=True)
    vectors = [model.encode(list(texts), batch_size=_BATCH, show_progress_bar=False) for texts in columns]
    found = similarity_report(np.array(rows.targets), cosines(np.stack(vectors, axis=1)))
    return {name: float(getattr(found, name)) for name in _FIGURES}
