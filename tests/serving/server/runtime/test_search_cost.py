"""The bytes and the length of a search before it runs: what a card says, and what requests ask for."""

import numpy as np
import pytest

from keras_selfattn.serving.server.runtime.search_cost import SearchCost, SearchLength, beams_asked
from keras_selfattn.serving.wire import messages_pb2 as pb


@pytest.mark.parametrize("found", [None, 7, {}, {"row_bytes": "1"}, {"row_bytes": -1}, {"row_bytes": True}])
def test_a_card_of_another_shape_bounds_no_search(found):
    assert SearchCost.of_card({"decoding": found}) is SearchCost.of_card(None) is None


@pytest.mark.parametrize(
    "more",
    [{}, {"beams": 4}, {"beam_bytes": 20}, {"beams": 4, "beam_bytes": "20"}, {"beams": 4, "beam_bytes": 26}],
)
def test_a_card_without_fitting_beams_counts_all_of_them(more):
    assert SearchCost.of_card({"decoding": {"row_bytes": 100, **more}}) == SearchCost(100)
    assert SearchCost(100).of_row(np.int32([1])) == 100


@pytest.mark.parametrize(
    ("asked", "row"),
    [
        (None, 100),
        (np.int32([]), 100),
        (np.int32([0, 1]), 100),
        (np.int32([1]), 40),
        (np.int32([1, 3, 2]), 80),
        (np.int32([9]), 100),  # the graph refuses these
        (np.int32([-1]), 100),
        (np.float32([1]), 100),
    ],
)
def test_the_most_beams_of_a_request_count(asked, row):
    cost = SearchCost.of_card({"decoding": {"row_bytes": 100, "beams": 4, "beam_bytes": 20}})
    assert cost is not None
    assert cost.of_row(asked) == row


def test_beams_are_those_of_the_signature_for_them():
    infos = {"beams": pb.TensorInfo(name="generate_beams:0"), "text": pb.TensorInfo(name="generate_text:0")}
    signatures = {"generate": pb.SignatureDef(inputs=infos), "serving_default": pb.SignatureDef(inputs=infos)}
    feeds = {"generate_beams:0": np.int32([2]), "generate_text:0": np.array([b"a"], object)}
    assert beams_asked(signatures, "generate", feeds) is feeds["generate_beams:0"]
    assert beams_asked(signatures, "serving_default", feeds) is None
    assert beams_asked(signatures, "", feeds) is None
    assert beams_asked({"generate": pb.SignatureDef()}, "generate", feeds) is None
    assert beams_asked({}, "generate", feeds) is None


WRITER = {
    "generate": pb.SignatureDef(
        inputs={
            name: pb.TensorInfo(name=f"{name}:0") for name in ("text", "prefix", "max_new_tokens", "beams")
        }
    )
}


def length(*texts, prefix=None, most=None, name="generate"):
    feeds = {"text:0": np.array(texts, object), "beams:0": np.int32([1])}
    if prefix is not None:
        feeds["prefix:0"] = np.array([prefix], object)
    if most is not None:
        feeds["max_new_tokens:0"] = most
    return SearchLength.of(WRITER, name, feeds)


def test_lengths_double_from_class_to_class_and_few_steps_are_one():
    sizes = (0, 1, 15, 16, 31, 32, 63, 64, 2**20)
    assert [length(b"x" * size).source for size in sizes] == [0, 0, 0, 1, 1, 2, 2, 3, 17]


def test_the_longest_of_all_texts_counts():
    assert length(b"x" * 20, b"", b"x" * 40) == length(b"", prefix=b"x" * 40) == length(b"x" * 40)
    assert length() == length(b"") == SearchLength(0, 0)


@pytest.mark.parametrize(
    ("most", "answer"),
    [
        (np.int32([4]), 0),
        (np.int32([4, 20]), 1),
        (np.int32([999]), 3),
        (np.int32([4, 0]), 3),  # 0 is the export's own
        (np.int32([-1]), 3),  # the graph refuses these
        (np.float32([4]), 3),
        (np.int32([]), 3),
    ],
)
def test_the_most_symbols_bound_the_answer_and_not_the_source(most, answer):
    assert length(b"x" * 100, most=most) == SearchLength(3, answer)
    assert length(b"x" * 100, most=most, name="serving_default") == SearchLength(3, 3)
