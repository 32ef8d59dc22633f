"""The size that a request counts with."""

import numpy as np

from keras_selfattn.serving.server.api import inference_api


def test_texts_count_with_their_bytes_and_very_many_with_what_each_costs_at_least():
    """By this number, large answers are written in a thread and not on the event loop."""
    few = np.array([b"abc", b"de"], object)
    assert inference_api._copied_bytes([few, np.zeros(3, "float32")]) == 2 * 64 + 5 + 12
    assert inference_api._copied_bytes([np.full(5000, b"", object)]) == 5000 * 64
