"""Handwritten digits: trained, measured beside two classical models, exported, served and asked.

    python examples/digits.py [--epochs N] [--seed 0]

The 1,797 digits of 8 x 8 pixels are scikit-learn's own; a fifth of them is for the test. It takes about a
minute on two cores.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from keras_selfattn import training
from keras_selfattn.data import LabelledRows
from keras_selfattn.export import export_saved_model
from keras_selfattn.models import ImageClassifier, ImageConfig
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig

SHADES = " .:-=+*#%@"
SHOWN = 5


def digits() -> tuple[LabelledRows, LabelledRows]:
    """Return training and test rows: images `[8, 8]` of 0 to 16, and their names."""
    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8).astype("float32")
    parts: Any = train_test_split(images, labels.astype(str), test_size=0.2, stratify=labels, random_state=0)
    train, test, train_labels, test_labels = parts
    return (
        LabelledRows(train, train_labels.tolist(), "digits, training"),
        LabelledRows(test, test_labels.tolist(), "digits, test"),
    )


def classical(train: LabelledRows, test: LabelledRows) -> dict[str, float]:
    """Return the test accuracy of two models that take the pixels as 64 numbers."""
    models = {
        "support vectors": SVC(),
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    }
    flat, flat_test = (np.reshape(rows.inputs, (len(rows), -1)) for rows in (train, test))
    return {
        name: float(model.fit(flat, train.targets).score(flat_test, test.targets))
        for name, model in models.items()
    }


def picture(image: np.ndarray) -> list[str]:
    """Return an image of 0 to 16 as lines of text."""
    shades = (image * (len(SHADES) - 1) / 16).astype(int)
    return ["".join(2 * SHADES[shade] for shade in row) for row in shades]


def shown(images: np.ndarray, answers: list[str]) -> str:
    """Return images side by side, with the answers below."""
    lines = [" ".join(parts) for parts in zip(*map(picture, images), strict=True)]
    return "\n".join([*lines, " ".join(answer.center(16) for answer in answers)])


def main() -> None:
    """Run all steps, and print their results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--epochs", type=int, help="by default as the model advises")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    train, test = digits()
    model = ImageClassifier(ImageConfig(width=64, feed_forward_dim=128))
    asked = {"seed": options.seed} | ({} if options.epochs is None else {"epochs": options.epochs})
    config = training.TrainConfig(**{**model.advised_training(len(train)), **asked})
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        run = training.train(train, Path(folder, "run"), model=model, config=config, test=test, verbose=0)
        seconds = time.perf_counter() - started
        accuracy = run.figures.summary()["accuracy"]
        print(f"Of {len(test)} test digits {accuracy:.2%} are right; training took {seconds:.0f} s.")
        for name, other in classical(train, test).items():
            print(f"  {name}: {other:.2%}")
        export_saved_model(model, Path(folder, "models"))
        with (
            Server(ServerConfig("digits", str(Path(folder, "models")), port=0)) as server,
            Client(server.target, model="digits") as client,
        ):
            client.wait_until_ready(60)
            images = np.stack(test.inputs[:SHOWN])
            answers = client.predict({"image": images[..., None]})
    print("The server's answers:")
    named = zip(answers["label"], answers["score"], strict=True)
    print(shown(images, [f"{label} ({score:.0%})" for label, score in named]))


if __name__ == "__main__":
    main()
