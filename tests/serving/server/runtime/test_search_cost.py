"""The bytes of a search before it runs: what a card says, and what requests ask for."""

import numpy as np
import pytest

from keras_selfattn.serving.server.runtime.search_cost import SearchCost, beams_asked
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
