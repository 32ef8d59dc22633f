"""Series end to end: shapes are told apart and served, and a wave with a trend is forecast.

    python examples/series.py [--output series-example] [--epochs 12]

The data are made here: bumps, ramps and steps, each stretched in time, noisy, of 20 to 60 frames and with
gaps; and a wave of 12 frames that rises. Prints how good both models are on series they have not seen, beside
who repeats what was, and what a server answers about some of them.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_selfattn.data import LabelledRows, cut_windows
from keras_selfattn.export import export_saved_model
from keras_selfattn.models import SeriesClassifier, SeriesForecaster
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.training import TrainConfig, evaluate, train

SHAPES = {
    "bump": lambda t: np.exp(-((t - 0.5) ** 2) / 0.02),
    "ramp": lambda t: t,
    "step": lambda t: (t > 0.5).astype(float),
}
SEASON, CONTEXT, HORIZON = 12, 36, 12


def shapes(rows: int, seed: int) -> LabelledRows:
    """Return series `[length, 1]` of different lengths, each with the name of its shape."""
    random = np.random.default_rng(seed)
    names = random.choice(list(SHAPES), rows)
    return LabelledRows([_shape(name, random) for name in names], names.tolist(), "made up")


def wave(frames: int, seed: int) -> np.ndarray:
    """Return a series `[frames, 1]` that repeats itself every 12 frames and rises."""
    random = np.random.default_rng(seed)
    time = np.arange(frames)
    return (np.sin(2 * np.pi * time / SEASON) + 0.03 * time + 0.1 * random.normal(size=frames))[:, None]


def classify(output: Path, epochs: int) -> None:
    """Train on shapes, and ask a server about shapes that were not seen."""
    config = {"width": 32, "num_layers": 1}
    run = train(
        shapes(240, seed=0),
        output / "shapes",
        model=SeriesClassifier(config),
        config=TrainConfig(epochs=epochs, batch_size=16, learning_rate=3e-3, patience=epochs),
        overwrite=True,
        verbose=0,
    )
    unseen = shapes(200, seed=1)
    print(
        f"Shapes: {evaluate(run.model, unseen).summary()['accuracy']:.1%} of {len(unseen)} unseen ones right."
    )
    export_saved_model(run.model, output / "models" / "shapes")
    with (
        Server(ServerConfig("shapes", str(output / "models" / "shapes"), port=0)) as server,
        Client(server.target, model="shapes", timeout=60) as client,
    ):
        client.wait_until_ready(60)
        answers = client.predict({"values": padded(unseen.inputs[:3])})
    for true, label, score in zip(unseen.targets, answers["label"], answers["score"], strict=False):
        print(f"  a {true} is served as {label}, with probability {score:.2f}")


def padded(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Return series as the served model takes them: padded to the longest with frames of NaN."""
    longest = max(map(len, rows))
    return np.stack([np.pad(row, [(0, longest - len(row)), (0, 0)], constant_values=np.nan) for row in rows])


def forecast(output: Path, epochs: int) -> None:
    """Train on the first part of a wave, and forecast the next part, on levels that were never seen."""
    series = wave(400, seed=2)
    run = train(
        cut_windows([series[:300]], CONTEXT, HORIZON),
        output / "wave",
        model=SeriesForecaster({"width": 32, "num_layers": 1, "season": SEASON}),
        config=TrainConfig(epochs=epochs, learning_rate=2e-3, patience=epochs),
        overwrite=True,
        verbose=0,
    )
    errors = evaluate(run.model, cut_windows([series[300:]], CONTEXT, HORIZON)).summary()
    print(f"Wave: the next {HORIZON} values are off by {errors['mean_absolute_error']:.3f} on average;")
    others = {"last_value": "the last value", f"{SEASON}_frames_before": f"{SEASON} frames before"}
    for name, shown in {**others, "ridge": "the ridge regression alone"}.items():
        print(f"  those of {shown} by {errors[f'mean_absolute_error_of_{name}']:.3f}.")


def main() -> None:
    """Run both parts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, help="folder for runs and models; by default a temporary one")
    parser.add_argument("--epochs", type=int, default=12, help="passes over the rows")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        output = arguments.output or Path(temporary)
        classify(output, arguments.epochs)
        forecast(output, arguments.epochs)


def _shape(name: str, random: np.random.Generator) -> np.ndarray:
    length = int(random.integers(20, 61))
    time = np.linspace(0, 1, length) ** random.uniform(0.6, 1.6)
    values = SHAPES[name](time) + 0.15 * random.normal(size=length)
    values[random.random(length) < 0.05] = np.nan
    return values[:, None].astype(np.float32)


if __name__ == "__main__":
    main()
