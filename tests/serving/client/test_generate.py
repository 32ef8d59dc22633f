"""`client.generate`: texts that a model writes, of stock stubs and of a SavedModel on our server."""

import asyncio
import dataclasses

import grpc
import numpy as np
import pytest
import serving_models as models
import tensorflow as tf
from serving_texts import WRITTEN, backwards, reversed_texts
from stock_serving import StockServing, StockSignature

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import AsyncClient, Candidate, Client, Generated
from keras_selfattn.serving.server import Server, ServerConfig

TEXT = {"text": (tf.string, (None,))}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    base = tmp_path_factory.mktemp("backwards")
    models.save(models.Backwards(), base, 5)
    with Server(ServerConfig("backwards", base, port=0)) as server:
        yield server


def expected(text):
    """The answer of both models, written down apart from them: no text has more than 8 characters."""
    first = text[::-1][:8]
    texts = [first, first.upper(), first + "?"]
    candidates = tuple(Candidate(each, -0.25 * place) for place, each in enumerate(texts, 1))
    return Generated(first, -0.25, len(text) <= 8, candidates)


TEXTS = ["abc", "", "a text of many", "Öl 😀"]


def test_each_text_has_the_text_that_the_model_writes(stock_server, connect):
    assert connect(stock_server(StockServing(backwards()))).generate(TEXTS) == list(map(expected, TEXTS))


def test_a_saved_model_on_our_server_answers_the_same(server, connect):
    client = connect(server.target, "backwards")
    assert client.generate(iter(TEXTS)) == list(map(expected, TEXTS))
    assert client.generate([text.encode() for text in TEXTS]) == list(map(expected, TEXTS))
    assert client.generate([]) == []


def test_an_answer_is_its_text_and_of_plain_types():
    answer = expected("abcdefghi")
    assert str(answer) == "ihgfedcb"
    assert repr(answer) == "Generated(text='ihgfedcb', score=-0.25, ended=False)"
    assert {answer, expected("abcdefghi")} == {answer}  # frozen, so it can be in a set


def test_numbers_and_flags_are_those_of_python(server):
    with Client(server.target, "backwards") as client:
        (answer,) = client.generate(["abc"])
    kinds = [type(each) for each in (answer.text, answer.score, answer.ended, answer.candidates)]
    assert kinds == [str, float, bool, tuple]
    assert [type(each) for each in dataclasses.astuple(answer.candidates[0])] == [str, float]


@pytest.mark.parametrize(
    ("count", "most", "sizes"),
    [(150, None, [64, 64, 22]), (5, 2, [2, 2, 1]), (64, None, [64])],
)
def test_many_texts_are_several_calls_of_bounded_size(stock_server, connect, count, most, sizes):
    serving = StockServing(backwards())
    texts = [f"t{number}" for number in range(count)]
    found = connect(stock_server(serving), max_batch_size=most).generate(texts)
    assert [answer.text for answer in found] == [text[::-1] for text in texts]
    received = [len(request.inputs["text"].string_val) for request in serving.received("Predict")]
    assert sorted(received, reverse=True) == sizes


def test_long_texts_are_calls_of_about_a_mebibyte(stock_server, connect):
    serving = StockServing(backwards())
    connect(stock_server(serving)).generate(["x" * 600_000] * 3)
    assert len(serving.received("Predict")) == 3


def test_rows_of_any_number_are_streamed(server):
    with Client(server.target, "backwards") as client:
        rows = list(client.predict_iter(f"t{number}" for number in range(130)))
    assert [row["text"] for row in rows] == [f"t{number}"[::-1] for number in range(130)]
    assert rows[3]["candidates"].tolist() == ["3t", "3T", "3t?"]
    assert bool(rows[3]["ended"])


def test_candidates_that_the_search_did_not_find_are_left_out(stock_server, connect):

    def answer(arrays):
        found = reversed_texts(arrays)
        found["candidate_scores"][:, 2] = -np.inf
        return found

    serving = StockServing({"serving_default": StockSignature(TEXT, answer, WRITTEN)})
    (found,) = connect(stock_server(serving)).generate(["ab"])
    assert [candidate.text for candidate in found.candidates] == ["ba", "BA"]


def test_bytes_that_are_no_utf8_are_replaced_in_both_directions(stock_server, connect):
    asked = []

    def answer(arrays):
        asked.extend(arrays["text"].tolist())
        return reversed_texts(arrays) | {"text": np.array([b"\xffa", b"b"], object)}

    serving = StockServing({"serving_default": StockSignature(TEXT, answer, WRITTEN)})
    found = connect(stock_server(serving)).generate([b"\xfe", "b"])
    assert [each.text for each in found] == ["\ufffda", "b"]
    assert asked == ["\ufffd".encode(), b"b"]


@pytest.mark.parametrize("texts", ["a text", b"a text", 3, {"text": ["a"]}, [["a"]], [None]])
def test_what_is_no_list_of_texts_is_refused_before_it_is_sent(connect, texts):
    with pytest.raises(errors.InvalidInputError, match=r"list of str|is not a str"):
        connect("127.0.0.1:1").generate(texts)


def test_a_lone_surrogate_is_refused_with_its_place(server, connect):
    with pytest.raises(errors.InvalidInputError, match="element 1 has a lone surrogate"):
        connect(server.target, "backwards").generate(["a", "\udcff"])


def labels(shape):
    outputs = {"label": (tf.string, None), "score": (tf.float32, None)}

    def answer(arrays):
        whole = (len(arrays["text"]), *shape)
        return {"label": np.full(whole, b"a", object), "score": np.ones(whole, np.float32)}

    return {"serving_default": StockSignature(TEXT, answer, outputs)}


def numbers():
    def answer(arrays):
        return {"predictions": np.ones((len(arrays["text"]), 1), np.float32)}

    return {"serving_default": StockSignature(TEXT, answer, {"predictions": (tf.float32, None)})}


@pytest.mark.parametrize(
    ("signatures", "advice"),
    [
        (labels(()), r"It answers labels: use `client.classify\(...\)`."),
        (labels((3,)), r"It answers labels: use `client.label\(...\)`."),
        (numbers(), r"It answers numbers: use `client.score\(...\)`"),
    ],
)
def test_generate_of_another_model_names_the_call_for_it(stock_server, connect, signatures, advice):
    client = connect(stock_server(StockServing(signatures)), "reviews")
    with pytest.raises(errors.FailedPreconditionError, match=rf"'reviews'.*is no writer of texts.*{advice}"):
        client.generate(["a"])


@pytest.mark.parametrize("call", ["classify", "label", "score"])
def test_other_calls_of_a_writer_name_generate(server, connect, call):
    client = connect(server.target, "backwards")
    with pytest.raises(errors.FailedPreconditionError, match=r"texts: use `client.generate\(...\)`."):
        getattr(client, call)(["a"])


@pytest.mark.parametrize(
    "change",
    [
        {"text": np.array([b"a"], object)},
        {"ended": np.ones(3, bool)},
        {"candidates": np.full((2, 2), b"a", object)},
        {"candidate_scores": np.zeros((1, 3), np.float32)},
    ],
)
def test_outputs_that_do_not_fit_are_malformed(stock_server, connect, change):
    changed = StockSignature(TEXT, lambda arrays: reversed_texts(arrays) | change, WRITTEN)
    client = connect(stock_server(StockServing({"serving_default": changed})))
    with pytest.raises(errors.MalformedResponseError, match="do not fit the rows, or each other"):
        client.generate(["a", "b"])


def test_all_texts_are_answered_by_one_version(stock_server, connect):
    serving = StockServing(backwards())

    def newer(rpc, request, context):
        if rpc == "Predict" and not request.model_spec.version.value:
            serving.version = len(serving.received("Predict"))

    serving.before = newer
    client = connect(stock_server(serving), max_batch_size=1, concurrency=1)
    assert [answer.text for answer in client.generate(["ab", "cd", "ef"])] == ["ba", "dc", "fe"]
    asked = [request.model_spec.version.value for request in serving.received("Predict")]
    assert asked[:3] == [0, 0, 0]
    assert asked[3:] == [3, 3]


def test_a_deadline_is_for_all_calls_together(stock_server, connect, until):
    serving = StockServing(backwards())
    serving.before = lambda rpc, request, context: (
        rpc == "Predict" and context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "too long")
    )
    with pytest.raises(errors.DeadlineExceededError):
        connect(stock_server(serving)).generate(["a"], timeout=5)


def test_both_clients_share_its_words():
    assert AsyncClient.generate.__doc__ == Client.generate.__doc__


def explaining(weights):
    """Two texts of 3 and 1 pieces, whose answers have 1 and 2."""

    def answer(arrays):
        tokens = np.array([[b"a", b"b", b"</s>"], [b"</s>", b"", b""]], object)
        targets = np.array([[b"x", b""], [b"y", b"</s>"]], object)
        return {"tokens": tokens, "target_tokens": targets, "weights": weights}

    text = (tf.string, (None, None))
    outputs = {"tokens": text, "target_tokens": text, "weights": (tf.float32, (None, 5, 2, None, None))}
    return {"explain": StockSignature(TEXT, answer, outputs)}


def test_explain_has_the_attention_from_the_answer_to_the_text(stock_server, connect):
    weights = np.arange(2 * 5 * 2 * 2 * 3, dtype=np.float32).reshape(2, 5, 2, 2, 3)
    first, second = connect(stock_server(StockServing(explaining(weights)))).explain(["ab", ""])
    assert (first.tokens, first.target_tokens) == (["a", "b", "</s>"], ["x"])
    assert (second.tokens, second.target_tokens) == (["</s>"], ["y", "</s>"])
    np.testing.assert_array_equal(first.weights, weights[0, :, :, :1])
    np.testing.assert_array_equal(second.weights, weights[1, :, :, :, :1])
    assert first.received.shape == (3,)


def test_weights_that_do_not_fit_the_answer_are_malformed(stock_server, connect):
    client = connect(stock_server(StockServing(explaining(np.ones((2, 5, 2, 3, 3), np.float32)))))
    with pytest.raises(errors.MalformedResponseError, match="do not fit the rows, or each other"):
        client.explain(["ab", ""])


SETTINGS = {
    "max_new_tokens": (tf.int32, (None,)),
    "beams": (tf.int32, (None,)),
    "length_penalty": (tf.float32, (None,)),
    "prefix": (tf.string, (None,)),
}


def searching(**defaults):
    """The stock model, and its signature with settings, which writes the prefix first."""

    def answer(arrays):
        return reversed_texts({"text": np.array([*map(bytes.__add__, arrays["text"], arrays["prefix"])])})

    return {**backwards(), "generate": StockSignature({**TEXT, **SETTINGS}, answer, WRITTEN, **defaults)}


def sent_settings(serving):
    """The settings of each row that the server received, as a client of TensorFlow would read them."""
    (request,) = serving.received("Predict")
    arrays = {name: tf.make_ndarray(request.inputs[name]) for name in SETTINGS}
    assert {name: array.dtype for name, array in arrays.items() if name != "prefix"} == {
        "max_new_tokens": np.int32,
        "beams": np.int32,
        "length_penalty": np.float32,
    }
    assert request.model_spec.signature_name == "generate"
    return list(zip(*(arrays[name].tolist() for name in SETTINGS), strict=True))


@pytest.mark.parametrize(
    ("settings", "rows"),
    [
        ({"beams": 2}, [(0, 2, -1, b"")] * 2),
        ({"max_new_tokens": np.int64(7), "length_penalty": 0}, [(7, 0, 0, b"")] * 2),
        ({"length_penalty": np.float32(0.5), "prefix": "zx"}, [(0, 0, 0.5, b"zx")] * 2),
        ({"prefix": ["z", ""]}, [(0, 0, -1, b"z"), (0, 0, -1, b"")]),
    ],
)
def test_settings_are_inputs_of_each_row_of_the_signature_for_them(stock_server, connect, settings, rows):
    serving = StockServing(searching())
    found = connect(stock_server(serving)).generate(["ab", "cd"], **settings)
    assert sent_settings(serving) == rows
    begins = [row[-1].decode()[::-1] for row in rows]
    assert [answer.text for answer in found] == [begins[0] + "ba", begins[1] + "dc"]


def test_without_settings_the_main_signature_is_asked(stock_server, connect):
    serving = StockServing(searching())
    connect(stock_server(serving)).generate(["ab"], beams=None, prefix=None)
    (request,) = serving.received("Predict")
    assert (request.model_spec.signature_name, [*request.inputs]) == ("serving_default", ["text"])


def test_each_call_has_the_prefixes_of_its_rows(stock_server, connect):
    serving = StockServing(searching())
    texts, prefixes = ["a", "b", "c"], ["x", "y", "z"]
    found = connect(stock_server(serving), max_batch_size=1).generate(texts, prefix=prefixes)
    assert [answer.text for answer in found] == ["xa", "yb", "zc"]
    assert connect(stock_server(serving)).generate([], prefix=[]) == []


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"beams": 0}, "beams must be a positive integer. Received 0"),
        ({"max_new_tokens": 2.0}, "max_new_tokens must be a positive integer. Received 2.0"),
        (
            {"max_new_tokens": 2**31},
            "max_new_tokens must be an int32, at most 2147483647. Received 2147483648",
        ),
        ({"length_penalty": -1}, "length_penalty must be a finite number from 0 on. Received -1"),
        ({"length_penalty": float("nan")}, "length_penalty must be a finite number from 0 on. Received nan"),
        ({"length_penalty": "1"}, "length_penalty must be a finite number"),
        (
            {"prefix": ["a"]},
            r"prefix must be a str, or a list of one for each of the 2 texts. Received \['a'\]",
        ),
        ({"prefix": [None, "a"]}, "prefix must be a str, or a list of one"),
        ({"prefix": 5}, "prefix must be a str, or a list of one"),
    ],
)
def test_settings_that_no_model_takes_are_refused_before_they_are_sent(connect, settings, told):
    with pytest.raises(errors.InvalidInputError, match=told):
        connect("127.0.0.1:1").generate(["a", "b"], **settings)


def test_a_model_without_the_signature_says_what_to_do(stock_server, server, connect):
    told = (
        "'backwards'.* takes no settings of its search: it has no signature 'generate'. If it writes texts, "
        "export it again with this version; until then leave out beams, max_new_tokens, length_penalty and"
    )
    for target in (server.target, stock_server(StockServing(backwards()))):
        with pytest.raises(errors.FailedPreconditionError, match=told):
            connect(target, "backwards").generate(["a"], beams=2)


def test_the_asynchronous_client_sends_the_same(stock_server):
    serving = StockServing(searching())
    target = stock_server(serving)

    async def ask():
        async with AsyncClient(target, "backwards") as client:
            return await client.generate(["ab"], prefix="z", beams=3)

    (found,) = asyncio.run(ask())
    assert (found.text, sent_settings(serving)) == ("zba", [(0, 3, -1, b"z")])
