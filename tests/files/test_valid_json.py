"""JSON that every reader takes, of values of other types, too."""

import math

import pytest

from keras_selfattn.files import valid_json


def test_valid_json_takes_values_of_other_types():
    default = {"x": [math.nan]}
    assert valid_json.dumps([{1: (math.inf, 2)}, object()], default=lambda _: default) == (
        '[{"1": [null, 2]}, {"x": [null]}]'
    )
    with pytest.raises(TypeError):
        valid_json.dumps([math.nan, object()])
