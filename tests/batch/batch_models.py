"""A small model of texts that fails for some, and the processes that answer with it."""

import subprocess
import sys


def save(folder, limit):
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def answer(text):
        length = tf.strings.length(text, unit="UTF8_CHAR")
        fails = tf.debugging.assert_none_equal(text, "FAIL", message="a text is FAIL")
        with tf.control_dependencies([fails]):
            label = tf.where(length > limit, "long", "short")
        numbers = tf.cast(length, tf.float32)
        return {"label": label, "score": numbers / 10, "halves": tf.stack([numbers / 2, -numbers], axis=1)}

    module = tf.Module()
    tf.saved_model.save(module, str(folder), {"serving_default": answer})
    return folder.parent


def command(model, source, output, *options):
    """The same as the words of a process."""
    program = "from keras_selfattn.cli.entry import main; main()"
    words = ["predict", str(model), "--file", str(source), "--output", str(output), *map(str, options)]
    return [sys.executable, "-c", program, *words]


def ran(*words, **settings):
    return subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, **settings)


def save_tokens(folder):
    """A labeller: the label of a token is itself in capitals."""
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.string, name="tokens")])
    def answer(tokens):
        return {"label": tf.strings.upper(tokens), "score": tf.cast(tf.strings.length(tokens), tf.float32)}

    tf.saved_model.save(tf.Module(), str(folder), {"serving_default": answer})
    return folder.parent


def save_spans(folder):
    """A labeller of tokens and of raw texts, whose spans are words in capitals: NAME, or no text if long."""
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.string, name="tokens")])
    def of_tokens(tokens):
        return {"label": tf.strings.upper(tokens), "score": tf.cast(tf.strings.length(tokens), tf.float32)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def of_texts(text):
        codes = tf.strings.unicode_decode(text, "UTF-8").to_tensor()  # [rows, characters]
        inside = (codes >= ord("A")) & (codes <= ord("Z"))
        beside = tf.pad(inside, [[0, 0], [1, 1]])
        places = tf.zeros_like(codes) + tf.range(tf.shape(codes)[1])
        start = tf.ragged.boolean_mask(places, inside & ~beside[:, :-2])
        end = tf.ragged.boolean_mask(places + 1, inside & ~beside[:, 2:])
        name = tf.where((end - start).to_tensor() > 9, b"\xff", "NAME")
        # What stands behind the last span of a row means nothing.
        outputs = {"start": start.to_tensor(7), "end": end.to_tensor(9), "label": name}
        return outputs | {"score": tf.ones(tf.shape(name)), "count": start.row_lengths()}

    signatures = {"serving_default": of_tokens, "spans": of_texts}
    tf.saved_model.save(tf.Module(), str(folder), signatures)
    return folder.parent


def damaged(path):
    """A Parquet file of 30,000 rows with a page in the middle that holds other bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"text": [f"{n:07}" for n in range(30_000)]})
    pq.write_table(table, path, row_group_size=5000, use_dictionary=False)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 2000] = b"\xff" * 2000
    path.write_bytes(content)
    return path
