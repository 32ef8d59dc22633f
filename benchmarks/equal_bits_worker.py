"""A process of `python -m benchmarks equal-bits`: it writes the graphs, or runs them and compares bits."""

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
_ROUND = 20  # runs of a piece before the next has its turn
_SETTLING = 5  # runs; what most of them give is right
_ROWS, _WIDE = 96, 384


def prepare(folder: str) -> None:
    """Train a small classifier of text; write it whole and in pieces, and a plain Keras model beside it."""
    import keras
    import tensorflow as tf

    from keras_selfattn.data.quickstart.languages import language_rows
    from keras_selfattn.models import TextClassifier, TextConfig
    from keras_selfattn.models.text.ngrams import ngram_ids

    rows = language_rows(seed=0).train
    texts, labels = list(rows.inputs[:4000]), list(rows.targets[:4000])
    keras.utils.set_random_seed(0)
    ours = TextClassifier(TextConfig(width=96, num_layers=2, num_heads=4, max_ngram=3))
    ours.compile()
    ours.fit(texts, labels, epochs=1, batch_size=128, verbose=0)
    np.save(Path(folder, "texts.npy"), np.array([text.encode() for text in texts[:_ROWS]]))

    inputs = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(256, 96)(inputs)
    x = keras.layers.LayerNormalization()(x + keras.layers.MultiHeadAttention(4, 24)(x, x))
    x = keras.layers.Dense(96, "relu")(keras.layers.Dense(384, "relu")(x))
    plain = keras.Model(inputs, keras.layers.Dense(30, "softmax")(keras.layers.GlobalAveragePooling1D()(x)))
    kernel = tf.Variable(tf.random.stateless_normal([_WIDE, 4 * _WIDE], (1, 2)))
    bias = tf.Variable(tf.random.stateless_normal([4 * _WIDE], (3, 4)))

    def ids(texts: Any) -> Any:
        return ours.tokenizer.padded(texts)

    def product(texts: Any) -> Any:
        # As many rows as tokens, so that it is made of the texts as all others are.
        x = tf.cast(tf.strings.to_hash_bucket_fast(tf.strings.bytes_split(texts).values, 1000), tf.float32)
        return tf.nn.relu(tf.matmul(tf.sin(x[:, None] * tf.range(float(_WIDE))), kernel) + bias)

    assert ours.wide is not None
    wide = ours.wide
    pieces = {
        "whole": ours.call,
        "n-grams and wide path": lambda texts: wide(ngram_ids(ours._words.ngrams, texts)),
        "core": lambda texts: ours.core(ours.beside_wide(ids(texts))),
        "plain Keras": lambda texts: plain(tf.minimum(ids(texts), 255)),
        "one product": product,
    }
    module: Any = tf.Module()
    module.kept = [ours, ours.tokenizer.table, plain, kernel, bias]
    spec = tf.TensorSpec([None], tf.string, name="texts")
    functions = {name: tf.function(_named(call), input_signature=[spec]) for name, call in pieces.items()}
    module.functions = list(functions.values())
    signatures: Any = {
        name.replace(" ", "_"): each.get_concrete_function() for name, each in functions.items()
    }
    tf.saved_model.save(module, str(Path(folder, "model")), signatures=signatures)


def _named(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda texts: {"found": call(texts)}


def watch(folder: str, runs: str, intra: str, inter: str, threads: str) -> None:
    """Run each piece so often in each thread, in turns; print each run that is off, and how many ran."""
    texts = np.load(Path(folder, "texts.npy")).astype(object)
    # The variables of a loaded model live as long as it does.
    model, pieces = _of_tensorflow(folder, texts, int(intra), int(inter))
    pieces["the product by NumPy"] = _of_numpy()
    compare(pieces, int(runs), int(threads), lambda line: print(json.dumps(line), flush=True))
    del model


def compare(
    pieces: dict[str, Callable[[], np.ndarray]], runs: int, threads: int, tell: Callable[[dict], object]
) -> None:
    """Run each piece so often in each thread, in turns; tell each run that is off, and the number of runs."""
    right = {name: _settled(call) for name, call in pieces.items()}
    done = Counter[str]()
    lock = threading.Lock()

    def compared() -> None:
        for _ in range(0, runs, _ROUND):
            for name, call in pieces.items():
                for _ in range(_ROUND):
                    found = call()
                    if not np.array_equal(found, right[name]):
                        with lock:
                            tell({"piece": name, **_apart(found, right[name])})
                with lock:
                    done[name] += _ROUND

    with ThreadPoolExecutor(threads) as pool:
        for each in [pool.submit(compared) for _ in range(threads)]:
            each.result()
    for name, count in done.items():
        tell({"piece": name, "runs": count})


def _of_tensorflow(
    folder: str, texts: np.ndarray, intra: int, inter: int
) -> tuple[Any, dict[str, Callable[[], np.ndarray]]]:
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(intra)
    tf.config.threading.set_inter_op_parallelism_threads(inter)
    loaded = tf.saved_model.load(str(Path(folder, "model")))
    fed = tf.constant(texts)

    def asked(signature: Any) -> Callable[[], np.ndarray]:
        def call() -> np.ndarray:
            return signature(texts=fed)["found"].numpy()

        return call

    return loaded, {name.replace("_", " "): asked(each) for name, each in loaded.signatures.items()}


def _of_numpy() -> Callable[[], np.ndarray]:
    generator = np.random.default_rng(0)
    first = generator.standard_normal((1500, _WIDE), np.float32)
    other = generator.standard_normal((_WIDE, 4 * _WIDE), np.float32)
    return lambda: first @ other


def _settled(call: Callable[[], np.ndarray]) -> np.ndarray:
    found = [call() for _ in range(_SETTLING)]
    (bits, count), *_ = Counter(each.tobytes() for each in found).most_common()
    if count == 1:
        raise RuntimeError("no two of the first runs gave the same bits")
    return next(each for each in found if each.tobytes() == bits)


def _apart(found: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    moment = time.strftime("%H:%M:%S")
    if found.shape != right.shape:
        return {"off": float("inf"), "rows": 1.0, "at": moment}
    apart = np.abs(found.astype("float64") - right) / np.maximum(1, np.abs(right))
    rows = np.any(apart.reshape(len(apart), -1) > 0, axis=1)
    return {"off": float(np.nanmax(apart)), "rows": float(rows.mean()), "at": moment}


if __name__ == "__main__":
    {"prepare": prepare, "watch": watch}[sys.argv[1]](*sys.argv[2:])
