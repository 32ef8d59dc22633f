"""The codec against TensorFlow's own."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tensorflow.core.framework import tensor_pb2

from keras_selfattn.serving.wire import codec, dtypes
from keras_selfattn.serving.wire import messages_pb2 as pb

DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]
FIELD = {"float16": "half_val", "float32": "float_val", "float64": "double_val", "bool": "bool_val"}
FIELD |= {"int64": "int64_val", "uint32": "uint32_val", "uint64": "uint64_val", "bfloat16": "half_val"}

shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
arrays = st.sampled_from(DTYPES).flatmap(lambda name: hnp.arrays(np.dtype(name), shapes))


def to_stock(proto):
    return tensor_pb2.TensorProto.FromString(proto.SerializeToString())


def from_stock(proto):
    return pb.TensorProto.FromString(proto.SerializeToString())


def same(left, right):
    assert left.dtype == right.dtype
    assert left.shape == right.shape
    assert left.tobytes() == right.tobytes()  # bit for bit: NaN and -0.0 too


@settings(max_examples=200, deadline=None)
@given(arrays)
def test_tensorflow_reads_what_encode_writes(array):
    same(np.asarray(tf.make_ndarray(to_stock(codec.encode(array)))), array)


@settings(max_examples=200, deadline=None)
@given(arrays)
def test_tensorflow_reads_what_encode_fields_writes(array):
    same(np.asarray(tf.make_ndarray(to_stock(codec.encode_fields(array)))), array)


@settings(max_examples=200, deadline=None)
@given(arrays)
def test_decode_reads_what_tensorflow_writes(array):
    same(codec.decode(from_stock(tf.make_tensor_proto(array))), array)


@settings(max_examples=200, deadline=None)
@given(arrays)
def test_decode_inverts_both_encodings(array):
    same(codec.decode(codec.encode(array)), array)
    same(codec.decode(codec.encode_fields(array)), array)


# Of the rest, tf.make_tensor_proto writes the typed fields whatever their size.
@pytest.mark.parametrize(
    "dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "float32", "float64"]
)
def test_encode_writes_the_bytes_that_tensorflow_writes(dtype):
    array = np.array([[0, 1, 3], [1, 0, 1]]).astype(tf.as_dtype(dtype).as_numpy_dtype)
    stock = tf.make_tensor_proto(array).SerializeToString(deterministic=True)
    assert codec.encode(array).SerializeToString(deterministic=True) == stock


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_encode_fields_writes_the_bytes_of_the_stock_typed_fields(dtype):
    array = np.array([[0, 1, 3], [1, 0, 1]]).astype(tf.as_dtype(dtype).as_numpy_dtype)
    stock = tensor_pb2.TensorProto(dtype=tf.as_dtype(dtype).as_datatype_enum)
    stock.tensor_shape.CopyFrom(tf.TensorShape([2, 3]).as_proto())
    values = array.reshape(-1)
    if "complex" in dtype:
        field = "scomplex_val" if dtype == "complex64" else "dcomplex_val"
        values = np.stack([values.real, values.imag], -1).reshape(-1)
    else:
        field = FIELD.get(dtype, "int_val")
        values = values.view(np.uint16) if field == "half_val" else values
    getattr(stock, field).extend(values.tolist())
    assert codec.encode_fields(array).SerializeToString() == stock.SerializeToString()


@settings(max_examples=100, deadline=None)
@given(hnp.arrays(object, shapes, elements=st.binary(max_size=9)))
def test_byte_strings_round_trip_through_tensorflow_with_their_zero_bytes(array):
    stock = to_stock(codec.encode(array))
    assert tf.make_ndarray(stock).tolist() == array.tolist()
    decoded = codec.decode(from_stock(stock))
    assert decoded.shape == array.shape
    assert decoded.tolist() == array.tolist()


def test_text_is_sent_as_the_same_bytes_as_tensorflow_sends():
    texts = ["", "naïve", "日本語 😀", "x" * 1_000_000]
    assert codec.encode(texts).SerializeToString() == tf.make_tensor_proto(texts).SerializeToString()


@pytest.mark.parametrize(
    "value",
    [
        "one",
        b"one",
        ["a", b"b"],
        ["a", b"\xff"],
        [["a", "b"], ["c", "d"]],
        np.array(["a", "bc"]),
        np.array([b"a", b"bc"]),
    ],
)
def test_every_way_to_write_strings_gives_bytes(value):
    expected = np.vectorize(lambda item: item.encode() if isinstance(item, str) else item, otypes=[object])
    decoded = codec.decode(codec.encode(value))
    assert decoded.dtype == object
    assert decoded.tolist() == expected(np.array(value, dtype=object)).tolist()


@pytest.mark.parametrize("dtype", ["int16", "float32", "float64", "complex64", "uint64"])
def test_big_endian_and_strided_arrays_keep_their_values(dtype):
    array = np.arange(24).reshape(4, 6).astype(dtype)
    for view in (array.astype(array.dtype.newbyteorder(">")), array.T, array[::2, 1::3], array[::-1]):
        same(codec.decode(codec.encode(view)), np.ascontiguousarray(view).astype(dtype))
        same(codec.decode(codec.encode_fields(view)), np.ascontiguousarray(view).astype(dtype))


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_missing_values_repeat_the_last_or_are_zero_as_in_tensorflow(dtype, count):
    full = from_stock(tf.make_tensor_proto(np.ones(1).astype(tf.as_dtype(dtype).as_numpy_dtype)))
    proto = codec.encode_fields(np.array([0, 1][:count]).astype(tf.as_dtype(dtype).as_numpy_dtype))
    proto.tensor_shape.CopyFrom(pb.TensorShapeProto(dim=[{"size": 5}]))
    assert proto.dtype == full.dtype
    same(codec.decode(proto), np.asarray(tf.make_ndarray(to_stock(proto))))


@pytest.mark.parametrize("dtype", ["qint8", "quint8", "qint16", "quint16", "qint32"])
def test_quantized_numbers_are_read_as_their_integers(dtype):
    values = np.array([1, 2, 100], tf.as_dtype(dtype).as_numpy_dtype)
    full = from_stock(tf.make_tensor_proto(values))
    fields = pb.TensorProto(dtype=full.dtype, tensor_shape=full.tensor_shape, int_val=[1, 2, 100])
    for proto in (full, fields):
        same(codec.decode(proto), np.asarray(values.view(values.dtype[0])))


@pytest.mark.parametrize("values", [[], [b"a"], [b"a", b"b"]])
def test_missing_strings_repeat_the_last_or_are_empty(values):
    proto = pb.TensorProto(dtype=pb.DT_STRING, string_val=values, tensor_shape={"dim": [{"size": 3}]})
    padding = values[-1] if values else b""
    assert codec.decode(proto).tolist() == (values + [padding] * 3)[:3]


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (pb.TensorProto(dtype=pb.DT_FLOAT, tensor_content=b"123"), "takes 4 bytes; tensor_content has 3"),
        (pb.TensorProto(dtype=pb.DT_FLOAT, float_val=b"12345"), "no multiple of 4"),
        (pb.TensorProto(dtype=pb.DT_INT32, int_val=[1, 2]), "int_val has 2 values for a tensor of shape ()"),
        (pb.TensorProto(dtype=pb.DT_STRING, tensor_content=b"a"), "string_val, not in tensor_content"),
        (pb.TensorProto(dtype=pb.DT_RESOURCE), "DT_RESOURCE has no NumPy equivalent"),
        (pb.TensorProto(dtype=99), "DataType 99 has no NumPy equivalent"),
        (pb.TensorProto(), "DT_INVALID has no NumPy equivalent"),
        (pb.TensorProto(dtype=pb.DT_FLOAT, tensor_shape={"unknown_rank": True}), "shape must be known"),
        (pb.TensorProto(dtype=pb.DT_FLOAT, tensor_shape={"dim": [{"size": -1}]}), "shape must be known"),
        (pb.TensorProto(dtype=pb.DT_INT8, tensor_shape={"dim": [{"size": 2**40}]}), "larger than"),
        (pb.TensorProto(dtype=pb.DT_STRING, tensor_shape={"dim": [{"size": 2**29}]}), "too many elements"),
        (pb.TensorProto(dtype=pb.DT_STRING, tensor_shape={"dim": [{"size": 2**40}]}), "larger than an array"),
        (pb.TensorProto(dtype=pb.DT_INT8, tensor_shape={"dim": [{"size": 1}] * 65}), "a tensor of 65 axes"),
        (
            pb.TensorProto(dtype=pb.DT_INT8, tensor_shape={"dim": [{"size": 0}, {"size": 2**62}]}),
            "larger than an array",
        ),
    ],
)
def test_a_tensor_that_describes_no_array_is_refused(proto, message):
    with pytest.raises(dtypes.CodecError) as caught:
        codec.decode(proto)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        ([[1], [1, 2]], None, "different lengths"),
        ([["a"], ["b", "c"]], None, "rows of one length"),
        (["a", 1], None, "Element 1 is int 1"),
        ([1, "a"], None, "is int 1"),
        ([None], None, "Element 0 is NoneType None"),
        (["\ud800"], None, "lone surrogate"),
        (np.array(["2020-01-01"], "datetime64[D]"), None, "dtype datetime64[D] cannot be sent"),
        (["a"], "float32", "strings cannot be sent as float32"),
        ([1], "string", "is int 1"),
        ([1.5], "int32", "do not fit int32: [1.5]"),
        ([300], "uint8", "do not fit uint8: [300]"),
        ([-1], "uint64", "do not fit uint64: [-1]"),
        ([1j], "float32", "complex values cannot be sent as float32"),
        ([1], "DT_RESOURCE", "cannot be sent as DT_RESOURCE"),
    ],
)
def test_a_value_that_no_tensor_holds_is_refused(value, dtype, message):
    with pytest.raises(dtypes.CodecError) as caught:
        codec.encode(value, dtype)
    assert message in str(caught.value)


def test_masked_elements_are_not_sent_as_what_they_hide():
    masked = np.ma.masked_array([1.0, 999.0], mask=[False, True])
    with pytest.raises(dtypes.CodecError, match="masked elements"):
        codec.encode(masked)
    assert codec.decode(codec.encode(np.ma.masked_array([1.0, 2.0]))).tolist() == [1, 2]


def test_values_that_are_not_packed_are_refused_rather_than_taken_for_zeros():
    shape = pb.TensorProto(dtype=pb.DT_FLOAT, tensor_shape={"dim": [{"size": 2}]}).SerializeToString()
    unpacked = b"".join(bytes([5 << 3 | 5]) + np.float32(value).tobytes() for value in (1.5, 2.5))
    stock = tf.make_ndarray(tensor_pb2.TensorProto.FromString(shape + unpacked))
    assert stock.tolist() == [1.5, 2.5]
    with pytest.raises(dtypes.CodecError, match="float_val is not packed"):
        codec.decode(pb.TensorProto.FromString(shape + unpacked))


def test_python_numbers_take_the_dtype_asked_for():
    for dtype in (*DTYPES, "bfloat16"):
        decoded = codec.decode(codec.encode([0, 1], dtype))
        assert decoded.dtype.name == dtype
        assert decoded.tolist() == [0, 1]


def test_bfloat16_needs_ml_dtypes_only_when_it_is_used(monkeypatch):
    array = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    same(codec.decode(codec.encode(array)), array)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(dtypes.CodecError, match="pip install ml_dtypes"):
        codec.decode(pb.TensorProto(dtype=pb.DT_BFLOAT16, half_val=[1]))


def test_decode_does_not_copy_what_the_message_holds_as_bytes():
    for proto in (codec.encode(np.zeros(4, np.float32)), codec.encode_fields(np.zeros(4, np.float32))):
        array = codec.decode(proto)
        assert not array.flags.owndata
        assert not array.flags.writeable


def stock_descriptors():
    """The descriptors with the same names in TensorFlow Serving, or in TensorFlow."""
    from tensorflow.core.example import example_pb2
    from tensorflow_serving.apis import (
        classification_pb2,
        get_model_metadata_pb2,
        get_model_status_pb2,
        inference_pb2,
        logging_pb2,
        model_management_pb2,
        predict_pb2,
        regression_pb2,
    )

    return [
        predict_pb2.PredictRequest.DESCRIPTOR,
        predict_pb2.PredictResponse.DESCRIPTOR,
        get_model_metadata_pb2.GetModelMetadataRequest.DESCRIPTOR,
        get_model_metadata_pb2.GetModelMetadataResponse.DESCRIPTOR,
        get_model_metadata_pb2.SignatureDefMap.DESCRIPTOR,
        get_model_status_pb2.GetModelStatusRequest.DESCRIPTOR,
        get_model_status_pb2.GetModelStatusResponse.DESCRIPTOR,
        example_pb2.Example.DESCRIPTOR,
        classification_pb2.ClassificationRequest.DESCRIPTOR,
        classification_pb2.ClassificationResponse.DESCRIPTOR,
        regression_pb2.RegressionRequest.DESCRIPTOR,
        regression_pb2.RegressionResponse.DESCRIPTOR,
        inference_pb2.MultiInferenceRequest.DESCRIPTOR,
        inference_pb2.MultiInferenceResponse.DESCRIPTOR,
        model_management_pb2.ReloadConfigRequest.DESCRIPTOR,
        model_management_pb2.ReloadConfigResponse.DESCRIPTOR,
        logging_pb2.LogMetadata.DESCRIPTOR,
    ]


def assert_same_fields(ours, stock, seen):
    if ours.full_name in seen or ours.full_name.startswith("google."):
        return
    seen.add(ours.full_name)
    for field in ours.fields:
        theirs = stock.fields_by_name[field.name]
        assert field.number == theirs.number, field.full_name
        if field.message_type is not None:
            assert theirs.message_type is not None
            assert field.is_repeated == theirs.is_repeated
            assert_same_fields(field.message_type, theirs.message_type, seen)
        elif field.type == field.TYPE_BYTES and theirs.type != theirs.TYPE_BYTES:
            # Declared as the bytes that the packed values are.
            assert theirs.is_packed
            assert theirs.type in (theirs.TYPE_FLOAT, theirs.TYPE_DOUBLE)
        elif field.enum_type is not None:
            assert field.type == theirs.type
            numbers = {value.name: value.number for value in theirs.enum_type.values}
            assert {value.name: value.number for value in field.enum_type.values}.items() <= numbers.items()
        elif theirs.type != theirs.TYPE_ENUM:  # an enum is an int32 on the wire
            assert (field.type, field.is_repeated) == (theirs.type, theirs.is_repeated), field.full_name


def test_our_messages_have_the_stock_field_numbers_and_types():
    seen = set()
    for stock in stock_descriptors():
        assert_same_fields(getattr(pb, stock.name).DESCRIPTOR, stock, seen)
    ours = {message.full_name for message in pb.DESCRIPTOR.message_types_by_name.values()}
    ours -= {message.DESCRIPTOR.full_name for message, _ in SERIALIZED}
    ours -= {pb.SerializedLog.DESCRIPTOR.full_name, pb.SerializedPredictionLog.DESCRIPTOR.full_name}
    # Stands for a message of TensorFlow Serving's that nothing here sends whole.
    assert ours <= seen | {"keras_selfattn.wire.FileSystemStoragePathSourceConfig"}


SERIALIZED = [
    (pb.SerializedInput, pb.Input),
    (pb.SerializedExampleList, pb.ExampleList),
    (pb.SerializedExampleListWithContext, pb.ExampleListWithContext),
    (pb.SerializedInputRequest, pb.ClassificationRequest),
    (pb.SerializedInputRequest, pb.RegressionRequest),
    (pb.SerializedMultiInferenceRequest, pb.MultiInferenceRequest),
]


@pytest.mark.parametrize(("serialized", "parsed"), SERIALIZED)
def test_messages_that_keep_examples_as_bytes_have_the_fields_of_those_that_parse_them(serialized, parsed):
    def numbers(message):
        return {field.name: field.number for field in message.DESCRIPTOR.fields}

    assert numbers(serialized) == numbers(parsed)


def test_messages_of_logs_that_keep_requests_as_bytes_have_the_stock_fields():
    from tensorflow_serving.apis import prediction_log_pb2

    stock = prediction_log_pb2.PredictionLog.DESCRIPTOR.fields_by_name
    for field in pb.SerializedPredictionLog.DESCRIPTOR.fields:
        assert field.number == stock[field.name].number
        if field.name != "log_metadata":
            theirs = {each.name: each.number for each in stock[field.name].message_type.fields}
            assert theirs == {each.name: each.number for each in field.message_type.fields}


@pytest.mark.process
@pytest.mark.parametrize(
    "order",
    [
        "import keras_selfattn.serving.wire.messages_pb2, tensorflow_serving.apis.predict_pb2",
        "import tensorflow_serving.apis.predict_pb2, keras_selfattn.serving.wire.messages_pb2",
    ],
)
def test_our_messages_load_beside_the_stock_ones_in_either_order(order):
    subprocess.run([sys.executable, "-c", order], check=True, capture_output=True)
