"""Rows are drawn so that every class is among them."""

import numpy as np
import pytest

from keras_selfattn.models.batches.subsampling import stratified_subsample


@pytest.mark.slow
def test_rows_are_drawn_so_that_classes_are_there():
    borne = np.eye(1000, dtype=bool)[np.repeat(np.arange(1000), 20)]
    rows = stratified_subsample(borne, np.ones(len(borne)), 2000)
    assert len(set(rows.tolist())) == 2000
    assert np.bincount(borne[rows].argmax(axis=1), minlength=1000).tolist() == [2] * 1000
    assert sorted(stratified_subsample(borne, np.ones(len(borne)), len(borne))) == list(range(len(borne)))
