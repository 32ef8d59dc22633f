"""Batches larger than the server takes are split, streams of any length pass in bounded memory."""

import threading

import grpc
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from stock_serving import StockServing, StockSignature, doubled

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


def test_a_stream_of_rows_is_answered_row_by_row_in_order(stock_server, connect):
    serving = StockServing()
    client = connect(stock_server(serving))
    rows = ([number, number + 1] for number in range(11))
    answers = list(client.predict_iter(rows, batch_size=4))
    assert [answer["y"].tolist() for answer in answers] == [[2 * n, 2 * n + 2] for n in range(11)]
    assert sorted(sizes(serving)) == [3, 4, 4]
    assert list(client.predict_iter([])) == []


def test_a_stream_takes_rows_of_several_inputs(stock_server, connect):
    spec = (tf.float32, (None,))
    signature = StockSignature(
        {"a": spec, "b": spec},
        lambda arrays: {"sum": arrays["a"] + arrays["b"], "a": arrays["a"]},
        {"sum": spec, "a": spec},
    )
    client = connect(stock_server(StockServing({"serving_default": signature})))
    rows = [{"a": n, "b": 10 * n} for n in range(3)]
    answers = list(client.predict_iter(rows, outputs=["sum"]))
    assert [dict(answer) for answer in answers] == [{"sum": 0}, {"sum": 11}, {"sum": 22}]
    with pytest.raises(errors.InvalidInputError, match=r"rows must all have the inputs \['a', 'b'\]"):
        list(client.predict_iter([{"a": 1, "b": 2}, {"a": 1}]))


def test_a_stream_of_any_length_is_taken_a_few_batches_ahead(stock_server, connect):
    taken = 0

    def rows():
        nonlocal taken
        while True:  # it never ends
            taken += 1
            yield [1.0, 2.0]

    answers = connect(stock_server(StockServing()), concurrency=3).predict_iter(rows(), batch_size=5)
    for number in range(1, 101):
        next(answers)
        assert taken <= number + 5 * 3
    assert hasattr(answers, "close")
    answers.close()


@pytest.mark.parametrize("rows", ["film", b"film", {"x": [[1, 2]]}, pd.DataFrame({"x": ["film"]})])
def test_what_are_no_rows_is_refused(connect, rows):
    with pytest.raises(errors.InvalidInputError, match="rows must be an iterable of rows"):
        list(connect("127.0.0.1:1").predict_iter(rows))


def test_a_stream_notices_a_version_with_other_inputs(stock_server, connect):
    serving = StockServing()
    client = connect(stock_server(serving))
    client.predict([[1, 2]])
    serving.version, serving.signatures = 2, {"serving_default": doubled("x", tf.float64, (None, 3))}
    assert [answer["y"].tolist() for answer in client.predict_iter([[1, 2, 3]])] == [[2, 4, 6]]


def test_a_stream_is_answered_before_the_next_row_is_taken_where_told_to(stock_server, connect):
    answers = []

    def rows():
        for _ in range(4):
            yield [len(answers), 0]

    client = connect(stock_server(StockServing()), concurrency=1)
    for answer in client.predict_iter(rows(), batch_size=1):
        answers.append(answer["y"][0])
    assert answers == [0, 2, 4, 6]


def test_a_stream_gives_what_was_answered_before_its_rows_fail(stock_server, connect):
    def rows():
        yield from ([n, n] for n in range(10))
        raise OSError("the file ends here")

    found = []

    def take(answers):
        for answer in answers:
            found.append(answer["y"][0])

    with pytest.raises(OSError, match="the file ends here"):
        take(connect(stock_server(StockServing())).predict_iter(rows(), batch_size=1))
    assert found == [2 * n for n in range(10)]


def test_a_batch_size_is_at_most_the_clients(stock_server, connect):
    serving = StockServing()
    list(connect(stock_server(serving), max_batch_size=2).predict_iter([[1, 2]] * 4, batch_size=8))
    assert sizes(serving) == [2, 2]


def test_a_stream_checks_its_signature_before_it_takes_a_row(stock_server, connect):
    client = connect(stock_server(StockServing()))
    taken = []
    rows = (taken.append(1) or [1.0, 2.0] for _ in range(3))
    with pytest.raises(errors.FailedPreconditionError, match="not found"):
        next(iter(client.predict_iter(rows, "sig")))
    with pytest.raises(errors.InvalidInputError, match="has no output 'z'"):
        next(iter(client.predict_iter(rows, outputs=["z"])))
    with pytest.raises(errors.InvalidInputError, match="batch_size must be a positive integer"):
        next(iter(client.predict_iter(rows, batch_size=-1)))
    assert taken == []


@pytest.mark.parametrize("settings", [{"max_batch_size": 0}, {"max_batch_size": 2.5}, {"concurrency": 0}])
def test_sizes_that_are_none_are_refused(connect, settings):
    with pytest.raises(errors.InvalidInputError, match="must be a positive integer"):
        connect("localhost:1", **settings)
