"""The model of `bench serving`: a text classifier, exported like a user's; and the same without a server."""

import json
import shutil
from pathlib import Path
from typing import Any

from benchmarks.prepared import Prepared

NAME = "text"
TOKENS = 64
EXPECTED = "expected.json"  # probabilities of the first text
KERAS_FILE = "model.keras"
_WORDS = 2000
_TEXTS = 64


def texts() -> list[str]:
    """Return texts of 64 tokens each, no two alike."""
    return [
        " ".join(f"word{(number * 31 + place * 7) % _WORDS}" for place in range(TOKENS))
        for number in range(_TEXTS)
    ]


def export_base(folder: str | Path) -> Path:
    """Return the folder of the model's versions in the benchmark's folder."""
    return Path(folder) / NAME


def write(case: dict[str, Any]) -> Prepared:
    """Write the model into `folder`, as a SavedModel and as a Keras file, with the expected answer."""
    from keras_selfattn.export import export_saved_model
    from keras_selfattn.models import TextClassifier, TextConfig

    folder = Path(case["folder"])
    config = TextConfig(width=32, num_layers=1) if case["quick"] else TextConfig(width=128, num_layers=2)
    vocabulary = [f"word{number}" for number in range(_WORDS)]
    model = TextClassifier(config, vocabulary=vocabulary, labels=["a", "b", "c"])
    (tokens,) = model.tokenizer.rows(texts()[:1])
    if len(tokens) != TOKENS:
        raise RuntimeError(f"a text has {len(tokens)} tokens instead of {TOKENS}")
    export_saved_model(model, export_base(folder))
    if case["sleep"]:
        _replace_by_a_sleeper(export_base(folder) / "1", case["sleep"])
    model.save(folder / KERAS_FILE)
    expected = model.predict(texts()[:1], verbose=0)[0]
    (folder / EXPECTED).write_text(json.dumps(expected.tolist()), encoding="utf-8")
    return Prepared(run=lambda: None, warm=lambda: None)


def _replace_by_a_sleeper(version: Path, seconds: float) -> None:
    """Replace a SavedModel by one that sleeps before it computes, as one does that waits for a device."""
    import tensorflow as tf

    loaded: Any = tf.saved_model.load(str(version))
    signature = loaded.signatures["serving_default"]
    spec, like = [tf.string], [[None]]
    # The row is read, and then the end is looked for: it sleeps twice.
    microseconds = tf.constant(round(seconds * 1e6 / 2), tf.int64)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serve(text: Any) -> Any:
        rows: Any = tf.data.Dataset.from_tensors(text)
        variant = tf.raw_ops.SleepDataset(
            input_dataset=rows._variant_tensor,
            sleep_microseconds=microseconds,
            output_types=spec,
            output_shapes=like,
        )
        (late,) = tf.raw_ops.DatasetToSingleElement(dataset=variant, output_types=spec, output_shapes=like)
        return signature(text=late)

    loaded.serve = serve
    shutil.rmtree(version)
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(loaded, str(version), signatures=serve, options=options)


def in_process(case: dict[str, Any]) -> Prepared:
    """The SavedModel in `folder`, called with `batch` texts at a time."""
    import tensorflow as tf

    loaded: Any = tf.saved_model.load(str(export_base(case["folder"]) / "1"))
    signature = loaded.signatures["serving_default"]
    batch = tf.constant(texts()[: case["batch"]])
    return Prepared(
        run=lambda: [output.numpy() for output in signature(text=batch).values()],
        warm=lambda: signature(text=batch[:1]),
    )
