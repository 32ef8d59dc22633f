"""Tensors of the Open Inference Protocol: their bytes as the protocol writes them, and what is refused."""

import math

import numpy as np
import pytest

from keras_selfattn.serving.wire import messages_pb2 as pb
from keras_selfattn.serving.wire import open_inference_pb2 as oip
from keras_selfattn.serving.wire import open_inference_tensors as tensors
from keras_selfattn.serving.wire.dtypes import CodecError

# Each datatype: its bytes, written by hand, the field of its contents, and the values of both.
BY_HAND = {
    "BOOL": ("01 00", "bool_contents", [True, False]),
    "INT8": ("01 fe", "int_contents", [1, -2]),
    "INT16": ("0100 feff", "int_contents", [1, -2]),
    "INT32": ("01000000 feffffff", "int_contents", [1, -2]),
    "INT64": ("0100000000000000 feffffffffffffff", "int64_contents", [1, -2]),
    "UINT8": ("01 ff", "uint_contents", [1, 255]),
    "UINT16": ("0100 ffff", "uint_contents", [1, 2**16 - 1]),
    "UINT32": ("01000000 ffffffff", "uint_contents", [1, 2**32 - 1]),
    "UINT64": ("0100000000000000 ffffffffffffffff", "uint64_contents", [1, 2**64 - 1]),
    "FP16": ("003c 00c0", None, [1, -2]),
    "BF16": ("803f 00c0", None, [1, -2]),
    "FP32": ("0000803f 000000c0", "fp32_contents", [1, -2]),
    "FP64": ("000000000000f03f 00000000000000c0", "fp64_contents", [1, -2]),
    "BYTES": ("01000000 61 02000000 ff00", "bytes_contents", [b"a", b"\xff\x00"]),
}


def contents(field, values):
    if field in ("fp32_contents", "fp64_contents"):
        values = np.array(values, "f4" if field == "fp32_contents" else "f8").tobytes()
    return oip.InferTensorContents(**{field: values})


@pytest.mark.parametrize("datatype", BY_HAND)
def test_values_have_the_protocols_bytes_and_fields(datatype):
    raw, field, values = BY_HAND[datatype]
    array = tensors.from_raw(datatype, [2, 1], bytes.fromhex(raw))
    assert (array.shape, array.dtype) == ((2, 1), tensors.dtype_of(datatype))
    assert array.reshape(-1).tolist() == values
    assert tensors.to_raw(array) == bytes.fromhex(raw)
    assert tensors.datatype_of_array(array) == datatype
    assert tensors.has_contents(datatype) is (field is not None)
    if field is not None:
        assert tensors.to_contents(array) == contents(field, values)
        found = tensors.from_contents(datatype, [1, 2], contents(field, values))
        assert (found.dtype, found.tolist()) == (array.dtype, [values])


@pytest.mark.parametrize("datatype", BY_HAND)
@pytest.mark.parametrize("shape", [[0], [2, 0], [0, 2]])
def test_a_tensor_without_values_has_a_shape(datatype, shape):
    array = tensors.from_raw(datatype, shape, b"")
    assert (list(array.shape), tensors.to_raw(array)) == (shape, b"")
    if tensors.has_contents(datatype):
        assert tensors.from_contents(datatype, shape, oip.InferTensorContents()).shape == tuple(shape)


def test_a_scalar_has_no_axes():
    assert tensors.from_raw("FP32", [], bytes.fromhex("0000803f")).shape == ()
    assert tensors.from_raw("BYTES", [], b"\x01\0\0\0a").item() == b"a"


def test_raw_bytes_of_another_layout_are_written_in_row_major_order():
    array = np.asfortranarray(np.arange(6, dtype=">i2").reshape(2, 3))
    assert np.frombuffer(tensors.to_raw(array), "<i2").tolist() == list(range(6))


def test_raw_bytes_that_are_not_aligned_become_an_array_that_is():
    data = memoryview(b"?" + np.arange(3.0).tobytes())[1:]
    found = tensors.from_raw("FP64", [3], data)
    assert (found.tolist(), found.flags.aligned) == ([0.0, 1.0, 2.0], True)


def test_quantized_integers_have_the_datatype_of_integers():
    assert tensors.datatype_of(pb.DT_QUINT8) == "UINT8"
    assert tensors.datatype_of(pb.DT_QINT32) == "INT32"
    with pytest.raises(CodecError, match="has no datatype for complex64"):
        tensors.datatype_of(pb.DT_COMPLEX64)


@pytest.mark.parametrize(
    ("datatype", "shape", "data", "words"),
    [
        ("FP32", [2], bytes(7), r"FP32 of shape \[2\] takes 8 bytes. Received 7"),
        ("FP32", [2, 2], bytes(8), r"FP32 of shape \[2, 2\] takes 16 bytes. Received 8"),
        ("FP32", [-1], bytes(4), r"shape must be known. Received \(-1,\)"),
        ("FP32", [2**40, 2**40], bytes(4), "larger than an array can be"),
        ("FP32", [1] * 10**5, bytes(4), "100000 axes is larger than an array can be"),
        ("fp32", [1], bytes(4), "datatype must be one of BOOL, .* BYTES. Received 'fp32'"),
        ("", [1], bytes(4), "Received ''"),
        ("BOOL", [2], b"\1\2", "BOOL must have bytes of 0 and 1"),
        ("BYTES", [1], b"\5\0\0\0abc", "element 0 of BYTES ends after the data, which are 7 bytes"),
        ("BYTES", [2], b"\4\0\0\0abcd\0", "element 1 of BYTES ends after the data, which are 9 bytes"),
        ("BYTES", [1], b"\1\0\0\0ab", "1 bytes are left after 1 elements of BYTES"),
        ("BYTES", [2**30], b"\1\0\0\0a", "1073741824 elements of BYTES take 4 bytes each. Received 5"),
        ("BYTES", [1], b"\xff\xff\xff\xff", "element 0 of BYTES ends after the data, which are 4 bytes"),
        ("BYTES", [0], b"\0\0\0\0", "4 bytes are left after 0 elements of BYTES"),
    ],
)
def test_raw_bytes_that_do_not_fit_are_refused(datatype, shape, data, words):
    with pytest.raises(CodecError, match=words):
        tensors.from_raw(datatype, shape, data)


@pytest.mark.parametrize(
    ("datatype", "shape", "field", "values", "words"),
    [
        ("INT8", [2], "int_contents", [1], r"INT8 of shape \[2\] has 2 values, packed. Received 1 in"),
        ("FP32", [2], "fp32_contents", [1], "FP32 .* has 2 values, packed. Received 1 in fp32_contents"),
        ("INT8", [2], "int_contents", [1, 128], "in the range of INT8. Received 1 to 128"),
        ("UINT16", [1], "uint_contents", [2**16], "in the range of UINT16. Received 65536 to 65536"),
        ("INT64", [1], "int_contents", [1], "INT64 is sent in int64_contents. Received int_contents"),
        ("FP16", [1], "fp32_contents", [1], "FP16 has raw bytes only: send raw_input_contents"),
    ],
)
def test_contents_that_do_not_fit_are_refused(datatype, shape, field, values, words):
    with pytest.raises(CodecError, match=words):
        tensors.from_contents(datatype, shape, contents(field, values))


def test_floats_in_contents_that_are_cut_short_are_refused():
    with pytest.raises(CodecError, match="has 1 values, packed. Received 1 in fp32_contents"):
        tensors.from_contents("FP32", [1], oip.InferTensorContents(fp32_contents=bytes(5)))


@pytest.mark.parametrize("datatype", ["FP64", "BYTES"])
def test_a_tensors_memory_is_known_from_its_message_and_bounded_by_it(datatype):
    each = 8 if datatype == "FP64" else tensors.decoded_bytes("BYTES", [1], 100)
    assert tensors.decoded_bytes(datatype, [2, 3], 10**6) == 6 * each
    assert tensors.decoded_bytes(datatype, [2**30], 12) == 12 * each, "no more than one a byte"
    assert tensors.decoded_bytes(datatype, [2**62, 2**62], 12) == 0, "it is refused"
    assert tensors.decoded_bytes("complex", [1], 12) == 0
    assert tensors.decoded_bytes(datatype, [3], 12, in_contents=True) > 3 * each, "the message's values count"


def test_a_bytes_elements_memory_is_no_less_than_pythons():
    data = tensors.to_raw(np.array([b"%d" % number for number in range(10)], object))
    assert tensors.decoded_bytes("BYTES", [10], len(data)) >= 10 * (8 + bytes.__basicsize__)
    assert math.prod(tensors.from_raw("BYTES", [5, 2], data).shape) == 10
