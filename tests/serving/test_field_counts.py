"""Fields of a message counted without parsing it: as protobuf counts them, and never long."""

import random

import pytest

from keras_selfattn.serving.wire import open_inference_pb2 as oip
from keras_selfattn.serving.wire.field_counts import repeated_fields


def test_fields_are_counted_as_protobuf_does():
    request = oip.ModelInferRequest(model_name="a", raw_input_contents=[b"x" * 1000, b""], id="7")
    for number in range(5):
        request.inputs.add(name=str(number), shape=[number] * 300)
        request.parameters[str(number)].int64_param = -1
    assert repeated_fields(request.SerializeToString(), 10) == {1: 1, 3: 1, 4: 5, 5: 5, 7: 2}


def test_numbers_beside_them_are_passed_over():
    # Fields 1 (a varint of ten bytes), 2 (64 bits), 3 (32 bits), and 15 with two bytes.
    data = bytes.fromhex("08ffffffffffffffffff01 110000000000000000 1d00000000 7a02ffff")
    assert repeated_fields(data, 10) == {15: 1}


def test_counting_ends_when_a_field_comes_too_often():
    class Watched(bytes):
        looks = 0

        def __getitem__(self, place):
            Watched.looks += 1
            return super().__getitem__(place)

    assert repeated_fields(Watched(b"\x2a\x00" * 10**6), 1000) == {5: 1001}
    assert Watched.looks < 3000


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", {}),
        (b"\x2a", {5: 1}),
        (b"\x2a\xff", {5: 1}),
        (b"\x2a\x7f", {5: 1}),
        (b"\x2b\x2a\x00", {}),
        (b"\xff" * 100, {}),
        (b"\x2a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", {5: 1}),
    ],
)
def test_bytes_that_are_no_message_end_it(data, found):
    assert repeated_fields(data, 10) == found


def test_any_bytes_are_counted():
    dice = random.Random(3)
    for _ in range(2000):
        assert repeated_fields(dice.randbytes(dice.randrange(50)), 10) is not None
