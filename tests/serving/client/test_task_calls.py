"""Calls by task: labels with all scores, labels of positions, weights, tf.Examples."""

import io
import re
import wave

import grpc
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from stock_serving import StockServing, StockSignature

from keras_selfattn.drawing.notebook import shown_alignment, shown_tokens
from keras_selfattn.rows.recordings import Recording
from keras_selfattn.serving import errors
from keras_selfattn.serving.client import (
    Classification,
    Explanation,
    Span,
    serialized_example,
)
from keras_selfattn.serving.wire import messages_pb2 as pb

TEXT = {"text": (tf.string, (None,))}
CLASSES = ["neg", "so", "pös"]


def strings(texts):
    return np.array([text.encode() for text in texts], dtype=object)


def sentiment(serving_name="serving_default", classes=CLASSES, text=TEXT):
    """A classifier like our exports: the longer a text, the further down the list its class."""

    def answer(arrays):
        index = np.minimum([len(each) for each in arrays["text"]], len(classes) - 1).astype(int)
        probabilities = np.full((len(index), len(classes)), 0.125, np.float32)
        probabilities[np.arange(len(index)), index] = 0.75
        return {
            "probabilities": probabilities,
            "label": strings([classes[each] for each in index]),
            "score": probabilities.max(-1) if len(index) else np.zeros(0, np.float32),
        }

    def classify(arrays):
        rows = [tf.train.Example.FromString(each) for each in arrays["inputs"]]
        assert all(row.features.feature["text"].bytes_list.value for row in rows)
        names = np.tile(strings(classes), (len(rows), 1))
        return {"classes": names, "scores": np.zeros((len(rows), len(classes)), np.float32)}

    outputs = {
        "probabilities": (tf.float32, (None, len(classes))),
        "label": (tf.string, (None,)),
        "score": (tf.float32, (None,)),
    }
    examples = {"inputs": (tf.string, (None,))}
    scores = {"classes": (tf.string, (None, None)), "scores": (tf.float32, (None, None))}
    return {
        serving_name: StockSignature(text, answer, outputs),
        "classify": StockSignature(examples, classify, scores, method_name="tensorflow/serving/classify"),
    }


def test_classify_gives_the_label_and_every_labels_score(stock_server, connect):
    serving = StockServing(sentiment())
    client = connect(stock_server(serving))
    answers = client.classify(["", "a", "aa"])
    assert answers == [
        Classification("neg", 0.75, {"neg": 0.75, "so": 0.125, "pös": 0.125}),
        Classification("so", 0.75, {"neg": 0.125, "so": 0.75, "pös": 0.125}),
        Classification("pös", 0.75, {"neg": 0.125, "so": 0.125, "pös": 0.75}),
    ]
    assert list(answers[0].scores) == CLASSES
    client.classify(iter(["a", "b"]))
    # The labels are asked for once a version.
    assert [request.model_spec.signature_name for request in serving.received("Predict")] == [
        "serving_default",
        "classify",
        "serving_default",
    ]


def test_classify_of_recordings_gives_every_labels_score(stock_server, connect):
    """The labels are asked for with a row that a model of sound can read: an empty text is no WAV file."""

    def answer(arrays):
        count = len(arrays["audio"])
        scores = np.tile(np.float32([0.75, 0.25]), (count, 1))
        return {"probabilities": scores, "label": strings(["hum"] * count), "score": scores[:, 0]}

    def classify(arrays):
        for each in arrays["inputs"]:
            (file,) = tf.train.Example.FromString(each).features.feature["audio"].bytes_list.value
            with wave.open(io.BytesIO(file)) as sound:
                assert sound.getnchannels() == 1
        names = np.tile(strings(["hum", "hiss"]), (len(arrays["inputs"]), 1))
        return {"classes": names, "scores": np.zeros(names.shape, np.float32)}

    outputs, scores = sentiment()["serving_default"].outputs, sentiment()["classify"].outputs
    examples = {"inputs": (tf.string, (None,))}
    serving = StockServing(
        {
            "serving_default": StockSignature({"audio": (tf.string, (None,))}, answer, outputs),
            "classify": StockSignature(examples, classify, scores, method_name="tensorflow/serving/classify"),
        }
    )
    found = connect(stock_server(serving)).classify([(np.zeros(4), 8000), Recording(np.ones(3), 8000)])
    assert found == [Classification("hum", 0.75, {"hum": 0.75, "hiss": 0.25})] * 2


def test_classify_asks_for_the_labels_of_a_new_version(stock_server, connect):
    serving = StockServing(sentiment())
    client = connect(stock_server(serving))
    client.classify(["a"])
    serving.signatures, serving.version = sentiment(classes=["x", "y"]), 2
    assert client.classify(["a"]) == [Classification("y", 0.75, {"x": 0.125, "y": 0.75})]


def test_classify_asks_again_where_the_same_version_has_other_labels(stock_server, connect):
    serving = StockServing(sentiment())
    client = connect(stock_server(serving))
    client.classify(["a"])
    serving.signatures = sentiment(classes=CLASSES[::-1])
    assert client.classify([""]) == [Classification("pös", 0.75, {"pös": 0.75, "so": 0.125, "neg": 0.125})]


def test_classify_begins_again_when_the_version_leaves_before_it_names_its_labels(stock_server, connect):
    serving = StockServing(sentiment())

    def leave(rpc, request, context):
        if request.model_spec.signature_name == "classify" and serving.version == 1:
            serving.version = 2
            context.abort(grpc.StatusCode.NOT_FOUND, "Servable not found for request: Specific(default, 1)")

    serving.before = leave
    assert connect(stock_server(serving)).classify(["a"])[0].scores["so"] == 0.75


def test_classify_without_the_signature_knows_the_answered_label_alone(stock_server, connect):
    signatures = {"serving_default": sentiment()["serving_default"]}
    client = connect(stock_server(StockServing(signatures)), max_batch_size=1)
    assert client.classify(["a", ""]) == [
        Classification("so", 0.75, {"so": 0.75}),
        Classification("neg", 0.75, {"neg": 0.75}),
    ]


def test_classify_takes_whatever_the_model_takes(stock_server, connect):
    values = {"values": (tf.float32, (None, None, 3))}

    def answer(arrays):
        count = len(arrays["values"])
        return {"label": strings(["a"] * count), "score": np.ones(count, np.float32)}

    outputs = {"label": (tf.string, (None,)), "score": (tf.float32, (None,))}
    client = connect(stock_server(StockServing({"serving_default": StockSignature(values, answer, outputs)})))
    assert [each.label for each in client.classify(np.zeros((2, 5, 3)))] == ["a", "a"]
    assert [each.label for each in client.classify({"values": [[[1, 2, 3]]]})] == ["a"]


@pytest.mark.parametrize("texts", ["a text", b"a text"])
def test_one_text_is_no_list_of_texts(connect, texts):
    client = connect("127.0.0.1:1")
    for call in (client.classify, client.label, client.explain):
        with pytest.raises(errors.InvalidInputError, match=r"list of str. Received b?'a text'; pass a list"):
            call(texts)


def test_a_model_for_another_task_says_what_it_answers(stock_server, connect):
    client = connect(stock_server(StockServing()))
    with pytest.raises(errors.FailedPreconditionError, match=r"is no classifier.*outputs y \[1, 2\]"):
        client.classify([[1, 2]])
    with pytest.raises(errors.FailedPreconditionError, match="is no labeller"):
        client.label([[1, 2]])
    with pytest.raises(errors.FailedPreconditionError, match='key "explain" not found'):
        client.explain(["a"])


@pytest.mark.parametrize(
    ("call", "outputs"),
    [
        ("classify", {"label": strings(["a"] * 3), "score": np.ones(2, np.float32)}),
        ("classify", {"label": strings(["a"] * 2), "score": np.ones(2, np.float32)}),
        ("label", {"label": np.full((3, 2), b"a", object), "score": np.ones((3, 4), np.float32)}),
        ("label", {"label": np.full((3, 2), b"a", object), "score": np.ones((1, 2), np.float32)}),
        ("label", {"label": np.full((1, 2), b"a", object), "score": np.ones((1, 2), np.float32)}),
        (
            "explain",
            {"tokens": np.full((3, 2), b"a", object), "weights": np.ones((3, 1, 1, 3, 3), np.float32)},
        ),
        (
            "explain",
            {"tokens": np.full((3, 2), b"a", object), "weights": np.ones((2, 1, 1, 2, 2), np.float32)},
        ),
    ],
)
def test_outputs_that_do_not_fit_the_rows_are_malformed(stock_server, connect, call, outputs):
    specs = {
        name: (tf.as_dtype(array.dtype if array.dtype != object else "string"), None)
        for name, array in outputs.items()
    }
    signature = StockSignature(TEXT, lambda arrays: outputs, specs)
    serving = StockServing({"explain" if call == "explain" else "serving_default": signature})
    client = connect(stock_server(serving))
    with pytest.raises(errors.MalformedResponseError, match="do not fit the rows, or each other"):
        getattr(client, call)(["x", "y", "z"])


def test_label_gives_each_position_its_label_without_padding(stock_server, connect):
    def answer(arrays):
        words = [text.decode().split() for text in arrays["text"]]
        length = max(map(len, words), default=0)
        padded = [row + [""] * (length - len(row)) for row in words]
        tokens = np.array([[token.encode() for token in row] for row in padded], object).reshape(-1, length)
        label = np.array([[token[:1].upper() for token in row] for row in tokens], object).reshape(-1, length)
        score = np.where(tokens == b"", 0, 0.5).astype(np.float32)
        return {"tokens": tokens, "label": label, "score": score}

    spec = (tf.string, (None, None))
    outputs = {"tokens": spec, "label": spec, "score": (tf.float32, (None, None))}
    serving = StockServing({"serving_default": StockSignature(TEXT, answer, outputs)})
    for size in (None, 2):
        found = connect(stock_server(serving), max_batch_size=size).label(["a good film", "", "yes"])
        assert [each.labels for each in found] == [["A", "G", "F"], [], ["Y"]]
        assert [each.tokens for each in found] == [["a", "good", "film"], [], ["yes"]]
        assert [each.scores.tolist() for each in found] == [[0.5] * 3, [], [0.5]]


def finding(arrays):
    """The answer of a model whose spans are the words that begin with a capital."""
    texts = [text.decode() for text in arrays["text"]]
    found = [[each for each in re.finditer(r"\w+", text) if each[0][0].isupper()] for text in texts]
    most = max(map(len, found), default=0)

    def padded(value, padding, dtype):
        rows = [[value(each) for each in row] + [padding] * (most - len(row)) for row in found]
        return np.array(rows, dtype).reshape(len(found), most)

    return {
        "label": padded(lambda each: each[0][0].encode(), b"", object),
        "start": padded(lambda each: each.start(), 0, np.int32),
        "end": padded(lambda each: each.end(), 0, np.int32),
        "score": padded(lambda each: 0.5, 0, np.float32),
        "count": np.array(list(map(len, found)), np.int32),
    }


FOUND = {
    "label": (tf.string, (None, None)),
    "start": (tf.int32, (None, None)),
    "end": (tf.int32, (None, None)),
    "score": (tf.float32, (None, None)),
    "count": (tf.int32, (None,)),
}
RAW = ["\r\n😀 Ada saw Öl", "", "no", b"Caf\xff B"]


@pytest.mark.parametrize("size", [None, 1])
def test_spans_are_cut_from_the_texts_by_characters_without_padding(stock_server, connect, size):
    serving = StockServing({"spans": StockSignature(TEXT, finding, FOUND)})
    client = connect(stock_server(serving), max_batch_size=size)
    expected = [
        [Span("Ada", "A", 4, 7, 0.5), Span("Öl", "Ö", 12, 14, 0.5)],
        [],
        [],
        [Span("Caf", "C", 0, 3, 0.5), Span("B", "B", 5, 6, 0.5)],
    ]
    for texts in (RAW, iter(RAW), np.array(RAW, object)):
        assert client.spans(texts) == expected
    assert client.spans([]) == []


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("end", (0, 1), 15),
        ("end", (0, 1), 12),
        ("start", (0, 0), -1),
        ("count", 0, 3),
        ("count", 0, -1),
        ("label", np.s_[:, :1], None),
        ("count", np.s_[:2], None),
    ],
)
def test_spans_that_are_none_of_their_text_are_malformed(stock_server, connect, name, place, value):
    def answer(arrays):
        found = finding(arrays)
        if value is None:
            return {**found, name: found[name][place]}
        found[name][place] = value
        return found

    client = connect(stock_server(StockServing({"spans": StockSignature(TEXT, answer, FOUND)})))
    with pytest.raises(errors.MalformedResponseError, match="do not fit the rows|end of their text"):
        client.spans(RAW)


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ("Ada", "pass a list"),
        ([["Ada"]], r"text 0 .* is not a str. Received \['Ada'\]"),
        (["a", None], r"text 1 .* is not a str"),
        (pd.DataFrame({"text": ["Ada"]}), "texts must be a list of str"),
        ({"text": ["Ada"]}, "must be a list of str. Received {'text'"),
        (["\ud800"], "input 'text'"),
    ],
)
def test_what_are_no_raw_texts_is_refused(stock_server, connect, texts, reason):
    serving = StockServing({"spans": StockSignature(TEXT, finding, FOUND)})
    with pytest.raises(errors.InvalidInputError, match=reason):
        connect(stock_server(serving)).spans(texts)
    assert serving.received("Predict") == []


@pytest.mark.parametrize("told", [True, False])
def test_a_model_that_takes_tokens_alone_says_how_it_gets_the_signature(stock_server, connect, told):
    def no_metadata(rpc, request, context):
        if rpc == "GetModelMetadata":
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "")

    client = connect(stock_server(StockServing(before=None if told else no_metadata)))
    words = "no signature 'spans'.*export it again.*client.label"
    with pytest.raises(errors.FailedPreconditionError, match=words):
        client.spans(["Ada"])


def test_another_signature_of_that_name_says_what_it_answers(stock_server, connect):
    outputs = {"label": (tf.string, (None,))}
    signature = StockSignature(TEXT, lambda arrays: {"label": strings(["a"])}, outputs)
    with pytest.raises(errors.FailedPreconditionError, match="is without spans of texts.*outputs label"):
        connect(stock_server(StockServing({"spans": signature}))).spans(["Ada"])


def test_an_empty_token_among_others_is_refused(stock_server, connect):
    serving = StockServing()
    with pytest.raises(errors.InvalidInputError, match="row 1 has an empty token, which is padding"):
        connect(stock_server(serving)).label([["a"], ["a", "", "b"]])
    with pytest.raises(errors.InvalidInputError, match="row 0 has an empty token, which is padding"):
        connect(stock_server(serving)).label({"tokens": [["a", b""]]})
    assert serving.received("Predict") == []


def test_explain_gives_the_weights_between_real_tokens(stock_server, connect):
    def answer(arrays):
        lengths = [len(text) for text in arrays["text"]]
        longest = max(lengths)
        tokens = np.full((len(lengths), longest), b"", object)
        weights = np.zeros((len(lengths), 2, 3, longest, longest), np.float32)
        for row, length in enumerate(lengths):
            tokens[row, :length] = [bytes([letter]) for letter in arrays["text"][row]]
            weights[row, :, :, :length, :length] = length
        return {"tokens": tokens, "weights": weights}

    outputs = {"tokens": (tf.string, (None, None)), "weights": (tf.float32, (None, 2, 3, None, None))}
    serving = StockServing({"explain": StockSignature(TEXT, answer, outputs)})
    for size in (None, 1):
        found = connect(stock_server(serving), max_batch_size=size).explain(["abc", "", "xy"])
        assert [each.tokens for each in found] == [["a", "b", "c"], [], ["x", "y"]]
        assert [each.weights.shape for each in found] == [(2, 3, 3, 3), (2, 3, 0, 0), (2, 3, 2, 2)]
        assert all((each.weights == len(each.tokens)).all() for each in found)
        assert all(each.pooling is None for each in found)


def test_explain_gives_where_pooling_attends_without_padding(stock_server, connect):
    def answer(arrays):
        lengths = [len(text) for text in arrays["text"]]
        tokens = np.array([[b"x"] * length + [b""] * (3 - length) for length in lengths], object)
        pooling = np.float32([[[length] * 3, [7] * 3] for length in lengths])
        weights = np.zeros((len(lengths), 1, 1, 3, 3), np.float32)
        return {"tokens": tokens, "weights": weights, "pooling": pooling}

    outputs = {
        "tokens": (tf.string, (None, None)),
        "weights": (tf.float32, (None, 1, 1, None, None)),
        "pooling": (tf.float32, (None, 2, None)),
    }
    serving = StockServing({"explain": StockSignature(TEXT, answer, outputs)})
    found = connect(stock_server(serving)).explain(["abc", "", "xy"])
    assert [each.pooling.tolist() for each in found] == [[[3] * 3, [7] * 3], [[], []], [[2, 2], [7, 7]]]


@pytest.mark.parametrize(
    ("tokens", "spaced"), [(["<b>", "i"], True), (["<", "b"], False), ([" <b>", "i"], False)]
)
def test_a_notebook_shows_an_explanation_on_the_colours_of_what_each_token_receives(tokens, spaced):
    weights = np.float32([[[[1, 0], [1, 0]], [[0.5, 0.5], [0.5, 0.5]]]])  # [1, 2, 2, 2]
    explained = Explanation(tokens, weights)
    assert explained.received.tolist() == [0.75, 0.25]
    assert explained._repr_html_() == shown_tokens(tokens, explained.received, spaced=spaced)
    assert "<b>" not in explained._repr_html_()
    assert "<span" not in Explanation([], weights[..., :0, :0])._repr_html_()


def test_a_notebook_shows_what_each_written_piece_attends_to():
    weights = np.float32([[[[1, 0], [0.25, 0.75]], [[0, 1], [0.25, 0.75]]]])  # [1, 2, written, T]
    explained = Explanation(["a", "man"], weights, target_tokens=["ein", "Mann"])
    shown = explained._repr_html_()
    assert shown == shown_alignment(["a", "man"], ["ein", "Mann"], np.float32([[0.5, 0.5], [0.25, 0.75]]))
    assert "Mann reads man: 75%" in shown


def contributing(arrays, kinds=(b"word", b"pair")):
    """The answer of a model whose n-grams are the first byte of a text, and the text."""
    rows = len(arrays["text"])
    ngrams = np.array([[text[:1], text] for text in arrays["text"]], object)
    logits = np.arange(rows * 6, dtype=np.float32).reshape(rows, 2, 3)
    rest = np.full((rows, 3), 0.5, np.float32)
    return {"ngrams": ngrams, "kinds": np.array([kinds] * rows, object), "logits": logits, "rest": rest}


CONTRIBUTING = {
    "ngrams": (tf.string, (None, None)),
    "kinds": (tf.string, (None, None)),
    "logits": (tf.float32, (None, None, 3)),
    "rest": (tf.float32, (None, 3)),
}


def test_contributions_name_ngrams_without_padding(stock_server, connect):
    serving = StockServing({"contributions": StockSignature(TEXT, contributing, CONTRIBUTING)})
    found = connect(stock_server(serving)).contributions(["ab", "", "ü"])
    assert [each.ngrams for each in found] == [["a", "ab"], [], ["\ufffd", "ü"]]
    assert [each.kinds for each in found] == [["word", "pair"], [], ["word", "pair"]]
    assert found[0].logits.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found[1].logits.shape == (0, 3)
    assert found[2].rest.tolist() == [0.5] * 3


def test_contributions_that_do_not_fit_each_other_are_malformed(stock_server, connect):
    signature = StockSignature(TEXT, lambda arrays: contributing(arrays, (b"word",)), CONTRIBUTING)
    with pytest.raises(errors.MalformedResponseError, match="do not fit the rows, or each other"):
        connect(stock_server(StockServing({"contributions": signature}))).contributions(["ab"])


FEATURES = {
    "text": "ün",
    "raw": b"\x00\x01",
    "many": ["a", "bc"],
    "one": 7,
    "flags": [True, False],
    "numbers": np.int16([[1, 2], [3, 4]]),
    "float": 0.5,
    "mixed": [1, 2.5],
    "wide": np.float64([0.1]),
    "empty": [],
}


def test_a_dict_is_the_example_that_tensorflow_makes_of_it():
    def feature(**kinds):
        return tf.train.Feature(**kinds)

    def texts(*values):
        return feature(bytes_list=tf.train.BytesList(value=values))

    def integers(*values):
        return feature(int64_list=tf.train.Int64List(value=values))

    def floats(*values):
        return feature(float_list=tf.train.FloatList(value=values))

    expected = tf.train.Example(
        features=tf.train.Features(
            feature={
                "text": texts("ün".encode()),
                "raw": texts(b"\x00\x01"),
                "many": texts(b"a", b"bc"),
                "one": integers(7),
                "flags": integers(1, 0),
                "numbers": integers(1, 2, 3, 4),
                "float": floats(0.5),
                "mixed": floats(1, 2.5),
                "wide": floats(0.1),
                "empty": floats(),
            }
        )
    )
    assert tf.train.Example.FromString(serialized_example(FEATURES)) == expected


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"x": [[1], [1, 2]]}, "feature 'x': the rows have different lengths"),
        ({"x": None}, "feature 'x'"),
        ({"x": [1, "a"]}, "feature 'x'"),
        ({"x": 2**64}, "feature 'x'"),
        ({"x": np.uint64(2**63)}, "feature 'x': the values do not fit int64"),
        ({"x": 1j}, "feature 'x'"),
        ({1: "a"}, "the names of features are strings. Received 1"),
        ("text", "an example must be a dict of features. Received 'text'"),
    ],
)
def test_a_feature_that_no_example_holds_is_refused(features, message):
    with pytest.raises(errors.InvalidInputError, match=re.escape(message)):
        serialized_example(features)


def test_none_is_no_list_of_texts(stock_server, connect):
    with pytest.raises(errors.InvalidInputError, match="texts must be a list of str"):
        connect(stock_server(StockServing())).classify(None)


def test_a_reload_that_failed_in_its_answer_is_an_error(raw_server, connect):
    status = pb.StatusProto(error_code=3, error_message="bad path")
    answer = pb.ReloadConfigResponse(status=status).SerializeToString()
    with pytest.raises(errors.InvalidArgumentError, match="bad path"):
        connect(raw_server(lambda data, context: answer)).reload([])


def scored(columns, names=None):
    """A model of numbers like our exports: the length of a text, its double, …; by name if given."""

    def answer(arrays):
        lengths = np.array([[len(each)] for each in arrays["text"]], np.float32).reshape(-1, 1)
        return {"predictions": lengths * np.arange(1, 1 + columns, dtype=np.float32)}

    outputs = {"predictions": (tf.float32, (None, columns))}
    plain = {"serving_default": StockSignature(TEXT, answer, outputs)}
    if names is None:
        return plain

    def named(arrays):
        numbers = np.ones((len(arrays["inputs"]), columns), np.float32)
        return {"classes": np.tile(np.array(names, object), (len(numbers), 1)), "scores": numbers}

    of_names = {"classes": (tf.string, (None, columns)), "scores": (tf.float32, (None, columns))}
    return {**plain, "scores": StockSignature({"inputs": (tf.string, (None,))}, named, of_names)}


def test_scores_with_names_have_a_field_for_each(stock_server, connect):
    client = connect(stock_server(StockServing(scored(2, [b"style", "inhalt ä".encode()]))), max_batch_size=2)
    for _ in range(2):  # the names are asked for once
        found = client.score(["ab", "", "abc"])
        assert found.dtype.names == ("style", "inhalt ä")
        np.testing.assert_array_equal(found["inhalt ä"], np.float32([4, 0, 6]))
        assert found["style"].dtype == np.float32


@pytest.mark.parametrize("names", [[b"style", b"style"], [b""]])
def test_names_that_are_none_for_each_score_are_an_error(stock_server, connect, names):
    client = connect(stock_server(StockServing(scored(2, names * (3 - len(names))))))
    with pytest.raises(errors.ServingError, match="2 scores a row, and the names"):
        client.score(["ab"])


@pytest.mark.parametrize(("columns", "wanted"), [(1, [2, 0, 3]), (2, [[2, 4], [0, 0], [3, 6]])])
def test_score_gives_the_number_of_each_row_or_its_numbers(stock_server, connect, columns, wanted):
    found = connect(stock_server(StockServing(scored(columns))), max_batch_size=2).score(["ab", "", "abc"])
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, wanted)


def test_score_says_that_a_classifier_has_no_numbers(stock_server, connect):
    client = connect(stock_server(StockServing(sentiment())))
    said = "is without scores: signature 'serving_default' has the outputs .*label.*not predictions of rank 2"
    with pytest.raises(errors.FailedPreconditionError, match=said):
        client.score(["ab"])
    with pytest.raises(errors.InvalidInputError, match="texts must be a list of str. Received 'ab'"):
        client.score("ab")
