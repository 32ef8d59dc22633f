"""Streams of any length pass in bounded memory, row by row in order."""

import pandas as pd
import pytest
import tensorflow as tf
from stock_serving import StockServing, StockSignature, doubled

from keras_selfattn.serving import errors


def sizes(serving):
    return [request.inputs["x"].tensor_shape.dim[0].size for request in serving.received("Predict")]


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
