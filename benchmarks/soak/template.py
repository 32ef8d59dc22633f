"""The model that a soak serves: it answers with its own version, which it reads from a file.

    python -m benchmarks.soak.template FOLDER

writes the model once, which needs TensorFlow and takes seconds. `versions` then copies it and writes another
number into that file to make a version, which needs neither.
"""

import sys
from pathlib import Path
from typing import Any

NAME = "soak"
VERSION_FILE = Path("assets") / "version.txt"
# Weights of every version, so that a version that is not freed shows in the server's memory.
_WEIGHTS = 2**18  # float32, 1 MB


def version_text(version: int) -> str:
    """Return the content of a version's file."""
    return f"{version}\n"


def write(folder: Path) -> None:
    """Write the model, as version 0, into a folder that is not there yet."""
    import tensorflow as tf

    class Answering(tf.Module):
        """y = x + version; the weights are read, and add nothing."""

        def __init__(self, file: Path):
            super().__init__()
            self.weights = tf.Variable(tf.zeros([_WEIGHTS]))
            # A file without its one line does not load: a version that is half there must not answer.
            line = tf.lookup.TextFileInitializer(
                str(file), tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER, tf.int64, 0, vocab_size=1
            )
            self.version = tf.lookup.StaticHashTable(line, default_value=-1)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float64, name="x")])
        def serve(self, x: Any) -> dict[str, Any]:
            version = self.version.lookup(tf.zeros(tf.shape(x), tf.int64))
            zero = tf.cast(tf.gather(self.weights, 0), tf.float64)
            return {"y": x + tf.cast(version, tf.float64) + zero, "version": version}

    file = folder.with_name(VERSION_FILE.name)
    file.write_text(version_text(0), encoding="utf-8")
    module = Answering(file)
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.serve})
    extra = folder / "assets.extra"
    extra.mkdir()
    _write_warmup(extra / "tf_serving_warmup_requests")
    # With a card of any content, the server treats rows as independent, and batches them.
    (extra / "model_card.json").write_text("{}", encoding="utf-8")


def _write_warmup(file: Path) -> None:
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_log_pb2

    stock: Any = prediction_log_pb2  # its messages are made at import
    log = stock.PredictionLog()
    request = log.predict_log.request
    request.model_spec.name = NAME
    request.inputs["x"].CopyFrom(tf.make_tensor_proto([1.0], tf.float64))
    with tf.io.TFRecordWriter(str(file)) as writer:
        writer.write(log.SerializeToString())


if __name__ == "__main__":
    write(Path(sys.argv[1]))
