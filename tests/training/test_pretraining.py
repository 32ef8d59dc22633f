"""Pretraining: what is refused before its folder is made."""

import pytest

from keras_selfattn import training
from keras_selfattn.errors import DataError


def test_blank_texts_are_refused_before_the_folder_is_made(tmp_path):
    with pytest.raises(DataError, match="mine: there are no texts"):
        training.pretrain(["", " \n"], tmp_path / "base", source="mine")
    assert list(tmp_path.iterdir()) == []
