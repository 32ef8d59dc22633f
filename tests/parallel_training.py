"""A training on several processes, as a program that writes what each of them saw.

    python parallel_training.py FOLDER COUNT INDEX HOST:PORT [ROWS]

It writes FOLDER/steps-COUNT-INDEX.json: the loss and the shapes of each step, and the figures.
"""

import json
import sys
from contextlib import nullcontext
from pathlib import Path

import keras
import numpy as np

from keras_selfattn import models, training

WORDS = ["film", "bore", "plot", "cast", "scene", "music", "end", "start", "hero", "villain"]


def texts(count):
    random = np.random.default_rng(0)
    rows = [" ".join(random.choice(WORDS, random.integers(3, 40))) for _ in range(count)]
    return rows, ["+" if row.count("film") > row.count("bore") else "-" for row in rows]


class Steps(keras.callbacks.Callback):
    """Keeps the loss of each step; asks for an end in the first epoch, if this is not process 0."""

    def __init__(self, index):
        super().__init__()
        self.losses = []
        self._index = index

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(float(logs["loss"]))
        if self._index and len(self.losses) == 2:
            self.model.stop_training = True


class Classifier(models.TextClassifier):
    """Keeps the shapes of the batches of training that this process feeds."""

    shapes: list = []  # noqa: RUF012  of the one model of the program

    def batches(self, rows, batch_size, *, training=False, **settings):
        found = super().batches(rows, batch_size, training=training, **settings)
        if training:
            self.shapes += [
                [list(each.shape) for each in (*inputs, labels)] for inputs, labels in _copy(found)
            ]
        return found


def _copy(batches):
    before = batches._random.bit_generator.state, batches._starts.bit_generator.state
    yield from batches
    batches._random.bit_generator.state, batches._starts.bit_generator.state = before


def main(folder, count, index, address, rows="216"):
    count, index = int(count), int(index)
    # Two paths, whose shares are fitted after each epoch, spans, and dropout everywhere.
    settings = {"width": 16, "num_heads": 2, "num_layers": 1, "ngram_buckets": 64, "training_span": 16}
    model = Classifier(models.TextConfig(**settings, dropout=0.2, members=1))
    steps = Steps(index)
    with training.ProcessGroup(address, count, index) if count > 1 else nullcontext() as group:
        run = training.train(
            texts(int(rows)),
            Path(folder) / f"run-{count}",
            model=model,
            config=training.TrainConfig(epochs=3, batch_size=16, refit=False),
            group=group,
            callbacks=[steps],
            verbose=0,
        )
    found = {
        "losses": steps.losses,
        "shapes": model.shapes,
        "history": json.loads((run.path / "config.json").read_text())["best_epoch"] if index == 0 else None,
        "accuracy": run.figures.accuracy,
        "weights": [float(np.abs(weight).sum()) for weight in run.model.get_weights()],
    }
    (Path(folder) / f"steps-{count}-{index}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
