"""Fields of the config of fine-tuning: those out of range are named."""

import pytest

from keras_selfattn import models
from keras_selfattn.errors import ConfigError


@pytest.mark.parametrize(
    "change", [{"head_dropout": 1.0}, {"wide": 1}, {"training_span": 0}, {"frozen_layers": -1}]
)
def test_fields_out_of_range_are_named(change):
    with pytest.raises(ConfigError, match=f"`{next(iter(change))}`"):
        models.FineTunedConfig(**change)
