"""Texts as rows: what is no list of texts."""

import pytest

from keras_selfattn.rows.texts import TextRows

pytestmark = pytest.mark.usefixtures("eager_steps")


@pytest.mark.slow
def test_a_list_of_tensors_of_pytorch_is_no_list_of_texts():
    """They are the core's inputs in each step of a training on that backend."""
    torch = pytest.importorskip("torch")
    ids, wide = torch.zeros((2, 3), dtype=torch.int32), torch.zeros((2, 2))
    assert not TextRows().are_rows([ids, wide])
