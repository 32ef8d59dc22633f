"""SavedModels for the tests of serving, made of plain TensorFlow: no Keras, and small enough to read.

As a script it serves one: `python serving_models.py BASE_PATH [NAME=VALUE ...]` prints the target and waits.
"""

import os
import shutil
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf


class HalfPlusTwo(tf.Module):
    """y = a x + b, and one signature whose second input has a default."""

    def __init__(self, a=0.5, b=2.0):
        super().__init__()
        self.a = tf.Variable(a)
        self.b = tf.Variable(b)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def serve(self, x):
        return {"y": self.a * x + self.b}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 3], tf.float32, name="left"),
            tf.TensorSpec([3, None], tf.float32, name="right"),
        ]
    )
    def matmul(self, left, right):
        return {"product": tf.matmul(left, right), "left": left}


class RenamedInput(tf.Module):
    """As HalfPlusTwo, but its input is called `number` and is float64."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float64, name="number")])
    def serve(self, number):
        return {"y": 0.5 * number + 10.0}


class Sentiment(tf.Module):
    """A text is positive if it is the word "good"."""

    def __init__(self):
        super().__init__()
        words = tf.lookup.KeyValueTensorInitializer(["good", "bad"], tf.constant([1, 0], tf.int64))
        self.table = tf.lookup.StaticHashTable(words, -1)
        self.labels = tf.constant(["neg", "pos", "wörds"])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serve(self, text):
        index = tf.where(self.table.lookup(text) < 0, tf.constant(2, tf.int64), self.table.lookup(text))
        probabilities = tf.one_hot(index, 3, on_value=0.75, off_value=0.125)
        return {
            "probabilities": probabilities,
            "label": tf.gather(self.labels, index),
            "score": tf.reduce_max(probabilities, axis=-1),
        }

    @tf.function(input_signature=[tf.TensorSpec(None, tf.string, name="text")])
    def echo(self, text):
        return {"text": text, "bytes": tf.strings.length(text)}


class Backwards(tf.Module):
    """Writes a text backwards, 8 characters at most, with 3 candidates: as exports of seq2seq answer."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serve(self, text):
        characters = tf.strings.unicode_decode(text, "UTF-8")
        written = tf.strings.unicode_encode(tf.reverse(characters.to_tensor(), [-1]), "UTF-8")
        written = tf.strings.regex_replace(written, r"^\x00+", "")  # the padding
        first = tf.strings.substr(written, 0, 8, unit="UTF8_CHAR")
        upper = tf.strings.upper(first, encoding="utf-8")
        scores = tf.tile([[-0.25, -0.5, -0.75]], [tf.shape(text)[0], 1])
        return {
            "text": first,
            "score": scores[:, 0],
            "ended": characters.row_lengths() <= 8,
            "candidates": tf.stack([first, upper, first + "?"], axis=1),
            "candidate_scores": scores,
        }


class Slow(tf.Module):
    """Computes for as many seconds as it is told to."""

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32, name="seconds")])
    def serve(self, seconds):
        end = tf.timestamp() + tf.cast(seconds, tf.float64)
        rounds = tf.while_loop(lambda _: tf.timestamp() < end, lambda i: [i + 1], [tf.constant(0)])
        return {"rounds": rounds[0]}


class Types(tf.Module):
    """Gives back what it got, of every type."""

    NAMES = (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "string"),
        *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    )

    def signatures(self):
        return {name: self._echo(tf.as_dtype(name)) for name in self.NAMES}

    def _echo(self, dtype):
        spec = tf.TensorSpec(None, dtype, name="x")
        return tf.function(lambda x: {"y": tf.identity(x)}, input_signature=[spec])


def save_tf1(base, version=123, half=0.5, plus=2.0):
    """Saves y = half x + plus as TensorFlow 1 did, with signatures for all of TensorFlow Serving's calls."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        a, b = v1.get_variable("a", initializer=half), v1.get_variable("b", initializer=plus)
        examples = v1.placeholder(tf.string, [None], name="tf_example")
        features = tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([1], tf.float32)})
        x = tf.identity(features["x"], name="x")
        y = tf.add(tf.multiply(a, x), b, name="y")
        labels = tf.fill(tf.shape(y), "y", name="labels")
        session.run(v1.global_variables_initializer())
        info, signature = v1.saved_model.build_tensor_info, v1.saved_model.build_signature_def
        inputs = {"inputs": info(examples)}
        predict, classify, regress = (
            f"tensorflow/serving/{each}" for each in ("predict", "classify", "regress")
        )
        signatures = {
            "serving_default": signature({"x": info(x)}, {"y": info(y)}, predict),
            "classify_x_to_y": signature(inputs, {"scores": info(y)}, classify),
            "classify_with_labels": signature(inputs, {"scores": info(y), "classes": info(labels)}, classify),
            "classify_labels": signature(inputs, {"classes": info(labels)}, classify),
            "regress_x_to_y": signature(inputs, {"outputs": info(y)}, regress),
            "regress_labels": signature(inputs, {"outputs": info(labels)}, regress),
            "two_inputs": signature({"inputs": info(examples), "x": info(x)}, {"scores": info(y)}, classify),
            "renamed": signature({"examples": info(examples)}, {"values": info(y)}, classify),
            "values": signature(inputs, {"values": info(y)}, classify),
            "other_input": signature({"inputs": info(x)}, {"outputs": info(y)}, regress),
        }
        path = Path(base) / str(version)
        builder = v1.saved_model.Builder(str(path))
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()
    return path


def save(module, base, version=1, **signatures):
    """Saves `module` as a version of the model in `base`, under another name first as one should."""
    if isinstance(module, Types):
        signatures = {"serving_default": module.signatures()["float32"], **module.signatures()}
        for index, function in enumerate(signatures.values()):
            setattr(module, f"function_{index}", function)
    staging = Path(base) / f"tmp-{version}"
    tf.saved_model.save(module, str(staging), signatures=signatures or {"serving_default": module.serve})
    final = Path(base) / str(version)
    shutil.rmtree(final, ignore_errors=True)
    staging.rename(final)
    return final


def main():
    from keras_selfattn.serving.server import ServerConfig, serve_forever

    settings = dict(setting.split("=") for setting in sys.argv[2:])
    config = ServerConfig("default", sys.argv[1], port=0, **{name: float(v) for name, v in settings.items()})
    sys.exit(serve_forever(config, lambda server: print(server.target, flush=True)))


if __name__ == "__main__":
    main()
