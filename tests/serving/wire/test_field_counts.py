"""Fields of a message counted without parsing it: as protobuf counts them, and never long."""

import random

import pytest

from keras_selfattn.serving.wire import open_inference_pb2 as oip
from keras_selfattn.serving.wire.message_bytes import field_count


def test_fields_are_counted_as_protobuf_writes_them():
    request = oip.ModelInferRequest(model_name="a", raw_input_contents=[b"x" * 1000, b""], id="7")
    for number in range(5):
        request.inputs.add(name=str(number), shape=[number] * 300)
        request.parameters[str(number)].int64_param = -1
    assert field_count(request.SerializeToString(), 100) == 2 + 2 + 5 + 5


def test_fields_of_every_wire_type_count():
    # Fields 1 (a varint of ten bytes), 2 (64 bits), 3 (32 bits), 15 with two bytes, and a group with a field.
    data = bytes.fromhex("08ffffffffffffffffff01 110000000000000000 1d00000000 7a02ffff 0b 2a00 0c")
    assert field_count(data, 100) == 4 + 3


@pytest.mark.parametrize("field", ["2a00", "0800", "0b", "0c", "1d00000000"])
def test_counting_ends_when_there_are_more(field):
    class Watched(bytes):
        looks = 0

        def __getitem__(self, place):
            Watched.looks += 1
            return super().__getitem__(place)

    assert field_count(Watched(bytes.fromhex(field) * 10**5), 1000) == 1001
    assert Watched.looks < 3000


@pytest.mark.parametrize("data", ["2a", "2aff", "2a7f", "2e2a00", "ff" * 100, "2affffffffffffffffff01"])
def test_bytes_that_are_no_message_end_it(data):
    assert field_count(bytes.fromhex(data), 10) == 1


def test_any_bytes_are_counted():
    assert field_count(b"", 10) == 0
    dice = random.Random(3)
    for _ in range(2000):
        assert 0 <= field_count(dice.randbytes(dice.randrange(50)), 10) <= 11
