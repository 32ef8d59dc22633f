"""Batches larger than the server takes are split and put together again, of one version."""

import threading

import grpc
import numpy as np
import pytest
import tensorflow as tf
from stock_serving import StockServing, StockSignature

from keras_selfattn.serving import errors


def sizes(serving):
    return [request.inputs["x"].tensor_shape.dim[0].size for request in serving.received("Predict")]


@pytest.mark.parametrize("rows", [0, 1, 4, 5, 8, 23])
def test_a_large_batch_is_split_and_put_together_in_order(stock_server, connect, rows):
    serving = StockServing()
    client = connect(stock_server(serving), max_batch_size=4)
    x = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
    answer = client.predict(x)
    np.testing.assert_array_equal(answer["y"], 2 * x)
    assert answer.version == 1
    full, rest = divmod(rows, 4)
    assert sorted(sizes(serving)) == sorted([4] * full + [rest] * (rest > 0 or rows == 0))


def test_no_more_calls_than_allowed_are_under_way(stock_server, connect):
    running, most, lock = 0, 0, threading.Lock()

    def count(rpc, request, context):
        nonlocal running, most
        if rpc != "Predict":
            return
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.05)
        with lock:
            running -= 1

    client = connect(stock_server(StockServing(before=count)), max_batch_size=1, concurrency=3)
    client.predict(np.zeros((12, 2), np.float32))
    assert most == 3


def test_inputs_without_rows_go_with_every_part(stock_server, connect):
    spec = (tf.float32, (None,))
    signature = StockSignature(
        {"x": spec, "table": (tf.float32, (3,)), "bias": (tf.float32, ())},
        lambda arrays: {"y": arrays["x"] * arrays["table"].sum() + arrays["bias"]},
        {"y": spec},
    )
    client = connect(stock_server(StockServing({"serving_default": signature})), max_batch_size=2)
    answer = client.predict({"x": [1, 2, 3], "table": [1, 2, 3], "bias": 0.5})
    assert answer["y"].tolist() == [6.5, 12.5, 18.5]


def test_strings_are_split_and_put_together_too(stock_server, connect):
    spec = (tf.string, (None,))
    signature = StockSignature({"x": spec}, lambda arrays: {"y": arrays["x"]}, {"y": spec})
    client = connect(stock_server(StockServing({"serving_default": signature})), max_batch_size=2)
    texts = [f"text {number}" for number in range(5)]
    assert client.predict(texts)["y"].tolist() == texts


def test_one_failed_part_fails_the_call_and_names_its_rows(stock_server, connect):
    def refuse(rpc, request, context):
        if rpc == "Predict" and 7 in tf.make_ndarray(request.inputs["x"]):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no sevens")

    client = connect(stock_server(StockServing(before=refuse)), max_batch_size=3)
    x = np.zeros((20, 2), np.float32)
    x[10] = 7
    with pytest.raises(errors.InvalidArgumentError, match="rows 9 to 11.*no sevens") as caught:
        client.predict(x)
    assert caught.value.rows == range(9, 12)


def test_the_row_that_no_tensor_holds_is_named(stock_server, connect):
    client = connect(stock_server(StockServing()))
    rows = [[0, 1]] * 5 + [[0, "a"]]
    with pytest.raises(errors.InvalidInputError, match=r"rows 4 to 5\)") as caught:
        list(client.predict_iter(rows, batch_size=2))
    assert caught.value.rows == range(4, 6)


def test_all_rows_of_a_batch_are_answered_by_one_version(stock_server, connect):
    serving = StockServing()

    def take_over(rpc, request, context):
        if rpc == "Predict" and len(serving.received("Predict")) == 3:
            serving.version = 2

    serving.before = take_over
    client = connect(stock_server(serving), max_batch_size=1, concurrency=1)
    answer = client.predict([[1, 2]] * 5)
    assert answer.version == 2
    assert answer["y"].tolist() == [[2, 4]] * 5
    again = serving.received("Predict")[5:]
    assert [request.model_spec.version.value for request in again] == [2] * 2


def refuse_other_versions(serving):
    """As TensorFlow Serving does."""

    def refuse(rpc, request, context):
        wanted = request.model_spec.version.value
        if rpc == "Predict" and wanted not in (0, serving.version):
            context.abort(grpc.StatusCode.NOT_FOUND, f"Servable not found for request: Specific(m, {wanted})")

    return refuse


def test_a_batch_follows_a_model_that_is_rolled_back(stock_server, connect):
    serving = StockServing(version=4)
    refuse = refuse_other_versions(serving)

    def roll_back(rpc, request, context):
        if rpc == "Predict" and len(serving.received("Predict")) == 3:
            serving.version = 3
        refuse(rpc, request, context)

    serving.before = roll_back
    answer = connect(stock_server(serving), max_batch_size=1, concurrency=1).predict([[1, 2]] * 5)
    assert answer.version == 3
    assert len(serving.received("Predict")) == 5 + 2


def test_a_batch_over_servers_of_two_versions_is_answered_by_one(connect):
    servings = [StockServing(version=number) for number in (1, 2)]
    for serving in servings:
        serving.before = refuse_other_versions(serving)
    running = [serving.serve() for serving in servings]
    client = connect([f"127.0.0.1:{port}" for _, port in running], max_batch_size=1)
    for _ in range(10):
        answer = client.predict([[n, n] for n in range(6)])
        assert answer["y"].tolist() == [[2 * n, 2 * n] for n in range(6)]
        assert answer.version in (1, 2)
    for server, _ in running:
        server.stop(None).wait()


def test_versions_that_will_not_agree_are_an_error(stock_server, connect):
    serving = StockServing()
    refuse = refuse_other_versions(serving)

    def another(rpc, request, context):
        refuse(rpc, request, context)
        serving.version += rpc == "Predict"

    serving.before = another
    with pytest.raises(errors.AbortedError, match="answered parts of one batch"):
        connect(stock_server(serving), max_batch_size=1).predict([[1, 2]] * 3)


def test_strings_of_a_batch_are_bytes_or_text_together(stock_server, connect):
    spec = (tf.string, (None,))
    signature = StockSignature({"x": spec}, lambda arrays: {"y": arrays["x"]}, {"y": spec})
    target = stock_server(StockServing({"serving_default": signature}))
    for size in (None, 1):
        assert connect(target, max_batch_size=size).predict([b"a", b"\xff"])["y"].tolist() == [b"a", b"\xff"]


def test_outputs_without_rows_cannot_be_put_together_and_say_so(stock_server, connect):
    spec = (tf.float32, (None,))
    functions = {"sum": lambda x: x.sum(), "wide": lambda x: np.ones((len(x), int(x[0])), np.float32)}
    signature = StockSignature(
        {"x": spec},
        lambda arrays: (
            {name: function(arrays["x"]) for name, function in functions.items()} | {"x": arrays["x"]}
        ),
        {"sum": (tf.float32, ()), "wide": (tf.float32, (None, None)), "x": spec},
    )
    client = connect(stock_server(StockServing({"serving_default": signature})), max_batch_size=1)
    with pytest.raises(
        errors.MalformedResponseError, match="output 'sum' of shape .* not one entry for each of 1"
    ):
        client.predict([1.0, 2.0], outputs=["sum"])
    with pytest.raises(
        errors.MalformedResponseError, match=r"other shapes for other rows \(\[1, 1\], \[1, 2\]\)"
    ):
        client.predict([1.0, 2.0], outputs=["wide"])
    assert client.predict([1.0, 2.0], outputs=["x"])["x"].tolist() == [1, 2]


def test_inputs_with_other_numbers_of_rows_cannot_be_split(stock_server, connect):
    spec = (tf.float32, (None,))
    signature = StockSignature(
        {"values": spec, "lengths": spec},
        lambda arrays: {"n": np.float32(len(arrays["values"]))},
        {"n": (spec[0], ())},
    )
    target = stock_server(StockServing({"serving_default": signature}))
    inputs = {"values": [1.0] * 5, "lengths": [2.0, 3.0]}
    assert connect(target, max_batch_size=5).predict(inputs)["n"] == 5
    with pytest.raises(
        errors.InvalidInputError, match=r"different numbers of rows \('values' 5, 'lengths' 2\)"
    ):
        connect(target, max_batch_size=4).predict(inputs)


@pytest.mark.parametrize("settings", [{"max_batch_size": 0}, {"max_batch_size": 2.5}, {"concurrency": 0}])
def test_sizes_that_are_none_are_refused(connect, settings):
    with pytest.raises(errors.InvalidInputError, match="must be a positive integer"):
        connect("localhost:1", **settings)
