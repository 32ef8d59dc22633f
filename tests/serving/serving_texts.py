"""Models of texts on the stock stubs: "long" above three letters, and one that writes them backwards."""

import numpy as np
import tensorflow as tf
from stock_serving import StockServing, StockSignature

TEXT = {"text": (tf.string, (None,))}
OUTPUTS = {"label": (tf.string, (None,)), "score": (tf.float32, (None,)), "length": (tf.int64, (None,))}


def sentiment(arrays):
    """ "long" above three letters; how sure it is depends on nothing."""
    lengths = np.array([len(text.decode()) for text in arrays["text"]])
    labels = np.where(lengths > 3, b"long", b"short").astype(object)
    return {"label": labels, "score": np.full(len(lengths), 0.7, np.float32), "length": lengths}


def stock_texts():
    """Version 3 of the model, to be served by `stock_server`."""
    return StockServing({"serving_default": StockSignature(TEXT, sentiment, OUTPUTS)}, version=3)


WRITTEN = {
    "text": (tf.string, (None,)),
    "score": (tf.float32, (None,)),
    "ended": (tf.bool, (None,)),
    "candidates": (tf.string, (None, 3)),
    "candidate_scores": (tf.float32, (None, 3)),
}


def reversed_texts(arrays):
    """At most 8 characters, with 3 candidates: as `serving_models.Backwards`."""
    texts = [text.decode()[::-1] for text in arrays["text"]]
    first = [text[:8] for text in texts]
    rows = [[text.encode(), text.upper().encode(), text.encode() + b"?"] for text in first]
    scores = np.tile(np.float32([-0.25, -0.5, -0.75]), (len(texts), 1))
    return {
        "text": np.array([text.encode() for text in first], object),
        "score": scores[:, 0],
        "ended": np.array([len(text) <= 8 for text in texts], bool),
        "candidates": np.array(rows, object).reshape(-1, 3),
        "candidate_scores": scores,
    }


def backwards():
    """The signatures of the model that writes texts backwards."""
    return {"serving_default": StockSignature(TEXT, reversed_texts, WRITTEN)}
