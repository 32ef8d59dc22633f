"""The JSON of the REST API against what TensorFlow Serving's own tests and sources say it reads.

Reference: tensorflow_serving/util/json_tensor_test.cc and json_tensor.cc.
"""

import base64
import contextlib
import json
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from keras_selfattn.serving.errors import InvalidArgumentError, ServingError, UnimplementedError
from keras_selfattn.serving.server.rest import json_in
from keras_selfattn.serving.server.rest.json_in import document, predict_inputs
from keras_selfattn.serving.server.rest.json_out import (
    error_body,
    predict_outputs,
)
from keras_selfattn.serving.server.rest.tensorflow_serving_rest import json_examples
from keras_selfattn.serving.wire import codec
from keras_selfattn.serving.wire import messages_pb2 as pb

CODES = {
    "bool": pb.DT_BOOL,
    **{"int8": pb.DT_INT8, "int16": pb.DT_INT16, "int32": pb.DT_INT32, "int64": pb.DT_INT64},
    **{"uint8": pb.DT_UINT8, "uint16": pb.DT_UINT16, "uint32": pb.DT_UINT32, "uint64": pb.DT_UINT64},
    **{"float32": pb.DT_FLOAT, "float64": pb.DT_DOUBLE},
}


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
    with pytest.raises(InvalidArgumentError, match=r"element: 1 of .* must be equal to: a. Received a,b"):
        predict_inputs(b'{"instances": [{"a": 1}, {"a": 1, "b": 2}]}', known)


def test_infinities_are_read_in_every_way_tensorflow_serving_reads_them():
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
        expected = f"JSON Value: {beyond} Type: Number is not of expected type: {name} at x[1]"
        assert refusal(f'{{"inputs": [0, {beyond}]}}', x=CODES[name]) == expected


@pytest.mark.parametrize("rows", ["[]", "[[], []]", "[[[], []]]"])
def test_empty_lists_become_empty_arrays(rows):
    for code in (pb.DT_FLOAT, pb.DT_INT64, pb.DT_BOOL, pb.DT_STRING):
        assert asked(f'{{"inputs": {rows}}}', x=code)["x"].shape == np.array(json.loads(rows)).shape


# What a predict is refused with.


DEEP = 100_000
UNLIKE = "Unexpected element type in feature: n."
UNEVEN = "Expecting a list of {}, as the first at this level, but got {}"
IN_ROW = "Failed to process element: {} of 'instances' list. Error: {}: {}"


@pytest.mark.parametrize(
    "body",
    [
        *("", " \n", "x", "trux", '{"é": -}', "[1 2]", '{"a": [] 2}', '{"a" 2}', "{a: 2}", "{} {}", "{}\0"),
        *(
            "[1, ...]",
            "[1, 2...]",
            "[1e+]",
            '["a',
            '["a\\q"]',
            '["\0"]',
            '{"inputs": 1} // one',
            "\ufeff\ufeff{}",
        ),
        *('{"inputs": 1,}', '{"inputs": 01}', '{"inputs": +1}', "{'inputs': 1}", '{"inputs": -Inff}'),
        *('{"inputs": 1e400}', '{"inputs": 1' + "0" * 400 + "}", '{"inputs": 1' + "0" * 5000 + "}"),
        *("[" * DEEP, '{"inputs": ' + "[" * DEEP + "]" * DEEP + "}", '{"a": ' * DEEP + "1" + "}" * DEEP),
    ],
    ids=lambda body: body[:20],
)
def test_what_is_no_json_is_a_parse_error(body):
    assert refusal(body, x=pb.DT_DOUBLE).startswith("JSON Parse error: ")
    if "1" + "0" * 399 not in body and "1e400" not in body:  # those matter where they become a number
        with pytest.raises(InvalidArgumentError, match="^JSON Parse error: "):
            json_examples(body.encode())


def test_half_of_a_surrogate_pair_is_no_text():
    for text in ("\\ud800", "a\\ude00\\ud83d"):
        assert "must be valid Unicode" in refusal(f'{{"inputs": ["{text}"]}}', x=pb.DT_STRING)
    same(asked('{"inputs": ["\\ud83d\\ude00"]}', x=pb.DT_STRING)["x"], ["\U0001f600".encode()], object)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("", "JSON Parse error: The document is empty"),
        ("{} {}", "JSON Parse error: Extra data: line 1 column 4 (char 3)"),
        ("[" * DEEP, "JSON Parse error: The document is nested too deeply"),
        ('{"inputs": 1e400}', "JSON Parse error: Number too big to be stored in double."),
        ("[]", "the body must be a JSON object. Received a list of 0"),
        ("1.5", "the body must be a JSON object. Received 1.5"),
        ("{}", "Missing 'inputs' or 'instances' key"),
        ('{"signature_name": "X"}', 'Serving signature name: "X" not found in signature def'),
        ('{"signature_name": "\\ud800"}', 'Serving signature name: "?" not found in signature def'),
        ('{"signature_name": 5}', "'signature_name' key must be a string value. Received 5"),
        ('{"instances": {}}', "Expecting 'instances' to be a list with values. Received an object"),
        ('{"instances": []}', "Expecting 'instances' to be a list with values. Received a list of 0"),
        (
            '{"instances": [1], "inputs": [1]}',
            "JSON Value: an object Not formatted correctly expecting only one of 'inputs' or 'instances' "
            "keys to exist ",
        ),
    ],
)
def test_what_is_no_request_is_refused(body, text):
    assert refusal(body, x=pb.DT_DOUBLE) == text


@pytest.mark.slow
def test_a_large_value_is_not_repeated_in_its_refusal():
    assert len(refusal(json.dumps({"signature_name": [0.5] * 10**6}), x=pb.DT_INT32)) < 200
    for value in ("x" * 10**6, 10**4000, [0.5] * 10**6, {"a": "x" * 10**6}):
        assert len(refusal(json.dumps({"inputs": {"x": value}}), x=pb.DT_INT32)) < 200
    for body in ({"signature_name": "x" * 10**6}, {"instances": [dict.fromkeys(map(str, range(10**5)), 1)]}):
        assert len(refusal(json.dumps(body), x=pb.DT_INT32)) <= 1000


def test_a_signature_without_inputs_takes_no_request():
    assert refusal('{"inputs": 1}') == "Failed to get input map for signature: DEFAULT"


@pytest.mark.parametrize(
    ("value", "text", "indices"),
    [
        ('"x"', 'JSON Value: "x" Type: String is not of expected type: float', []),
        ("null", "JSON Value: null Type: Null is not of expected type: float", []),
        ("true", "JSON Value: true Type: True is not of expected type: float", []),
        ('{"a": 1}', "JSON Value: an object Type: Object is not of expected type: float", []),
        ("[1, [1]]", "JSON Value: a list of 1 Type: Array is not of expected type: float", [1]),
        ('[[1, 2], [3, "4"]]', 'JSON Value: "4" Type: String is not of expected type: float', [1, 1]),
        ("[[1], 1]", UNEVEN.format(1, 1), [1]),
        ("[[1, 2], [3]]", UNEVEN.format(2, "a list of 1"), [1]),
        ("[" * 33 + "]" * 33, "nested deeper than the 32 axes of a tensor", []),
    ],
)
def test_a_value_that_does_not_fit_the_input_is_named_with_its_place(value, text, indices):
    place = "".join(f"[{index}]" for index in indices)
    assert refusal(f'{{"inputs": {{"x": {value}}}}}', x=pb.DT_FLOAT) == f"{text} at x{place}"
    if value[0] == "[":
        row = indices[0] if indices else 0
        expected = IN_ROW.format(row, "INVALID_ARGUMENT", text)
        assert refusal(f'{{"instances": {value}}}', x=pb.DT_FLOAT) == expected


def test_an_error_in_a_named_row_has_tensorflow_servings_words():
    text = (
        "Failed to process element: 1 key: x of 'instances' list. Error: INVALID_ARGUMENT: "
        'JSON Value: "a" Type: String is not of expected type: float'
    )
    assert refusal('{"instances": [{"x": 1}, {"x": "a"}]}', x=pb.DT_FLOAT) == text


@pytest.mark.parametrize("value", ["true", "1.0", "1e0", "NaN", "null", '"1"'])
def test_an_integer_input_takes_integers_alone(value):
    text = "is not of expected type: int32"
    assert refusal(f'{{"instances": [1, {value}]}}', x=pb.DT_INT32).endswith(text)


def test_a_bool_input_takes_no_numbers_and_a_text_input_nothing_but_text():
    assert refusal('{"inputs": [true, 1]}', x=pb.DT_BOOL).endswith("expected type: bool at x[1]")
    assert refusal('{"inputs": ["a", 1]}', x=pb.DT_STRING).endswith("expected type: string at x[1]")


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ("[[1,2],[3,4],[5,6,7]]", IN_ROW.format(2, "INVALID_ARGUMENT", UNEVEN.format(2, "a list of 3"))),
        ("[[1,2],[3,4],[[5,6]]]", IN_ROW.format(2, "INVALID_ARGUMENT", UNEVEN.format(2, "a list of 1"))),
        ('[[1], {"x": 1}]', "Expecting value/list but got object at item 1 of input list"),
        ('[{"x": 1}, [1]]', "Expecting object but got value/list at item 1 of input list"),
    ],
)
def test_rows_must_be_alike(rows, text):
    assert refusal(f'{{"instances": {rows}}}', x=pb.DT_INT32) == text


def test_rows_of_several_inputs_must_name_them_all_and_nothing_else():
    two = {"a": pb.DT_INT32, "b": pb.DT_STRING}
    element = "Failed to process element: {} of 'instances' list. Keys must be equal to: a,b. Received {}"
    assert refusal('{"instances": [{"c": 1}]}', **two) == element.format(0, "c")
    assert refusal('{"instances": [{"a": 1, "b": "2"}, {"a": 1}]}', **two) == element.format(1, "a")
    plain = "but expecting {} as multiple input tensors required as per tensorinfo_map"
    listed = "instances is a plain list, " + plain.format("list of objects")
    assert refusal('{"instances": [1]}', **two) == listed
    assert refusal('{"inputs": [1]}', **two) == "inputs is a plain value/list, " + plain.format("an object")
    assert refusal('{"inputs": {"a": 1}}', **two) == "Missing named input: b in 'inputs' object."


def test_bad_base64_is_refused():
    assert refusal('{"inputs": [{"b64": "a#"}]}', x=pb.DT_STRING) == "Unable to base64 decode"
    assert refusal('{"inputs": [{"b64": "é"}]}', x=pb.DT_STRING) == "Unable to base64 decode"
    assert "not formatted correctly for base64 data" in refusal('{"inputs": [{}]}', x=pb.DT_STRING)


@pytest.mark.parametrize(
    ("code", "name"), [(pb.DT_HALF, "half"), (pb.DT_BFLOAT16, "bfloat16"), (pb.DT_COMPLEX64, "complex64")]
)
def test_types_that_json_does_not_carry_are_unimplemented(code, name):
    text = f"Conversion of JSON Value: {{}} to type: {name}"
    for columns, value in (("[1.5]", "1.5"), ("[]", "[]")):
        expected = f"{text.format(value)} at x"
        assert refusal(f'{{"inputs": {columns}}}', UnimplementedError, x=code) == expected
    expected = IN_ROW.format(0, "UNIMPLEMENTED", text.format(1.5))
    assert refusal('{"instances": [1.5]}', x=code) == expected


# What is written is read.


def test_the_largest_and_the_smallest_float32_are_read_back():
    info = np.finfo(np.float32)
    ends = np.array([info.max, info.min, info.tiny, info.smallest_subnormal, -info.smallest_subnormal])
    body = predict_outputs({"y": ends}, rows=True)
    same(asked(body.replace(b"predictions", b"instances"), x=pb.DT_FLOAT)["x"], ends, "f4")


def test_a_malformed_body_is_decoded_once_and_one_with_a_word_of_tensorflow_servings_twice(monkeypatch):
    decoded = []

    class Decoder:
        def decode(self, text):
            decoded.append(text)
            return json_in.json.JSONDecoder().decode(text)

    monkeypatch.setattr(json_in, "_DECODER", Decoder())
    for body, times in ((b'{"a": ["Inf" 1]}', 1), (b'{"a": [Inf]}', 2), (b'{"a": [Inf, x]}', 2)):
        decoded.clear()
        with contextlib.suppress(InvalidArgumentError):
            document(body)
        assert len(decoded) == times, body


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


def examples_of(body):
    return json_examples(json.dumps(body).encode() if isinstance(body, dict) else body.encode())


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
        ('{"signature_name": ["x"]}', "'signature_name' key must be a string value. Received a list of 1"),
        ('{"context": [{}]}', "Example must be a JSON object"),
        ("{}", "When method is classify or regress, key 'examples' is expected and was not found"),
        ('{"examples": {"a": 1}}', "Expecting 'examples' value to be a list/array"),
        ('{"examples": []}', "'examples' value is an empty array"),
        ('{"examples": [[{}]]}', "Example must be a JSON object"),
        ('{"examples": [{"n": [10, null]}]}', UNLIKE),
        ('{"examples": [{"n": [10, 10.0]}]}', UNLIKE),
        ('{"examples": [{"n": [10, 100000000000000000000]}]}', UNLIKE),
        ('{"examples": [{"n": [0.5, true]}]}', UNLIKE),
        ('{"examples": [{"n": [0.5, 9223372036854775808]}]}', UNLIKE),
        ('{"examples": [{"n": ["a", 1]}]}', UNLIKE),
        ('{"examples": [{"n": [10, {"t": 1}]}]}', UNLIKE),
        ('{"examples": [{"n": {"t": 1}}]}', "JSON Value: an object not formatted correctly for base64 data"),
        ('{"examples": [{"n": [[10], 20]}]}', UNLIKE),
        ('{"examples": [{"n": [20, 18446744073709551603]}]}', UNLIKE),
        ('{"examples": [{"n": [1.5, 1e400]}]}', "JSON Parse error: Number too big to be stored in double."),
        ('{"examples": [{"\\ud800": 1}]}', "a name must be valid Unicode"),
        ('{"signature_name": "\\ud800", "examples": [{}]}', "a name must be valid Unicode"),
        ('{"examples": [{"n": "\\ud800"}]}', "a string must be valid Unicode"),
    ],
)
def test_what_is_no_example_is_refused(body, text):
    with pytest.raises(InvalidArgumentError) as caught:
        examples_of(body)
    assert str(caught.value).startswith(text)


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


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@example(b'{"inputs": ["\\ud800"]}', signatures(x=pb.DT_HALF))
@given(bodies, st.sampled_from(KNOWN))
def test_no_body_whatever_does_more_than_be_refused(body, known):
    for read in (lambda: predict_inputs(body, known), lambda: json_examples(body)):
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
