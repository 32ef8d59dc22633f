"""Inputs are checked against the served signature, and converted if nothing is lost."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from stock_serving import StockServing, StockSignature, doubled

from keras_selfattn.rows.recordings import Recording
from keras_selfattn.rows.wav_files import wav_bytes
from keras_selfattn.serving import errors
from keras_selfattn.serving.client import AsyncClient, Client, Signature


def one(dtype, shape=(None,)):
    """A server whose one input `x` comes back as `y`."""
    signature = StockSignature(
        {"x": (dtype, shape)}, lambda arrays: {"y": arrays["x"]}, {"y": (dtype, shape)}
    )
    return StockServing({"serving_default": signature})


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"z": [[1.0, 2.0]]}, "has no input 'z' and also wants 'x'. It is (x: float32 [None, 2])"),
        ({"x": [[1.0, 2.0]], "y": 1}, "has no input 'y'"),
        ({}, "also wants 'x'"),
        ({1: [[1.0, 2.0]]}, "the names of inputs are strings. Received 1"),
        (["a", 1], "input 'x': strings cannot be sent as float32. The model wants float32 [None, 2]"),
        ([["a", "b"]], "input 'x': strings cannot be sent as float32"),
        ([1.0, 2.0], "input 'x' has shape [2]. The model wants float32 [None, 2]: pass a list of rows"),
        ([[1.0, 2.0, 3.0]], "input 'x' has shape [1, 3]. The model wants float32 [None, 2]"),
        (1.0, "input 'x' has shape []. The model wants float32 [None, 2]"),
        ([[1.0], [1.0, 2.0]], "input 'x': the rows have different lengths"),
        ([[1j, 2]], "input 'x': complex values cannot be sent as float32"),
        ([[1e300, 2]], "input 'x': the values do not fit float32"),
        (np.int64([[2**24 + 1, 0]]), "input 'x': the values do not fit float32: [16777217,"),
        (np.array([["2020-01-01"] * 2], "datetime64[D]"), "an array of dtype datetime64[D] cannot be sent"),
        (
            [[None, 1.0]],
            "input 'x': every element must be a number to be sent as float32. Element 0 is NoneType",
        ),
        (pd.DataFrame({"a": [1, None], "b": [2, 3]}, dtype="Int64"), "Element 2 is NAType <NA>"),
    ],
)
def test_what_does_not_fit_the_signature_is_refused_and_nothing_is_sent(
    stock_server, connect, inputs, message
):
    serving = StockServing()
    target = stock_server(serving)
    with pytest.raises(errors.InvalidInputError) as caught:
        connect(target, "m").predict(inputs)
    assert message in str(caught.value)
    assert f"model 'm' at {target}" in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert serving.received("Predict") == []


@pytest.mark.parametrize("value", [np.float64([1, 2]), np.float32([1]), [1.0]])
def test_numbers_are_no_strings(stock_server, connect, value):
    text = {"text": (tf.string, (None,))}
    serving = StockServing({"serving_default": StockSignature(text, dict, text)})
    target = stock_server(serving)
    with pytest.raises(errors.InvalidInputError, match="input 'text': every element must be a str or bytes"):
        connect(target, "m").predict({"text": value})
    assert serving.received("Predict") == []


@pytest.mark.parametrize("name", ["values", "frames"])
def test_series_of_several_lengths_are_padded_where_nan_is_padding(stock_server, connect, name):
    spec = {name: (tf.float32, (None, None, 2))}
    serving = StockServing({"serving_default": StockSignature(spec, lambda arrays: arrays, spec)})
    client = connect(stock_server(serving), "m")
    rows = [np.ones((3, 2)), [[5, 6]]]
    if name == "frames":
        with pytest.raises(errors.InvalidInputError, match="input 'frames': the rows have different lengths"):
            client.predict({name: rows})
        return
    found = client.predict({name: rows})[name]
    np.testing.assert_array_equal(found[0], rows[0])
    np.testing.assert_array_equal(found[1], [[5, 6], [np.nan] * 2, [np.nan] * 2])
    for wrong in ([[["a", "b"]], [["c", "d"]]], [[[1, 2]], [[1, 2, 3]]], [[[1, 2]], 7]):
        with pytest.raises(errors.InvalidInputError, match="input 'values'"):
            client.predict({name: wrong})


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (tf.float32, np.float64([0.1, 2])),
        (tf.float32, np.int64([1, 2**24])),
        (tf.float32, [True, False]),
        (tf.float32, np.float16([1.5])),
        (tf.float32, pd.Series([1.5, 2.5])),
        (tf.float32, pd.Series([1, 2], dtype="Int64")),
        (tf.float32, np.array([1, 2.5], dtype=object)),
        (tf.float32, np.float32([1, 2, 3])[::-1]),
        (tf.float32, np.array([1, 2], ">f4")),
        (tf.float32, np.float64([np.nan, np.inf])),
        (tf.float64, np.float32([0.1])),
        (tf.int32, [1.0, 2.0]),
        (tf.int32, np.int64([-5, 2**31 - 1])),
        (tf.int64, np.uint8([255])),
        (tf.int64, range(3)),
        (tf.uint8, [0, 255]),
        (tf.bool, [0, 1]),
        (tf.bool, np.bool_([True])),
        (tf.half, [0.5]),
        (tf.bfloat16, [0.5]),
        (tf.bfloat16, np.array([0.5], ml_dtypes.bfloat16)),
        (tf.complex64, [1.5, 2]),
        (tf.complex64, np.int8([3])),
        (tf.complex128, [1j]),
    ],
)
def test_what_converts_without_loss_is_converted(stock_server, connect, dtype, value):
    answer = connect(stock_server(one(dtype))).predict(value)["y"]
    expected = np.asarray([float(each) for each in value] if dtype.is_floating else value)
    assert answer.dtype == dtype.as_numpy_dtype
    np.testing.assert_array_equal(answer, expected.astype(dtype.as_numpy_dtype))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (tf.int32, [1.5]),
        (tf.int32, [2**31]),
        (tf.int32, np.float32([np.nan])),
        (tf.uint8, [-1]),
        (tf.bool, [2]),
        (tf.half, [1e5]),
        (tf.int64, [2**63]),
        (tf.uint64, [2**64]),
        (tf.complex64, [2**24 + 1]),
    ],
)
def test_what_would_lose_something_is_refused(stock_server, connect, dtype, value):
    with pytest.raises(
        errors.InvalidInputError, match=rf"do not fit {dtype.name}.*The model wants {dtype.name}"
    ):
        connect(stock_server(one(dtype))).predict(value)


@pytest.mark.parametrize(
    "value",
    [
        ["a", "ü"],
        ("a", b"\xc3\xbc"),
        np.array(["a", "ü"]),
        np.array(["a", "ü"], dtype=object),
        np.array(["a", "ü"], np.dtypes.StringDType()),
        pd.Series(["a", "ü"]),
        pd.Series(["a", "ü"], dtype="category"),
    ],
)
def test_every_kind_of_strings_is_sent_as_utf8(stock_server, connect, value):
    serving = one(tf.string)
    assert connect(stock_server(serving)).predict(value)["y"].tolist() == ["a", "ü"]
    assert list(serving.received("Predict")[0].inputs["x"].string_val) == [b"a", "ü".encode()]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("a", r"has shape \[\]. The model wants string \[None\]: pass a list of rows"),
        ([1], "Element 0 is int 1"),
        (pd.Series(["a", None]), "Element 1 is (NoneType None|float nan)"),
        (["a", "\ud800"], "element 1 has a lone surrogate"),
    ],
)
def test_what_is_no_text_is_refused(stock_server, connect, value, message):
    with pytest.raises(errors.InvalidInputError, match=message):
        connect(stock_server(one(tf.string))).predict(value)


def test_the_same_refusal_costs_no_question_each_time(stock_server, connect):
    serving = StockServing()
    client = connect(stock_server(serving))
    for _ in range(20):
        with pytest.raises(errors.InvalidInputError):
            client.predict([[1, 2, 3]])
    assert len(serving.received("GetModelMetadata")) <= 2


def test_scalars_and_unknown_ranks_take_what_they_say(stock_server, connect):
    client = connect(stock_server(one(tf.float32, ())))
    assert client.predict(1.5)["y"] == 1.5
    assert client.predict({"x": np.float64(2)})["y"] == 2
    any_rank = connect(stock_server(one(tf.string, None)))
    assert any_rank.predict("a")["y"] == "a"
    assert any_rank.predict([["a"], ["b"]])["y"].shape == (2, 1)


def test_a_frame_gives_the_columns_of_the_inputs(stock_server, connect):
    spec = (tf.float32, (None,))
    signature = StockSignature(
        {"a": spec, "b": spec}, lambda arrays: {"sum": arrays["a"] + arrays["b"]}, {"sum": spec}
    )
    client = connect(stock_server(StockServing({"serving_default": signature})))
    frame = pd.DataFrame({"a": [1, 2], "other": ["x", "y"], "b": [0.5, 0.25]})
    assert client.predict(frame)["sum"].tolist() == [1.5, 2.25]
    matrix = connect(stock_server(StockServing()))  # one input, of rows with two numbers
    assert matrix.predict(pd.DataFrame({"p": [1, 2], "q": [3, 4]}))["y"].tolist() == [[2, 6], [4, 8]]


def test_an_input_with_a_default_may_be_left_out(stock_server, connect):
    spec = (tf.float32, (None,))
    signature = StockSignature(
        {"x": spec, "bias": (tf.float32, ())},
        lambda arrays: {"y": arrays["x"] + arrays["bias"]},
        {"y": spec},
        defaults={"bias": np.float32(5)},
    )
    client = connect(stock_server(StockServing({"serving_default": signature})))
    assert client.predict({"x": [1.0]})["y"].tolist() == [6]
    assert client.predict({"x": [1.0], "bias": 1})["y"].tolist() == [2]
    assert "bias: float32 [] = default" in repr(client.metadata())
    with pytest.raises(errors.InvalidInputError, match="also wants 'x'"):
        client.predict({"bias": 1})


def test_outputs_and_signatures_that_do_not_exist_are_refused(stock_server, connect):
    serving = StockServing({"serving_default": doubled(), "__init": doubled("init")})
    client = connect(stock_server(serving))
    with pytest.raises(errors.InvalidInputError, match=r"has no output 'z'. It is \(x"):
        client.predict([[1, 2]], outputs=["y", "z"])
    for outputs in ("y", [], [1], ["\ud800"]):
        with pytest.raises(errors.InvalidInputError, match="outputs must be a list of names"):
            client.predict([[1, 2]], outputs=outputs)
    assert set(client.predict([[1, 2]], outputs=(name for name in ["y"]))) == {"y"}
    assert set(client.predict([[1, 2]], outputs=np.array(["y"]))) == {"y"}
    assert len(serving.received("Predict")) == 2
    with pytest.raises(
        errors.FailedPreconditionError, match="key \"sig\" not found; the model has 'serving_default'"
    ):
        client.predict([[1, 2]], "sig")
    assert len(serving.received("Predict")) == 2
    assert "__init" in client.metadata().signatures
    assert "__init" not in repr(client.metadata())


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"version": "3"}, "version must be an integer"),
        ({"version": True}, "version must be an integer"),
        ({"version": -1}, "version must be at least 0"),
        ({"version": 2**63}, "version must be at least 0 and fit 64 bits"),
        ({"version": "stable"}, r'a Label\("stable"\), or None'),
    ],
)
def test_a_version_is_checked_before_anything_is_sent(connect, asked, message):
    client = connect("127.0.0.1:1")
    for call in (client.predict, client.classify):
        with pytest.raises(errors.InvalidInputError, match=message):
            call([[1, 2]], **asked)
    for call in (client.metadata, client.status):
        with pytest.raises(errors.InvalidInputError, match=message):
            call(**asked)
    rows = iter([[1, 2]])
    for kind in (Client, AsyncClient):
        for known in (None, Signature({}, {})):
            with pytest.raises(errors.InvalidInputError, match=message):
                kind("127.0.0.1:1", "half").predict_iter(rows, known=known, **asked)
    assert next(rows) == [1, 2], "no row is read"


@pytest.mark.parametrize("version", [True, [1]])
def test_a_version_is_checked_before_the_cache_is_searched(stock_server, connect, version):
    client = connect(stock_server(StockServing()))
    client.predict([[1, 2]], version=1)
    with pytest.raises(errors.InvalidInputError, match="version must be an integer"):
        client.predict([[1, 2]], version=version)


def echo_of_sound():
    signature = StockSignature(
        {"audio": (tf.string, (None,))}, lambda arrays: {"y": arrays["audio"]}, {"y": (tf.string, (None,))}
    )
    return StockServing({"serving_default": signature})


def test_recordings_are_sent_as_wav_files(stock_server, connect, tmp_path):
    recording = Recording(np.arange(-80, 80, dtype="int16"), 8000)
    with_notes = wav_bytes(np.ones(4, "int16"), 8000) + b"LIST\x02\0\0\0ab"  # sent as it is, with its notes
    (tmp_path / "a.wav").write_bytes(with_notes)
    floats = np.linspace(-1, 1, 50, dtype="float32")
    asked = [tmp_path / "a.wav", recording, (floats, 44_100), with_notes, (floats.tolist(), 44_100)]
    with connect(stock_server(echo_of_sound())) as client:
        for inputs in (asked, {"audio": asked}):
            found = list(client.predict(inputs)["y"])
            assert found[:2] == [with_notes, recording.wav()]
            assert found[2] == found[4] == Recording(floats, 44_100).wav()
            assert found[3] == with_notes
        assert [row["y"] for row in client.predict_iter(asked)] == found


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (Path("nowhere.wav"), "input 'audio', row 1: .*No such file.*nowhere.wav"),
        ((np.zeros(4), 0), "input 'audio', row 1: .*sample rate must be an integer"),
        ((np.zeros(4),), "input 'audio', row 1: .*Recording 0"),
        (([["a"]], 8000), "input 'audio', row 1"),
        (__file__, "input 'audio', row 1: a text would be sent.*test_inputs.py.*`pathlib.Path`"),
    ],
)
def test_what_is_no_recording_is_refused_with_its_row(stock_server, connect, row, message):
    serving = echo_of_sound()
    with (
        connect(stock_server(serving)) as client,
        pytest.raises(errors.InvalidInputError, match=message),
    ):
        client.predict([(np.zeros(4), 8000), row])
