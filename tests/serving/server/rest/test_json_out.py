"""Answers in JSON: floats, words for what is not finite, bytes, names and rows."""

import json
import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_selfattn.serving.errors import InvalidArgumentError
from keras_selfattn.serving.server.rest.json_out import (
    classify_outputs,
    error_body,
    predict_outputs,
    regress_outputs,
)
from keras_selfattn.serving.wire import messages_pb2 as pb


def same(array, expected, dtype):
    assert array.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(array, np.array(expected, dtype), strict=True)


def answer(rows=True, **outputs):
    return json.loads(predict_outputs(outputs, rows))


def test_one_output_is_written_bare():
    array = np.array([[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 0], [1, 2]]], np.int32)
    assert answer(y=array) == {"predictions": array.tolist()}
    assert answer(rows=False, y=array) == {"outputs": array.tolist()}
    assert answer(rows=False, y=np.array(1.5, np.float32)) == {"outputs": 1.5}


def test_several_outputs_are_objects():
    outputs = {
        "d": np.array([8.0, 9.0]),
        "f": np.array([[1.0], [2.0]], np.float32),
        "s": np.array([[b"foo", b"bar"], [b"baz", b"bat"]], object),
        "s_bytes": np.array([[b"hello"], [b"world"]], object),
    }
    rows = [
        {"d": 8.0, "f": [1.0], "s": ["foo", "bar"], "s_bytes": [{"b64": "aGVsbG8="}]},
        {"d": 9.0, "f": [2.0], "s": ["baz", "bat"], "s_bytes": [{"b64": "d29ybGQ="}]},
    ]
    assert answer(**outputs) == {"predictions": rows}
    columns = {name: [row[name] for row in rows] for name in outputs}
    assert answer(rows=False, **outputs) == {"outputs": columns}


def test_no_rows_are_an_empty_list():
    assert answer(y=np.empty((0, 2), np.int32)) == {"predictions": []}
    empty = {"s": np.empty((0, 1, 2), object), "f": np.empty((0, 3, 4), np.float32)}
    assert answer(**empty) == {"predictions": []}
    assert answer(y=np.empty((2, 0), np.float32)) == {"predictions": [[], []]}


def written(array):
    """The numbers' texts in an answer."""
    body = predict_outputs({"y": array}, rows=True).decode()
    return body.removeprefix('{"predictions":[').removesuffix("]}").split(",")


def test_floats_have_six_digits_where_these_are_enough_else_nine_and_always_a_point_or_an_exponent():
    values = [9000000, 999999, 0.5, 0.0003, 0.00003, 555557.5, 1 / 3, 16777217, -0.0, 1e9, 0.1, 1e20]
    expected = (
        "9000000.0 999999.0 0.5 0.0003 3e-05 555557.5 0.333333343 16777216.0 -0.0 1000000000.0 0.1 1e+20"
    )
    assert written(np.array(values, np.float32)) == expected.split()
    assert written(np.array(values * 3, np.float32)) == expected.split() * 3


def test_what_is_not_finite_is_written_as_a_word():
    array = np.array([[math.nan, math.inf], [3, -math.inf]], np.float32)
    expected = b'{"predictions":[[NaN,Infinity],[3.0,-Infinity]]}'
    assert predict_outputs({"y": array}, True) == expected
    assert predict_outputs({"y": array.astype(np.float64)}, True) == expected


def test_text_that_is_no_utf8_is_replaced_and_the_answer_stays_json():
    assert answer(y=np.array([b"a\xff", "é".encode(), b'\0"'], object)) == {
        "predictions": ["a\ufffd", "é", '\0"']
    }


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(width=32) | st.integers(-(10**8), 10**8), min_size=1))
def test_float32_values_are_read_back_as_themselves(values):
    # Few values are written one by one, many by NumPy.
    for array in (np.array(values[:32], np.float32), np.repeat(np.array(values, np.float32), 33)):
        same(np.array([float(text) for text in written(array)], np.float32), array, "f4")


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_float32_values_have_the_digits_that_printf_gives_them(values):
    """A double of other digits would be another number to a client that reads doubles."""

    def shortest(value):
        short = f"{value:.6g}"
        return float(short if np.float32(short) == np.float32(value) else f"{value:.9g}")

    # Few values are written one by one, many by NumPy.
    for array in (np.array(values[:32], np.float32), np.repeat(np.array(values, np.float32), 33)):
        assert [float(text) for text in written(array)] == [shortest(value) for value in array.tolist()]


@pytest.mark.parametrize("value", [9.44935e10, 2.62261e14, -7.80198e-18, 1e-45, 3.4028235e38])
def test_a_float32_far_from_one_has_no_more_than_nine_digits(value):
    (text,) = written(np.array([value], np.float32))
    assert len(text.lower().split("e")[0].replace(".", "").strip("-0")) <= 9


def test_a_number_in_the_middle_of_two_float32_values_is_written_for_the_one_it_is_read_as():
    middle = np.float32(1.41904e10)
    near = [np.nextafter(middle, np.float32(0)), middle, np.nextafter(middle, np.float32(math.inf))]
    texts = written(np.array(near, np.float32))
    assert len(set(texts)) == 3
    assert [np.float32(text) for text in texts] == near


@pytest.mark.parametrize(
    ("outputs", "text"),
    [
        ({}, "Cannot convert empty tensor map to JSON"),
        ({"y": np.array([1], np.complex64)}, "Failed to write JSON value for tensor type: complex64"),
        ({"y": np.array([1], np.float16)}, "Failed to write JSON value for tensor type: half"),
        ({"y": np.array([1], ml_dtypes.bfloat16)}, "Failed to write JSON value for tensor type: bfloat16"),
        ({"y": np.array(1)}, "Tensor name: y has no shape information "),
        (
            {"a": np.ones(2), "b": np.ones((1, 2))},
            "Tensor name: b has inconsistent batch size: 1 expecting: 2",
        ),
    ],
)
def test_answers_that_rows_or_json_do_not_hold_are_refused(outputs, text):
    with pytest.raises(InvalidArgumentError) as caught:
        predict_outputs(outputs, rows=True)
    assert str(caught.value) == text


def test_classes_are_written_as_pairs_of_label_and_score():
    rows = [[("car", 0.2), ("bike", 0.7)], [("", 0.7)], []]
    classes = [[pb.Class(label=label, score=score) for label, score in row] for row in rows]
    result = pb.ClassificationResult(classifications=[pb.Classifications(classes=row) for row in classes])
    assert classify_outputs(result) == b'{"results":[[["car",0.2],["bike",0.7]],[["",0.7]],[]]}'


def test_regressions_are_written_as_numbers():
    values = [0.2, math.inf, 1.0, -math.inf, math.nan]
    result = pb.RegressionResult(regressions=[pb.Regression(value=value) for value in values])
    assert regress_outputs(result) == b'{"results":[0.2,Infinity,1.0,-Infinity,NaN]}'


def test_results_without_rows_are_refused():
    with pytest.raises(InvalidArgumentError, match="Cannot convert empty ClassificationResults to JSON"):
        classify_outputs(pb.ClassificationResult())
    with pytest.raises(InvalidArgumentError, match="Cannot convert empty RegressionResults to JSON"):
        regress_outputs(pb.RegressionResult())


@pytest.mark.parametrize("message", ['Bad key: "key"', "Bad key: 'key'", "naïve\n"])
def test_an_error_is_written_as_json(message):
    assert json.loads(error_body(message)) == {"error": message}


def test_an_error_that_is_no_unicode_is_still_written_as_json():
    assert json.loads(error_body("a\ud800")) == {"error": "a?"}


numbers = st.floats() | st.integers() | st.sampled_from([10**400, 2**63, -(2**63), 2**24, 1e39])


keys = st.sampled_from(["a", "b", "x", "b64", "\ud800"]) | st.text(max_size=3)


leaves = st.none() | st.booleans() | numbers | st.text(max_size=5) | st.sampled_from(["\ud800", "aGk="])


values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=2),
    max_leaves=12,
)
