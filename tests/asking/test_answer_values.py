"""Answers of the client as values of JSON, tables and text."""

import json

import numpy as np
import pytest

from keras_selfattn.asking import answer_values


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (b"\xff", {"b64": "/w=="}),
        (np.float32(0.1), 0.1),
        (np.float64(0.1), 0.1),
        (np.float16([0.1, 2]), [0.1, 2.0]),
        (np.int8([[1], [2]]), [[1], [2]]),
        (np.array(["a", b"\xff"], object), ["a", {"b64": "/w=="}]),
        (np.complex64([1 + 2j]), [[1.0, 2.0]]),
        (np.bool_(True), True),
        ("text", "text"),
    ],
)
def test_every_value_has_a_plain_form(value, plain):
    assert answer_values.plain(value) == plain
    json.dumps(answer_values.plain(value))
