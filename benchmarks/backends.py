"""`benchmarks backends`: the same training on each backend of Keras, in processes that take turns."""

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from benchmarks.process import CHECKOUT
from benchmarks.results import Result, Table
from benchmarks.rounds import Settings

_BACKENDS = {"TensorFlow": "tensorflow", "JAX": "jax", "PyTorch": "torch"}
_EPOCHS = 4
_STEPS = ("train_step", "test_step")
_WORDS = 128
_NOTES = [
    f"{_EPOCHS} epochs and validation, with the default settings of the model and batches of 32 rows.",
    "`large` is a text model of 4 layers and width 256 on 128 words a row, in batches of 64.",
    "Each backend computes where it finds a GPU that it can use, else on the CPU; the notes name the device.",
    "`first epoch s` is with the compilation or tracing of the steps; `epoch s` is the median of the others.",
    "`compiled` counts the compiled steps of training and validation: one for each shape of a batch.",
]


def run(settings: Settings, *, large: bool = False) -> Table:
    """Return seconds and accuracy of each backend on a task of texts and one of series.

    Args:
        settings: the settings of the measurement.
        large: True to train a larger model as well, which takes minutes on a CPU.
    """
    results = []
    for row in _TASKS:
        if row == _LARGE and not large:
            continue
        found: dict[str, list[dict[str, float]]] = {}
        skipped: dict[str, str] = {}
        devices: dict[str, str] = {}
        for turn in range(1 if settings.quick else settings.rounds):
            for name, backend in _BACKENDS.items():
                if not settings.chosen(row, name) or name in skipped:
                    continue
                settings.progress(f"{row}, round {turn + 1}: {name}")
                answer = _in_process(backend, row, settings)
                if isinstance(answer, str):
                    skipped[name] = answer
                else:
                    found.setdefault(name, []).append(answer["figures"])
                    devices[name] = f"on {answer['device']}"
        results += [Result(row, name, skipped=why) for name, why in skipped.items()]
        results += [
            Result(row, name, _medians(each), devices[name])
            for name, each in found.items()
            if name not in skipped
        ]
    return Table(results, _NOTES)


def _medians(found: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(each[name] for each in found) for name in found[0]}


def _in_process(backend: str, row: str, settings: Settings) -> dict[str, Any] | str:
    """Return the figures and the device of one training, or why there are none."""
    if importlib.util.find_spec(backend) is None:
        return f"{backend} is not installed"
    words = [sys.executable, "-m", "benchmarks.backends", row, *(["quick"] if settings.quick else [])]
    env = {**os.environ, **CHECKOUT, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        done = subprocess.run(
            words, env=env, capture_output=True, text=True, timeout=settings.deadline, check=False
        )
    except subprocess.TimeoutExpired:
        return f"took over {settings.deadline:.0f} s"
    if done.returncode:
        return done.stderr.strip().splitlines()[-1][:300]
    return json.loads(done.stdout.splitlines()[-1])


def _texts(count: int) -> tuple[Any, list[Any], list[Any]]:
    import numpy as np

    from keras_selfattn.data.quickstart.languages import language_rows
    from keras_selfattn.models import TextClassifier

    rows = language_rows(["de", "en", "fr", "it"], 0).train
    rows = rows.take(np.random.default_rng(0).permutation(len(rows))[:count].tolist())
    return TextClassifier({"wide": False}), list(rows.inputs), list(rows.targets)


def _series(count: int) -> tuple[Any, list[Any], list[Any]]:
    import numpy as np

    from keras_selfattn.models import SeriesClassifier

    random = np.random.default_rng(0)
    rows, targets = [], []
    for place in range(count):
        length = int(random.integers(40, 160))
        wave = np.sin(np.arange(length) * (0.3 + 0.1 * (place % 3)) + random.uniform(0, 6))
        rows.append((wave + random.normal(size=length))[:, None].astype("float32"))
        targets.append(f"wave {place % 3}")
    return SeriesClassifier({"kernels": 0}), rows, targets


def _long_texts(count: int) -> tuple[Any, list[Any], list[Any]]:
    import numpy as np

    from keras_selfattn.models import TextClassifier

    random = np.random.default_rng(0)
    targets = random.integers(0, 4, count)
    rows = []
    for target in targets:
        words = random.integers(0, 4000, _WORDS)  # a third comes from the hundred words of the class
        chosen = random.random(_WORDS) < 0.3
        words[chosen] = 100 * target + words[chosen] % 100
        rows.append(" ".join(f"w{word}" for word in words))
    model = TextClassifier({"wide": False, "width": 256, "num_layers": 4, "num_heads": 8})
    return model, rows, [f"class {target}" for target in targets]


_LARGE = "large: texts of 128 words"
_TASKS: dict[str, Callable[[int], tuple[Any, list[Any], list[Any]]]] = {
    "texts in four languages": _texts,
    "series of 40 to 160 frames": _series,
    _LARGE: _long_texts,
}


def trained(row: str, count: int) -> dict[str, Any]:
    """Train on this process's backend; return the `figures` and the name of the `device`."""
    import keras

    counts: Counter[str] = Counter()

    def counting(name: str) -> Callable[..., Any]:
        step = getattr(keras.Model, name)

        def counted(self: Any, *arguments: Any) -> Any:
            counts[name] += 1
            return step(self, *arguments)

        return counted

    for name in _STEPS:
        setattr(keras.Model, name, counting(name))
    model, rows, targets = _TASKS[row](count)
    keras.utils.set_random_seed(0)
    model.compile()
    seconds = [time.perf_counter()]
    watch = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: seconds.append(time.perf_counter()))
    size = 64 if row == _LARGE else 32
    settings: dict[str, Any] = {"epochs": _EPOCHS, "validation_split": 0.2, "seed": 0, "verbose": 0}
    history = model.fit(rows, targets, size, callbacks=[watch], **settings).history
    epochs = [after - before for before, after in pairwise(seconds)]
    figures = {"first epoch s": epochs[0], "epoch s": statistics.median(epochs[1:])}
    figures |= {"accuracy": history["val_accuracy"][-1], "loss": history["val_loss"][-1]}
    # TensorFlow traces a step once for all shapes, and PyTorch runs it without.
    compiled = {"compiled": sum(counts.values())} if keras.backend.backend() == "jax" else {}
    return {"figures": figures | compiled, "device": _device(keras.backend.backend())}


def _device(backend: str) -> str:
    """Return the name of the device on which Keras' backend computes."""
    if backend == "jax":
        import jax  # pyright: ignore[reportMissingImports]

        name = jax.devices()[0].device_kind
    elif backend == "torch":
        import torch  # pyright: ignore[reportMissingImports]

        name = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    else:
        import tensorflow as tf

        found = tf.config.list_physical_devices("GPU")
        name = (
            tf.config.experimental.get_device_details(found[0]).get("device_name", "GPU") if found else "cpu"
        )
    return "the CPU" if name == "cpu" else name


if __name__ == "__main__":
    print(json.dumps(trained(sys.argv[1], 200 if len(sys.argv) > 2 else 4000)))
