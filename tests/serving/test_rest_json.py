"""The JSON of the REST API against what TensorFlow Serving's own tests and sources say it reads and writes.

Reference: tensorflow_serving/util/json_tensor_test.cc and json_tensor.cc.
"""

import base64
import json
import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from keras_selfattn.serving.errors import InvalidArgumentError, ServingError, UnimplementedError
from keras_selfattn.serving.server.rest.json_examples import examples_request
from keras_selfattn.serving.server.rest.json_in import predict_inputs
from keras_selfattn.serving.server.rest.json_out import (
    classify_outputs,
    error_body,
    predict_outputs,
    regress_outputs,
)
from keras_selfattn.serving.wire import codec
from keras_selfattn.serving.wire import messages_pb2 as pb

CODES = {
    "bool": pb.DT_BOOL,
    **{"int8": pb.DT_INT8, "int16": pb.DT_INT16, "int32": pb.DT_INT32, "int64": pb.DT_INT64},
    **{"uint8": pb.DT_UINT8, "uint16": pb.DT_UINT16, "uint32": pb.DT_UINT32, "uint64": pb.DT_UINT64},
    **{"float32": pb.DT_FLOAT, "float64": pb.DT_DOUBLE},
}
ROW_ERROR = "Failed to process element: {} of 'instances' list. Error: INVALID_ARGUMENT: {}"


def signatures(defaults=(), **inputs):
    infos = {name: pb.TensorInfo(dtype=code) for name, code in inputs.items()}
    given = {name: codec.encode(np.float32(1)) for name in defaults}
    return {"serving_default": pb.SignatureDef(inputs=infos, defaults=given)}


def asked(body, **inputs):
    return predict_inputs(body.encode() if isinstance(body, str) else body, signatures(**inputs)).inputs


def refusal(body, kind=InvalidArgumentError, **inputs):
    with pytest.raises(kind) as caught:
        asked(body, **inputs)
    return str(caught.value)


def same(array, expected, dtype):
    assert array.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(array, np.array(expected, dtype), strict=True)


# What a predict asks for.


def test_rows_of_a_single_unnamed_input_become_one_array():
    request = predict_inputs(b'{"instances": [[1,2],[3,4],[5,6]]}', signatures(default=pb.DT_INT32))
    assert (request.signature_name, request.rows) == ("serving_default", True)
    same(request.inputs["default"], [[1, 2], [3, 4], [5, 6]], "int32")


@pytest.mark.parametrize(("code", "dtype"), [(pb.DT_FLOAT, "f4"), (pb.DT_DOUBLE, "f8")])
def test_integers_and_fractions_mix_in_a_float_input(code, dtype):
    found = asked('{"instances": [1, 2.0, 3, 4, 5.003, 0.007, 0.0]}', x=code)["x"]
    same(found, [1, 2.0, 3, 4, 5.003, 0.007, 0.0], dtype)


def test_the_body_names_the_signature():
    named = {"predict_images": pb.SignatureDef(inputs={"x": pb.TensorInfo(dtype=pb.DT_INT32)})}
    body = b'{"signature_name": "predict_images", "instances": [[1,2]]}'
    assert predict_inputs(body, named).signature_name == "predict_images"


def test_base64_values_are_strings_as_scalars_and_in_lists():
    scalars = '{"instances": [{"b64": "aGVsbG8="}, {"b64": "d29ybGQ="}]}'
    same(asked(scalars, x=pb.DT_STRING)["x"], [b"hello", b"world"], object)
    lists = '{"instances": [[{"b64": "aGVsbG8="}], [{"b64": "d29ybGQ="}]]}'
    same(asked(lists, x=pb.DT_STRING)["x"], [[b"hello"], [b"world"]], object)
    named = '{"instances": [{"x": [[{"b64": "aGVsbG8="}], [{"b64": "d29ybGQ="}]]}]}'
    same(asked(named, x=pb.DT_STRING)["x"], [[[b"hello"], [b"world"]]], object)


def test_base64_and_text_mix_and_base64_needs_no_padding():
    body = '{"instances": ["naïve", {"b64": "aGVs bG8"}]}'
    same(asked(body, x=pb.DT_STRING)["x"], ["naïve".encode(), b"hello"], object)


def test_several_inputs_come_by_name_in_each_row():
    body = """{"instances": [
        {"i": [[1,2],[3,4],[5,6]], "s": ["foo", "bar"], "f": [1.0, NaN], "d": [NaN]},
        {"i": [[7,8],[9,0],[1,2]], "s": ["baz", "bat"], "f": [2.0, Infinity], "d": [-Infinity]}]}"""
    found = asked(body, i=pb.DT_INT32, s=pb.DT_STRING, f=pb.DT_FLOAT, d=pb.DT_DOUBLE)
    same(found["i"], [[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 0], [1, 2]]], "i4")
    same(found["s"], [[b"foo", b"bar"], [b"baz", b"bat"]], object)
    same(found["f"], [[1, math.nan], [2, math.inf]], "f4")
    same(found["d"], [[math.nan], [-math.inf]], "f8")


def test_a_column_may_leave_out_the_name_of_the_only_input():
    for body in ('{"inputs": {"i": [[[1,2],[3,4],[5,6]]]}}', '{"inputs": [[[1,2],[3,4],[5,6]]]}'):
        request = predict_inputs(body.encode(), signatures(i=pb.DT_INT32))
        assert not request.rows
        same(request.inputs["i"], [[[1, 2], [3, 4], [5, 6]]], "i4")


def test_columns_may_differ_in_size_be_scalars_and_stand_beside_others():
    body = '{"inputs": {"i": [[1],[2],[3]], "s": ["foo", "bar"], "b": {"b64": "aGVsbG8="}, "more": 1}}'
    found = asked(body, i=pb.DT_INT32, s=pb.DT_STRING, b=pb.DT_STRING)
    same(found["i"], [[1], [2], [3]], "i4")
    same(found["s"], [b"foo", b"bar"], object)
    same(found["b"], b"hello", object)
    assert found.keys() == {"i", "s", "b"}


def test_inputs_with_a_default_may_be_left_out_by_all_rows_or_columns():
    known = signatures(defaults=["b"], a=pb.DT_INT32, b=pb.DT_FLOAT)
    assert predict_inputs(b'{"instances": [{"a": 1}]}', known).inputs.keys() == {"a"}
    assert predict_inputs(b'{"inputs": {"a": 1}}', known).inputs.keys() == {"a"}
    assert predict_inputs(b'{"inputs": {"a": 1, "b": 2}}', known).inputs.keys() == {"a", "b"}
    with pytest.raises(InvalidArgumentError, match=r"element: 1 of (.|\n)* keys must be equal to: a$"):
        predict_inputs(b'{"instances": [{"a": 1}, {"a": 1, "b": 2}]}', known)


def test_infinities_are_read_in_every_way_rapidjson_reads_them():
    found = asked('{"inputs": [Inf, -Inf, Infinity, -Infinity, NaN, -NaN]}', x=pb.DT_FLOAT)["x"]
    same(found, [math.inf, -math.inf, math.inf, -math.inf, math.nan, math.nan], "f4")
    text = '{"signature_name": "Inf", "inputs": [Inf]}'
    assert "Inf" in refusal(text, x=pb.DT_FLOAT)


def test_bytes_that_are_no_utf8_reach_the_model_as_they_are():
    same(asked(b'\xef\xbb\xbf{"inputs": ["a\xff"]}', x=pb.DT_STRING)["x"], [b"a\xff"], object)


BIG = [1435774380, 16777217, -(2**63), 2**64 - 1, 10**20, 0.1]


@pytest.mark.parametrize("rows", [BIG, [[value] for value in BIG]], ids=["scalars", "lists"])
@pytest.mark.parametrize(("code", "dtype"), [(pb.DT_FLOAT, "f4"), (pb.DT_DOUBLE, "f8")])
def test_a_float_input_takes_any_number_and_rounds_it(code, dtype, rows):
    expected = np.array(rows, np.float64).astype(dtype)
    same(asked(json.dumps({"instances": rows}), x=code)["x"], expected, dtype)
    same(asked(json.dumps({"inputs": rows}), x=code)["x"], expected, dtype)


def test_a_number_beyond_float32_is_infinite_there_and_itself_in_a_double():
    body = '{"inputs": [1.797e308, -1.797e308, 3.5e38, 1]}'
    same(asked(body, x=pb.DT_FLOAT)["x"], [math.inf, -math.inf, math.inf, 1], "f4")
    same(asked(body, x=pb.DT_DOUBLE)["x"], [1.797e308, -1.797e308, 3.5e38, 1], "f8")


def test_a_number_that_no_double_holds_is_refused_beside_one_written_as_infinite():
    for number in ("1e400", "-1e400", "1" + "0" * 400):
        for code in (pb.DT_FLOAT, pb.DT_DOUBLE):
            body = f'{{"instances": [Infinity, {number}, 1e300]}}'
            assert refusal(body, x=code).endswith("Number too big to be stored in double.")


def test_integers_beyond_64_bits_are_doubles():
    same(asked('{"inputs": [100000000000000000000]}', x=pb.DT_FLOAT)["x"], [1e20], "f4")
    assert "not of expected type: int64" in refusal('{"inputs": [100000000000000000000]}', x=pb.DT_INT64)


@pytest.mark.parametrize("name", [name for name in CODES if "int" in name])
def test_integer_inputs_hold_their_range_and_no_more(name):
    info = np.iinfo(name)
    same(asked(f'{{"inputs": [{info.min}, {info.max}]}}', x=CODES[name])["x"], [info.min, info.max], name)
    for beyond in (info.min - 1, info.max + 1):
        expected = f"JSON Value: {beyond} Type: Number is not of expected type: {name}"
        assert refusal(f'{{"inputs": {beyond}}}', x=CODES[name]) == expected


@pytest.mark.parametrize("rows", ["[]", "[[], []]", "[[[], []]]"])
def test_empty_lists_become_empty_arrays(rows):
    for code in (pb.DT_FLOAT, pb.DT_INT64, pb.DT_BOOL, pb.DT_STRING):
        assert asked(f'{{"inputs": {rows}}}', x=code)["x"].shape == np.array(json.loads(rows)).shape


# What a predict is refused with.


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("", "JSON Parse error: The document is empty"),
        (" \n", "JSON Parse error: The document is empty. at offset: 2"),
        ("x", "JSON Parse error: Invalid value. at offset: 0"),
        ("trux", "JSON Parse error: Invalid value. at offset: 3"),
        ('{"é": -}', "JSON Parse error: Invalid value. at offset: 8"),
        ("[1 2]", "JSON Parse error: Missing a comma or ']' after an array element. at offset: 3"),
        ('{"a": [] 2}', "JSON Parse error: Missing a comma or '}' after an object member. at offset: 9"),
        ('{"a" 2}', "JSON Parse error: Missing a colon after a name of object member. at offset: 5"),
        ("{a: 2}", "JSON Parse error: Missing a name for object member. at offset: 1"),
        ("{} {}", "JSON Parse error: The document root must not be followed by other values. at offset: 3"),
        ("[1, ...]", "JSON Parse error: Invalid value. at offset: 4"),
        ("[1, 2...]", "JSON Parse error: Miss fraction part in number. at offset: 6"),
        ("[1e+]", "JSON Parse error: Miss exponent in number. at offset: 4"),
        ('["a', "JSON Parse error: Missing a closing quotation mark in string. at offset: 3"),
        ('["a\\q"]', "JSON Parse error: Invalid escape character in string. at offset: 3"),
        ('{"inputs": ["\\ud800"]}', "JSON Parse error: The surrogate pair in string is invalid."),
        ('{"inputs": 1e400}', "JSON Parse error: Number too big to be stored in double."),
        ('{"inputs": 1' + "0" * 400 + "}", "JSON Parse error: Number too big to be stored in double."),
        ('{"inputs": 1' + "0" * 5000 + "}", "JSON Parse error: Number too big to be stored in double."),
        ("[" * 100_000, "JSON Parse error: The document is nested too deeply."),
        ("[]", "JSON Value: [] Is not object"),
        ("1.5", "JSON Value: 1.5 Is not object"),
        ("{}", "Missing 'inputs' or 'instances' key"),
        ('{"signature_name": "X"}', 'Serving signature name: "X" not found in signature def'),
    ],
)
def test_what_is_no_request_is_refused_in_rapidjsons_words(body, text):
    code = pb.DT_STRING if "ud800" in body else pb.DT_DOUBLE
    assert refusal(body, x=code) == text


def test_a_document_of_the_wrong_form_is_shown_in_the_refusal():
    both = refusal('{"instances": [1], "inputs": [1]}', x=pb.DT_INT32)
    assert both.startswith('JSON Value: {\n    "instances": [\n        1\n    ],\n')
    end = "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist "
    assert both.endswith("} " + end)
    assert "'signature_name' key must be a string value." in refusal('{"signature_name": 5}', x=pb.DT_INT32)
    assert "Excepting 'instances' to be an list/array" in refusal('{"instances": {}}', x=pb.DT_INT32)
    assert "No values in 'instances' array" in refusal('{"instances": []}', x=pb.DT_INT32)
    assert len(refusal(json.dumps({"signature_name": 5, "inputs": [0.5] * 10**6}), x=pb.DT_INT32)) < 2000


def test_a_signature_without_inputs_takes_no_request():
    assert refusal('{"inputs": 1}') == "Failed to get input map for signature: DEFAULT"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('"x"', 'JSON Value: "x" Type: String is not of expected type: float'),
        ("null", "JSON Value: null Type: Null is not of expected type: float"),
        ("true", "JSON Value: true Type: True is not of expected type: float"),
        ('{"a": 1}', 'JSON Value: {\n    "a": 1\n} Type: Object is not of expected type: float'),
        ("[1, [1]]", "Encountered list at unexpected level: 1 expected < 1"),
        ("[[1], 1]", "JSON Value: 1 found at incorrect level: 2 in the JSON DOM. Expected at level: 2"),
        ("[[1, 2], [3]]", "Encountered list at unexpected size: 1 at level: 1 expected size: 2"),
        ("[" * 33 + "]" * 33, "JSON Value: nested deeper than the 32 axes of a tensor"),
    ],
)
def test_a_value_that_does_not_fit_the_input_is_named(value, text):
    body = f'{{"inputs": {{"x": {value}}}}}'
    assert refusal(body, x=pb.DT_FLOAT).startswith(text)


def test_a_value_that_does_not_fit_is_named_with_its_row():
    text = 'JSON Value: "x" Type: String is not of expected type: float'
    assert refusal('{"instances": ["x"]}', x=pb.DT_FLOAT) == ROW_ERROR.format(0, text)
    text = "JSON Value: true Type: True is not of expected type: int32"
    assert refusal('{"instances": [1, true]}', x=pb.DT_INT32) == ROW_ERROR.format(1, text)
    text = "JSON Value: 1.0 Type: Number is not of expected type: int32"
    assert refusal('{"instances": [1, 1.0]}', x=pb.DT_INT32) == ROW_ERROR.format(1, text)


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ("[[1,2],[3,4],[5,6,7]]", ROW_ERROR.format(2, "Expecting tensor size: 2 but got: 3")),
        ("[[1,2],[3,4],[[5,6]]]", ROW_ERROR.format(2, "Expecting shape [2] but got: [1,2]")),
        ("[1, [1]]", ROW_ERROR.format(1, "Expecting shape [] but got: [1]")),
        ('[[1], {"x": 1}]', "Expecting value/list but got object at item 1 of input list"),
        ('[{"x": 1}, [1]]', "Expecting object but got list at item 1 of input list"),
    ],
)
def test_rows_must_be_alike(rows, text):
    assert refusal(f'{{"instances": {rows}}}', x=pb.DT_INT32) == text


def test_rows_of_several_inputs_must_name_them_all_and_nothing_else():
    two = {"a": pb.DT_INT32, "b": pb.DT_STRING}
    element = "Failed to process element: 0"
    unknown = "of 'instances' list. Error: INVALID_ARGUMENT: JSON object: does not have named input: c"
    assert refusal('{"instances": [{"c": 1}]}', **two) == f"{element} key: c {unknown}"
    missing = "of 'instances' list. JSON object: {\n    \"a\": 1\n} keys must be equal to: a,b"
    assert refusal('{"instances": [{"a": 1}]}', **two) == f"{element} {missing}"
    plain = "but expecting {} as multiple input tensors required as per tensorinfo_map"
    listed = "instances is a plain list, " + plain.format("list of objects")
    assert refusal('{"instances": [1]}', **two) == listed
    assert refusal('{"inputs": [1]}', **two) == "inputs is a plain value/list, " + plain.format("an object")
    assert refusal('{"inputs": {"a": 1}}', **two) == "Missing named input: b in 'inputs' object."


def test_bad_base64_is_refused():
    wrong = "JSON Value: {} not formatted correctly for base64 data"
    assert refusal('{"inputs": [{"b64": "a#"}]}', x=pb.DT_STRING) == "Unable to base64 decode"
    assert refusal('{"inputs": [{"b64": "é"}]}', x=pb.DT_STRING) == "Unable to base64 decode"
    assert refusal('{"inputs": [{}]}', x=pb.DT_STRING) == wrong.format("{}")


@pytest.mark.parametrize(
    ("code", "name"), [(pb.DT_HALF, "half"), (pb.DT_BFLOAT16, "bfloat16"), (pb.DT_COMPLEX64, "complex64")]
)
def test_types_that_json_does_not_carry_are_unimplemented(code, name):
    text = f"Conversion of JSON Value: 1.5 to type: {name}"
    assert refusal('{"inputs": [1.5]}', UnimplementedError, x=code) == text
    expected = ROW_ERROR.format(0, text).replace("INVALID_ARGUMENT", "UNIMPLEMENTED")
    assert refusal('{"instances": [1.5]}', x=code) == expected
    assert refusal('{"inputs": []}', UnimplementedError, x=code).endswith(f"to type: {name}")


# What a predict is answered with.


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


def test_floats_have_six_digits_where_these_are_enough_and_always_a_point_or_an_exponent():
    values = [9000000, 999999, 0.5, 0.0003, 0.00003, 555557.5, 1 / 3, 16777217, -0.0, 1e9, 0.1]
    array = np.array(values, np.float32)
    expected = "9e+06, 999999.0, 0.5, 0.0003, 3e-05, 555557.5, 0.333333343, 16777216.0, -0.0, 1e+09, 0.1"
    assert predict_outputs({"y": array}, True) == f'{{"predictions": [{expected}]}}'.encode()


def test_six_digits_in_the_middle_of_two_float32_values_stand_for_the_one_they_are_read_as():
    middle = np.float32(1.41904e10)
    for value in (np.nextafter(middle, np.float32(0)), middle, np.nextafter(middle, np.float32(math.inf))):
        body = predict_outputs({"y": np.array([value])}, rows=True)
        assert body == f'{{"predictions": [{float_text(value)}]}}'.encode()


def test_what_is_not_finite_is_written_as_a_word():
    array = np.array([[math.nan, math.inf], [3, -math.inf]], np.float32)
    expected = b'{"predictions": [[NaN, Infinity], [3.0, -Infinity]]}'
    assert predict_outputs({"y": array}, True) == expected
    assert predict_outputs({"y": array.astype(np.float64)}, True) == expected


def test_the_largest_float32_is_read_back_though_it_is_written_a_little_larger():
    largest = np.array([np.finfo(np.float32).max], np.float32)
    body = predict_outputs({"y": largest}, rows=True)
    assert body == b'{"predictions": [3.40282347e+38]}'
    same(asked(body.replace(b"predictions", b"instances"), x=pb.DT_FLOAT)["x"], largest, "f4")


def test_text_that_is_no_utf8_is_replaced_and_the_answer_stays_json():
    assert answer(y=np.array([b"a\xff", "é".encode(), b'\0"'], object)) == {
        "predictions": ["a\ufffd", "é", '\0"']
    }


def float_text(value):
    """TensorFlow Serving's rule, one value at a time: six digits if they are read back as it, else nine."""
    text = f"{value:g}"
    text = text if np.float32(text) == value else f"{value:.9g}"
    return text if "." in text or "e" in text else text + ".0"


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False) | st.integers(-(10**8), 10**8)))
def test_float32_values_are_written_as_tensorflow_serving_writes_them(values):
    array = np.array(values, np.float32)
    body = predict_outputs({"y": array}, True).decode()
    assert body == '{"predictions": [' + ", ".join(map(float_text, array)) + "]}"


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


shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


def arrays(name):
    return hnp.arrays(np.dtype(name), shapes)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(CODES)).flatmap(arrays), st.booleans())
def test_an_array_survives_being_written_and_read(array, rows):
    rows = rows and array.ndim > 0 and len(array) > 0
    written = json.loads(predict_outputs({"y": array}, rows))
    body = json.dumps({"instances" if rows else "inputs": written["predictions" if rows else "outputs"]})
    found = asked(body, x=CODES[array.dtype.name])["x"]
    known = (
        array.shape[: array.shape.index(0) + 1] if 0 in array.shape else array.shape
    )  # [] has no inner axes
    same(found, array.reshape(known), array.dtype)


@settings(max_examples=200, deadline=None)
@given(hnp.arrays(object, shapes, elements=st.text(st.characters(exclude_categories=["Cs"]))), st.booleans())
def test_strings_survive_being_written_and_read(texts, binary):
    array = np.empty(texts.size, object)
    array[:] = [text.encode() for text in texts.reshape(-1)]
    array = array.reshape(texts.shape)
    written = json.loads(predict_outputs({"y_bytes" if binary else "y": array}, rows=False))["outputs"]
    found = asked(json.dumps({"inputs": written}), x=pb.DT_STRING)["x"]
    assert found.tolist() == array.tolist()


# Classify and regress.


def examples_of(body):
    return examples_request(json.dumps(body).encode() if isinstance(body, dict) else body.encode())


def floats_of(feature):
    return np.frombuffer(feature.float_list.value, "<f4").tolist()


def test_examples_hold_texts_floats_and_integers():
    request = examples_of(
        '{"examples": [{"names": ["foo", "bar"], "ratings": [8.0, 9.5], "age": 20}, {"n": []}]}'
    )
    assert (request.signature_name, request.context) == ("serving_default", None)
    feature = request.examples[0].features.feature
    assert list(feature["names"].bytes_list.value) == [b"foo", b"bar"]
    assert floats_of(feature["ratings"]) == [8.0, 9.5]
    assert list(feature["age"].int64_list.value) == [20]
    assert request.examples[1].features.feature["n"].WhichOneof("kind") is None


def test_examples_have_a_context_a_signature_and_mixed_features():
    body = """{"signature_name": "custom", "context": {"query": "pizza"}, "examples": [
        {"names": ["baz", {"b64": "aGVsbG8="}], "mix": [1, true, false], "ratings": [NaN, Infinity]},
        {"ratings": -Infinity, "big": 100000000000000000000}]}"""
    request = examples_of(body)
    assert request.signature_name == "custom"
    assert list(request.context.features.feature["query"].bytes_list.value) == [b"pizza"]
    first, second = (each.features.feature for each in request.examples)
    assert list(first["names"].bytes_list.value) == [b"baz", b"hello"]
    assert list(first["mix"].int64_list.value) == [1, 1, 0]
    assert math.isnan(floats_of(first["ratings"])[0])
    assert floats_of(first["ratings"])[1] == math.inf
    assert floats_of(second["ratings"]) == [-math.inf]
    assert floats_of(second["big"]) == [float(np.float32(1e20))]


def test_a_number_beyond_float32_is_infinite_in_an_example():
    request = examples_of('{"examples": [{"n": [1.797e308, 2.5]}, {"n": [Infinity, -1.797e308]}]}')
    first, second = (each.features.feature["n"] for each in request.examples)
    assert floats_of(first) == [math.inf, 2.5]
    assert floats_of(second) == [math.inf, -math.inf]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('{"signature_name": ["x"]}', "'signature_name' key must be a string value."),
        ('{"context": [{}]}', "Example must be JSON object but got JSON Array"),
        ("{}", "JSON Value: {} When method is classify, key 'examples' is expected and was not found"),
        ('{"examples": {"a": 1}}', "Expecting 'examples' value to be an list/array"),
        ('{"examples": []}', "'examples' value is an empty array"),
        ('{"examples": [[{}]]}', "Example must be JSON object but got JSON Array"),
        ('{"examples": [{"n": [10, null]}]}', "Feature: n has element with unexpected JSON type: Null"),
        (
            '{"examples": [{"n": [10, 10.0]}]}',
            "Unexpected element type in feature: n expecting type: int64_t",
        ),
        ('{"examples": [{"n": [0.5, true]}]}', "Unexpected element type in feature: n expecting type: float"),
        ('{"examples": [{"n": ["a", 1]}]}', "Unexpected element type in feature: n expecting type: bytes"),
        ('{"examples": [{"n": [10, {"t": 1}]}]}', "Feature: n has element with unexpected JSON type: Object"),
        ('{"examples": [{"n": [[10], 20]}]}', "Feature: n has element with unexpected JSON type: Array"),
        (
            '{"examples": [{"n": [20, 18446744073709551603]}]}',
            "Feature: n has uint64 element. Only int64_t is supported.",
        ),
        ('{"examples": [{"n": [1.5, 1e400]}]}', "JSON Parse error: Number too big to be stored in double."),
        ('{"examples": [{"\\ud800": 1}]}', "JSON Parse error: The surrogate pair in string is invalid."),
    ],
)
def test_what_is_no_example_is_refused(body, text):
    with pytest.raises(InvalidArgumentError) as caught:
        examples_of(body)
    assert str(caught.value).endswith(text)


def test_classes_are_written_as_pairs_of_label_and_score():
    rows = [[("car", 0.2), ("bike", 0.7)], [("", 0.7)], []]
    classes = [[pb.Class(label=label, score=score) for label, score in row] for row in rows]
    result = pb.ClassificationResult(classifications=[pb.Classifications(classes=row) for row in classes])
    assert classify_outputs(result) == b'{"results": [[["car", 0.2], ["bike", 0.7]], [["", 0.7]], []]}'


def test_regressions_are_written_as_numbers():
    values = [0.2, math.inf, 1.0, -math.inf, math.nan]
    result = pb.RegressionResult(regressions=[pb.Regression(value=value) for value in values])
    assert regress_outputs(result) == b'{"results": [0.2, Infinity, 1.0, -Infinity, NaN]}'


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


# Whatever comes.

KNOWN = [signatures(x=code) for code in (*CODES.values(), pb.DT_STRING, pb.DT_HALF, pb.DT_RESOURCE)]
KNOWN += [signatures(), signatures(defaults=["b"], a=pb.DT_FLOAT, b=pb.DT_STRING)]
numbers = st.floats() | st.integers() | st.sampled_from([10**400, 2**63, -(2**63), 2**24, 1e39])
keys = st.sampled_from(["a", "b", "x", "b64", "\ud800"]) | st.text(max_size=3)
leaves = st.none() | st.booleans() | numbers | st.text(max_size=5) | st.sampled_from(["\ud800", "aGk="])
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=2),
    max_leaves=12,
)
fields = st.sampled_from(["instances", "inputs", "examples", "context", "signature_name", "x"])
documents = st.dictionaries(fields, values, max_size=3).map(lambda found: json.dumps(found).encode())
words = st.sampled_from(["{", "}", "[", "]", ",", ":", '"', "\\ue1", "-.0", "Inf", "NaN", "tru", "b64"])
scraps = st.lists(words | st.text('{}[]",:\\u0dE+.'))
bodies = (
    documents
    | scraps.map("".join).map(str.encode)
    | st.binary()
    | st.tuples(documents, st.integers(0, 99)).map(lambda cut: cut[0][: cut[1]])
)


@settings(max_examples=1000, deadline=None)
@given(bodies, st.sampled_from(KNOWN))
def test_no_body_whatever_does_more_than_be_refused(body, known):
    for read in (lambda: predict_inputs(body, known), lambda: examples_request(body)):
        message = ""
        try:
            read()
        except ServingError as error:
            message = str(error)
        assert json.loads(error_body(message)) == {"error": message}


@pytest.mark.parametrize("scrap", ['"\\"', '\\"', '["', '{"a":', "1", "[", "Inf", '{"b64":"'])
def test_no_scrap_repeated_takes_long(scrap):
    for body in (scrap * 200_000, '["' + scrap * 200_000, '{"inputs": [1,' + scrap * 200_000):
        with pytest.raises(ServingError):
            predict_inputs(body.encode(), KNOWN[0])


def test_base64_of_any_bytes_is_read():
    data = bytes(range(256))
    body = json.dumps({"inputs": [{"b64": base64.b64encode(data).decode()}]})
    same(asked(body, x=pb.DT_STRING)["x"], [data], object)
