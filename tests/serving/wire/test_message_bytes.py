"""Messages built and parsed by hand are equal to those of protobuf."""

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf.message import DecodeError
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tensorflow_serving.apis import predict_pb2

from keras_selfattn.serving.wire import codec, dtypes, message_bytes
from keras_selfattn.serving.wire import messages_pb2 as pb

DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
numeric = st.sampled_from(DTYPES).flatmap(lambda name: hnp.arrays(np.dtype(name), shapes))
strings = hnp.arrays(object, shapes, elements=st.binary(max_size=9))
arrays = st.one_of(numeric, strings)
named = st.dictionaries(st.text(max_size=5), arrays, max_size=3)
# How large a value must be to be cut out: every one, some, none.
limits = st.sampled_from([1, 16, 2**20])


@pytest.fixture(autouse=True)
def _restored_limit():
    limit = message_bytes._LARGE
    yield
    message_bytes._LARGE = limit


def same(left, right):
    assert left.dtype == right.dtype
    assert left.shape == right.shape
    assert left.tolist() == right.tolist() if left.dtype == object else left.tobytes() == right.tobytes()


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(named, st.lists(st.text(max_size=3), max_size=2))
def test_the_stock_message_reads_what_we_put_together(inputs, outputs):
    spec = pb.ModelSpec(name="m", signature_name="s", version={"value": 3})
    data = message_bytes.predict_request(spec, inputs, outputs)
    request = predict_pb2.PredictRequest.FromString(data)
    assert (request.model_spec.name, request.model_spec.version.value) == ("m", 3)
    assert list(request.output_filter) == outputs
    assert set(request.inputs) == set(inputs)
    for name, array in inputs.items():
        same(np.asarray(tf.make_ndarray(request.inputs[name])), array)
    ours = pb.PredictRequest(model_spec=spec, output_filter=outputs)
    for name, array in inputs.items():
        ours.inputs[name].CopyFrom(codec.encode_array(array))
    assert pb.PredictRequest.FromString(data) == ours


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(named, limits, st.sampled_from([codec.encode, codec.encode_fields]))
def test_what_is_taken_apart_is_what_the_stock_codec_reads(outputs, limit, encode):
    message_bytes._LARGE = limit
    message = pb.PredictResponse(model_spec={"name": "m", "version": {"value": 7}})
    for name, array in outputs.items():
        message.outputs[name].CopyFrom(encode(array))
    data = message.SerializeToString()
    found, spec = message_bytes.predict_response(data)
    assert spec == message.model_spec
    assert list(found) == sorted(outputs)
    stock = predict_pb2.PredictResponse.FromString(data)
    for name in outputs:
        same(found[name], np.asarray(tf.make_ndarray(stock.outputs[name])))


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.data(), limits)
def test_garbage_is_refused_as_protobuf_refuses_it(data, limit):
    """After any change of a message, protobuf and the parser read the same, or both refuse it."""
    message = pb.PredictResponse(model_spec={"name": "m"})
    for name, array in data.draw(named).items():
        encode = data.draw(st.sampled_from([codec.encode, codec.encode_fields]))
        message.outputs[name].CopyFrom(encode(array))
    raw = bytearray(message.SerializeToString())
    for _ in range(data.draw(st.integers(0, 3))):
        if raw:
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = bytes(raw[: data.draw(st.integers(0, len(raw)))])
    message_bytes._LARGE = 2**30
    expected = outcome(raw)
    message_bytes._LARGE = limit
    found = outcome(raw)
    if isinstance(expected, type):
        assert isinstance(found, type)
    else:
        assert not isinstance(found, type)
        assert found.keys() == expected.keys()
        for name in expected:
            same(found[name], expected[name])


@pytest.mark.parametrize("encode", [codec.encode, codec.encode_fields])
def test_an_answer_cut_short_anywhere_is_refused_as_protobuf_refuses_it(encode):
    message = pb.PredictResponse(outputs={"y": encode(np.arange(3.0)), "z": encode(np.arange(5.0))})
    raw = message.SerializeToString()
    for length in range(len(raw)):
        message_bytes._LARGE = 2**30
        expected = outcome(raw[:length])
        message_bytes._LARGE = 1
        found = outcome(raw[:length])
        assert isinstance(found, type) == isinstance(expected, type), length


def outcome(raw):
    """The arrays, or the class of the error."""
    try:
        return message_bytes.predict_response(raw)[0]
    except (DecodeError, dtypes.CodecError) as error:
        return type(error)


def large(encode, dtype=np.float32, name="y"):
    array = np.arange(message_bytes._LARGE).astype(dtype)
    message = pb.PredictResponse(outputs={name: encode(array)})
    return array, message.SerializeToString()


@pytest.mark.parametrize("encode", [codec.encode, codec.encode_fields])
@pytest.mark.parametrize("name", ["y", "yy", "yyy", "yyyy"])
def test_large_values_are_views_of_the_answer_where_they_lie_aligned(encode, name):
    array, data = large(encode, name=name)
    found = message_bytes.predict_response(data)[0][name]
    same(found, array)
    assert found.flags.aligned
    assert not found.flags.writeable
    begin = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    offset = found.__array_interface__["data"][0] - begin
    inside = 0 <= offset < len(data)
    place = data.index(array.tobytes())
    assert inside == ((begin + place) % 4 == 0)
    assert not inside or offset == place


def test_one_byte_a_value_is_never_copied():
    _, data = large(codec.encode, np.uint8)
    found = message_bytes.predict_response(data)[0]["y"]
    begin = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    assert 0 <= found.__array_interface__["data"][0] - begin < len(data)


def test_a_request_of_a_large_array_copies_it_once():
    import tracemalloc

    array = np.zeros(10_000_000, np.float32)
    message_bytes.predict_request(pb.ModelSpec(name="m"), {"x": array}, [])
    tracemalloc.start()
    data = message_bytes.predict_request(pb.ModelSpec(name="m"), {"x": array}, [])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(data) > array.nbytes
    assert peak < 1.01 * array.nbytes


def test_many_strings_are_left_to_protobuf(monkeypatch):
    texts = np.array([b"some text"] * 20_000, object)
    data = pb.PredictResponse(outputs={"y": codec.encode(texts)}).SerializeToString()
    assert len(data) > message_bytes._LARGE
    steps = []
    fields = message_bytes._fields
    monkeypatch.setattr(
        message_bytes, "_fields", lambda part: (steps.append(1) or each for each in fields(part))
    )
    assert message_bytes.predict_response(data)[0]["y"].tolist() == texts.tolist()
    assert len(steps) < 20


def test_many_unknown_fields_are_left_to_protobuf():
    unknown = b"\x98\x06\x01" * 1_000_000  # field 99: 1
    array, data = large(codec.encode)
    same(message_bytes.predict_response(data + unknown)[0]["y"], array)
    steps = sum(1 for _ in zip(range(2000), all_fields(data + unknown), strict=False))
    assert steps <= 1001


def all_fields(data):
    try:
        yield from message_bytes._fields(memoryview(data))
    except DecodeError:
        return


@pytest.mark.parametrize("dtype", [pb.DT_INT32, pb.DT_STRING, pb.DT_VARIANT, 99])
def test_values_in_another_types_field_are_read_as_protobuf_would_have_it(dtype):
    proto = pb.TensorProto(
        dtype=dtype, float_val=b"\0" * message_bytes._LARGE, tensor_shape={"dim": [{"size": 2**14}]}
    )
    data = pb.PredictResponse(outputs={"y": proto}).SerializeToString()
    try:
        expected = codec.decode(proto)
    except dtypes.CodecError:
        with pytest.raises(dtypes.CodecError, match="output 'y'"):
            message_bytes.predict_response(data)
    else:
        same(message_bytes.predict_response(data)[0]["y"], expected)


def answer_by_protobuf(outputs):
    # One output a message: of two names of which one begins the other, protobuf writes the longer first. The
    # order of a map means nothing.
    messages = (pb.PredictResponse(outputs={n: codec.encode_fields(outputs[n])}) for n in sorted(outputs))
    return b"".join(message.SerializeToString(deterministic=True) for message in messages)


def answer_by_hand(outputs):
    return b"".join(message_bytes.output(name, outputs[name]) for name in sorted(outputs))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(named)
@example({name: np.array([], object) for name in ("", "0")})
def test_an_answer_by_hand_has_the_bytes_of_protobufs(outputs):
    assert answer_by_hand(outputs) == answer_by_protobuf(outputs)


def test_answers_of_each_form_have_the_bytes_of_protobufs():
    for array in (
        *(np.array(values, np.float32) for values in (1.5, [], [[1, 2], [3, 4]], np.arange(300.0))),
        *(np.array([1, 0, 3], name) for name in DTYPES),
        np.float32([[1, 2], [3, 4]]).T,
        np.array([1.5, 2.5], ">f4"),
        np.array([[b"", b"a" * 200]], object),
        np.array("text", object),
    ):
        outputs = {"\u00e9": array, "y" * 130: array, "a": array}
        assert answer_by_hand(outputs) == answer_by_protobuf(outputs), (array.dtype, array.shape)


def test_an_answer_that_no_message_can_carry_is_refused():
    with pytest.raises(dtypes.CodecError, match="cannot be sent"):
        message_bytes.output("y", np.array(["2026-01-01"], "datetime64[D]"))
    with pytest.raises(dtypes.CodecError, match="Element 1 is int 3"):
        message_bytes.output("y", np.array([b"a", 3], object))
