"""Small trainings that run on any backend of Keras; as a program, those of JAX or PyTorch for the tests.

    python backend_training.py FOLDER

FOLDER holds a `.keras` file a task, made on TensorFlow. What is found is written there, beside the models
trained here.
"""

import collections
import json
import sys
from pathlib import Path

import keras
import numpy as np

from keras_selfattn import models, training
from keras_selfattn.models.series import classifier as series_classifier

# Dropout and noise draw other numbers on each backend.
SMALL = {"width": 8, "num_layers": 1, "num_heads": 2, "dropout": 0.0}
NO_DROPOUT = {"head_dropout": 0.0, "embedding_dropout": 0.0, "word_dropout": 0.0}
TEXT = {**SMALL, **NO_DROPOUT, "ngram_buckets": 64}
SERIES = {**SMALL, "max_positions": 16}
STILL = {"dropout": 0.0, "attention_dropout": 0.0, "head_dropout": 0.0, "wide": False}
ROWS = 70
WORDS = np.array(["good", "bad", "a", "film", "the", "fine", "poor", "book"])
# The settings of whole trainings, with dropout and a second path.
TRAINED = {"width": 8, "num_layers": 1, "num_heads": 2, "ngram_buckets": 64}
STEPS = ("train_step", "test_step", "predict_step")


def _lengths():
    """Short and long rows, the first without any token."""
    lengths = [0, *(1 + n % 9 for n in range(59)), *range(40, 50)]
    return np.random.default_rng(1).permutation(lengths)


def texts(count=ROWS):
    random = np.random.default_rng(0)
    lengths = np.resize(_lengths(), count)
    return [" ".join(random.choice(WORDS, length)) for length in lengths]


def labels_of(rows):
    liked = [sum(row.count(word) for word in ("good", "fine")) for row in rows]
    disliked = [sum(row.count(word) for word in ("bad", "poor")) for row in rows]
    return ["+" if more > fewer else "-" for more, fewer in zip(liked, disliked, strict=True)]


def _tagged():
    rows = [text.split() for text in texts()]
    return rows, [["N" if word in ("film", "book") else "O" for word in row] for row in rows]


def _series(features=2):
    random = np.random.default_rng(2)
    return [random.normal(size=(length + 4, features)).astype("float32") for length in _lengths()]


def _numbers(count):
    rows = _series()
    return rows, [row[-count:, 0].astype(float) for row in rows]


def _images():
    images = np.random.default_rng(3).integers(0, 256, (ROWS, 6, 5, 1)).astype("uint8")
    return images, ["dark" if image.mean() < 127 else "light" for image in images]


def _short():
    """Texts that fit in the few positions of a small pretrained model."""
    rows = [" ".join(text.split()[:12]) for text in texts()]
    return rows, labels_of(rows)


def _pairs():
    """Pairs of texts, with scores that no two have."""
    rows, _ = _short()
    return list(zip(rows, rows[1:] + rows[:1], strict=True)), [n / ROWS for n in range(ROWS)]


# The rows and targets of each task, and its model.
def _sounds():
    """Tones of 200 or 1,000 Hz, some hundredths of a second long."""
    tones = [
        np.sin(np.arange(400 * length) * (0.16 if n % 2 else 0.8)) for n, length in enumerate(_lengths())
    ]
    return [(tone, 8000) for tone in tones], ["low" if n % 2 else "high" for n in range(len(tones))]


DATA = {
    "text": lambda: (texts(), labels_of(texts())),
    "wide": lambda: (texts(), [[each] if n % 3 else [] for n, each in enumerate(labels_of(texts()))]),
    "tokens": _tagged,
    "series": lambda: (_series(), ["up" if row[-1, 0] > 0 else "down" for row in _series()]),
    "regression": lambda: _numbers(1),
    "forecast": lambda: _numbers(3),
    "images": _images,
    "audio": _sounds,
    "masked": lambda: (texts(), None),
    "fine-tuned": _short,
    "vectors": _pairs,
    "answers": lambda: ([text[:20] for text in texts()], [text[:12][::-1] for text in texts()]),
}
MODELS = {
    "text": lambda _: models.TextClassifier({**TEXT, "wide": False}),
    "wide": lambda _: models.TextClassifier(TEXT),
    "tokens": lambda _: models.TokenClassifier({**SMALL, "word_dropout": 0.0, "hash_buckets": 64}),
    "series": lambda _: models.SeriesClassifier({**SERIES, "kernels": 20}),
    "regression": lambda _: models.SeriesRegressor(SERIES),
    "forecast": lambda _: models.SeriesForecaster({**SERIES, "season": 2}),
    "images": lambda _: models.ImageClassifier({**SMALL, "augment": False}),
    "audio": lambda _: models.AudioClassifier({**SMALL, "augment": False, "kernels": 20, "channels": 4}),
    "masked": lambda _: models.MaskedTokenModel({**SMALL, **NO_DROPOUT}),
    "fine-tuned": lambda start: models.TextClassifier(STILL, start=start),
    "vectors": lambda start: models.TextEncoder({"dropout": 0.0, "attention_dropout": 0.0}, start=start),
    "answers": lambda _: models.SequenceToSequence({**SMALL, "decoder_layers": 1, "tokens": "characters"}),
}


class Losses(keras.callbacks.Callback):
    """Keeps the loss after each step, the mean since the epoch began."""

    def __init__(self):
        super().__init__()
        self.found = []

    def on_train_batch_end(self, batch, logs=None):
        self.found.append(float(logs["loss"]))


def flat(outputs):
    """Return the outputs of all rows as one array."""
    each = [np.asarray(row, "float32").ravel() for row in outputs]
    return np.concatenate(each) if each else np.zeros(0)


def answers_of(model, rows, targets):
    """Return what a model answers as one array; of one that writes texts, how probable the right ones are."""
    if isinstance(model, models.SequenceToSequence):  # whose search needs TensorFlow
        return flat(model.score_target(rows, targets))
    return flat(model.predict(asked_of(model, rows), verbose=0))


def asked_of(model, rows):
    """Return the rows to predict."""
    return ["a [mask] film", "[mask] [mask]"] if isinstance(model, models.MaskedTokenModel) else rows


def weights_for(model, rows):
    """Return the sample weights of a training: of tokens, of images, or none."""
    if isinstance(model, models.TokenClassifier):
        return [[(place % 4) / 2 for place, _ in enumerate(row)] for row in rows]
    return [n % 3 for n, _ in enumerate(rows)] if isinstance(model, models.ImageClassifier) else None


def observed(model, rows, targets):
    """Return what a model answers, before and after two epochs, their losses, and its figures."""
    answers, losses = answers_of(model, rows, targets), Losses()
    weights = weights_for(model, rows)
    settings = {"batch_size": 16, "epochs": 2, "seed": 3, "callbacks": [losses], "verbose": 0}
    if targets is not None:
        some = None if weights is None else weights[:20]
        settings["validation_data"] = (rows[:20], targets[:20], some)
    model.fit(rows, targets, sample_weight=weights, **settings)
    figures = model.evaluate(rows, targets, sample_weight=weights, verbose=0)
    return {
        "answers": answers.tolist(),
        "losses": losses.found,
        "figures": np.ravel(figures).tolist(),
        "trained": answers_of(model, rows, targets).tolist(),
    }


def whole_training(folder, seed=0):
    """Train a text classifier of two paths as the command does; return the run."""
    rows = texts(300)
    config = training.TrainConfig(epochs=6, batch_size=16, learning_rate=0.02, seed=seed)
    model = models.TextClassifier(models.TextConfig(**TRAINED))
    return training.train((rows, labels_of(rows)), folder, model=model, config=config, verbose=0)


def counted():
    """Return a counter of the steps that Keras traces from now on: once for each compilation."""
    counts = collections.Counter()

    def counting(name):
        step = getattr(keras.Model, name)

        def traced(self, *arguments):
            counts[name] += 1
            return step(self, *arguments)

        return traced

    for name in STEPS:
        setattr(keras.Model, name, counting(name))
    return counts


def main(folder):
    folder, found = Path(folder), {}
    counts = counted()
    series_classifier._NOISE = 0.0
    for name, data in DATA.items():
        rows, targets = data()
        model = models.load(folder / f"{name}.keras")
        counts.clear()
        found[name] = observed(model, rows, targets) | {"compiled": dict(counts)}
        model.save(folder / f"{name}-trained.keras")
    counts.clear()
    run = whole_training(folder / "run")
    found["whole"] = {"compiled": dict(counts), "accuracy": run.figures.summary()["accuracy"]}
    again = whole_training(folder / "again")
    pairs = zip(run.model.get_weights(), again.model.get_weights(), strict=True)
    found["whole"]["repeated"] = all(np.array_equal(ours, theirs) for ours, theirs in pairs)
    (folder / "found.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
