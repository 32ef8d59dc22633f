"""Rows of two texts are the inputs `text` and `text_pair`, and documents are ranked by their score."""

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from stock_serving import StockServing, StockSignature

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import Client, FunctionTransport, Ranked, Signature, TensorSpec

NAMES = ("text", "text_pair")
STRINGS = dict.fromkeys(NAMES, (tf.string, (None,)))
CLASSES = ["other", "same"]
PAIRS = [("a", "a"), ("a", "b"), ("c", "c")]


def alike(arrays):
    """A classifier that is sure of equal texts."""
    same = np.float32(arrays["text"] == arrays["text_pair"]) * 0.5 + 0.25
    probabilities = np.stack([1 - same, same], -1)
    return {
        "probabilities": probabilities,
        "label": np.array([CLASSES[place] for place in probabilities.argmax(-1)], object),
        "score": probabilities.max(-1),
    }


def classifier():
    def classify(arrays):
        return {"classes": np.tile(np.array(CLASSES, object), (len(arrays["inputs"]), 1))}

    outputs = {
        "probabilities": (tf.float32, (None, 2)),
        "label": (tf.string, (None,)),
        "score": (tf.float32, (None,)),
    }
    classes = {"classes": (tf.string, (None, None))}
    examples = {"inputs": (tf.string, (None,))}
    return StockServing(
        {
            "serving_default": StockSignature(STRINGS, alike, outputs),
            "explain": StockSignature(STRINGS, weights, WEIGHTS),
            "classify": StockSignature(examples, classify, classes),
        }
    )


WEIGHTS = {"tokens": (tf.string, (None, None)), "weights": (tf.float32, (None, 1, 1, None, None))}


def weights(arrays):
    tokens = np.stack([arrays[name] for name in NAMES], -1)
    return {"tokens": tokens, "weights": np.full((len(tokens), 1, 1, 2, 2), 0.5, np.float32)}


@pytest.mark.parametrize(
    "rows",
    [PAIRS, list(map(list, PAIRS)), np.array(PAIRS), dict(zip(NAMES, zip(*PAIRS, strict=True), strict=True))],
    ids=["tuples", "lists", "array", "columns"],
)
def test_pairs_are_classified_in_any_container(stock_server, connect, rows):
    serving = classifier()
    client = connect(stock_server(serving))
    assert [answer.label for answer in client.classify(rows)] == ["same", "other", "same"]
    sent = serving.received("Predict")[0]
    assert [tf.make_ndarray(sent.inputs[name]).tolist() for name in NAMES] == [
        [b"a", b"a", b"c"],
        [b"a", b"b", b"c"],
    ]


def test_pairs_are_explained_and_streamed(stock_server, connect):
    client = connect(stock_server(classifier()))
    assert [found.tokens for found in client.explain(PAIRS[:2])] == [["a", "a"], ["a", "b"]]
    assert [found["label"] for found in client.predict_iter(PAIRS, batch_size=2)] == ["same", "other", "same"]


def single():
    text = {"text": (tf.string, (None,))}
    return StockServing({"serving_default": StockSignature(text, lambda arrays: arrays, text)})


@pytest.mark.parametrize(
    ("serving", "rows", "message"),
    [
        (classifier, ["ab", "cd"], "takes pairs of texts: pass a list of (text, text_pair), or a mapping"),
        (classifier, [("a", "b"), ("a", "b", "c")], "Row 1 is ('a', 'b', 'c')"),
        (classifier, [("a", None)], "Row 0 is ('a', None)"),
        (classifier, ("a", "b"), "Row 0 is 'a'"),
        (
            classifier,
            {"text": ["a"]},
            "also wants 'text_pair'. It is (text: string [None], text_pair: string",
        ),
        (single, PAIRS, "takes one text a row, 'text'. Row 0 is a pair of texts, ('a', 'a'): ask a model of"),
        (
            single,
            {"text": ["a"], "text_pair": ["a"]},
            "no input 'text_pair'. It is (text: string [None]) -> ",
        ),
    ],
)
def test_what_is_no_row_of_the_model_is_refused_and_nothing_is_sent(
    stock_server, connect, serving, rows, message
):
    served = serving()
    with pytest.raises(errors.InvalidInputError) as caught:
        connect(stock_server(served)).classify(rows)
    assert message in str(caught.value)
    assert served.received("Predict") == []


def test_a_classifier_ranks_by_the_probability_of_a_label(stock_server, connect):
    serving = classifier()
    client = connect(stock_server(serving))
    found = client.rank("a", ["b", "a", "c", "a"], label="same")
    assert found == [Ranked(1, "a", 0.75), Ranked(3, "a", 0.75), Ranked(0, "b", 0.25), Ranked(2, "c", 0.25)]
    assert client.rank("a", iter(["b", "a"]), 1, label="other") == [Ranked(0, "b", 0.75)]
    before = len(serving.received("Predict"))
    for label in (None, "sane"):
        with pytest.raises(
            errors.InvalidInputError, match="classifier with the labels 'other', 'same': give la"
        ):
            client.rank("a", ["b"], label=label)
    texts = [request for request in serving.received("Predict")[before:] if "text" in request.inputs]
    assert texts == []  # the documents were not sent


SPECS = {name: TensorSpec("string", (None,)) for name in NAMES}


def ranking(function, shape=(None, 1), **settings):
    transport = FunctionTransport(function, Signature(SPECS, {"predictions": TensorSpec("float32", shape)}))
    return transport, Client(transport=transport, **settings)


def lengths(arrays):
    return {"predictions": np.float32([[len(text) % 7] for text in arrays["text_pair"]])}


@pytest.mark.parametrize(
    ("count", "settings", "sizes"), [(130, {}, [64, 64, 2]), (5, {"max_batch_size": 2}, [2, 2, 1])]
)
def test_many_documents_are_several_calls_of_bounded_size(count, settings, sizes):
    transport, client = ranking(lengths, **settings)
    documents = ["x" * (place % 20) for place in range(count)]
    found = client.rank("q", documents)
    # Python's sort is stable, and the largest comes first.
    wanted = sorted(range(count), key=lambda place: -(len(documents[place]) % 7))
    assert [(each.index, each.document) for each in found] == [(place, documents[place]) for place in wanted]
    assert [len(call["text"]) for call in transport.calls] == sizes
    assert all(set(call["text"]) == {"q"} for call in transport.calls)


def test_long_documents_are_fewer_in_a_call():
    transport, client = ranking(lengths)
    documents = ["é" * 300_000, "b" * 500_000, "c" * 500_000, "d" * 2_000_000, "e"]
    assert len(client.rank("q", documents, k=3)) == 3
    sent = [[text[0] for text in call["text_pair"]] for call in transport.calls]
    assert sent == [["é"], ["b", "c"], ["d"], ["e"]]


def test_no_documents_are_an_empty_answer_and_nothing_is_sent():
    transport, client = ranking(lengths)
    assert client.rank("q", []) == []
    assert transport.calls == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((None, ["a"]), "query must be a text, a str. Received None"),
        (("q", "abc"), "documents must be a list of texts. Received 'abc'"),
        (("q", {"a": 1}), "documents must be a list of texts"),
        (("q", None), "documents must be a list of texts. Received None"),
        (("q", pd.DataFrame({"answer": ["a"]})), "documents must be a list of texts"),
        (("q", ["a", None]), "document 1 must be a text, a str. Received None"),
        (("q", ["a", ("b", "c")]), "document 1 must be a text"),
        (("q", ["a"], 0), "k must be a positive integer. Received 0"),
        (("q", ["a"], 1.5), "k must be a positive integer. Received 1.5"),
    ],
)
def test_what_ranks_nothing_is_refused(arguments, said):
    transport, client = ranking(lengths)
    with pytest.raises(errors.InvalidInputError) as caught:
        client.rank(*arguments)
    assert said in str(caught.value)
    assert transport.calls == []


def test_a_model_that_gives_no_score_of_pairs_is_told():
    _, client = ranking(lambda arrays: {"predictions": np.zeros((len(arrays["text"]), 2))}, (None, 2))
    with pytest.raises(
        errors.FailedPreconditionError, match=r"without a score for each row: .* predictions \[1, 2\]"
    ):
        client.rank("q", ["a"])
    with pytest.raises(errors.InvalidInputError, match="label= is for a classifier: leave it out"):
        client.rank("q", ["a"], label="same")
    several = {
        "labels": TensorSpec("string", (None, None)),
        "probabilities": TensorSpec("float32", (None, 2)),
    }
    for label in (None, "same"):
        with pytest.raises(
            errors.InvalidInputError, match="gives a row any number of labels: order the docum"
        ):
            Client(transport=FunctionTransport(dict, Signature(SPECS, several))).rank("q", ["a"], label=label)
    one = FunctionTransport(dict, Signature({"text": SPECS["text"]}, {"predictions": SPECS["text"]}))
    with pytest.raises(
        errors.InvalidInputError, match="rank is for a model of pairs of texts, with the inputs"
    ):
        Client(transport=one).rank("q", ["a"])
