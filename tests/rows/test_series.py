"""Series as rows: lists or arrays, of one feature or several."""

import numpy as np

from keras_selfattn.rows.series import as_series

NAN = float("nan")


def test_rows_come_as_lists_or_arrays_with_one_feature_or_several():
    rows = [row.tolist() for row in as_series([[1, 2, 3], np.array([4.0, NAN])])]
    assert rows == [[[1.0], [2.0], [3.0]], [[4.0]]], "NaN at the end is padding"
    assert [row.shape for row in as_series(np.zeros((2, 5, 3)))] == [(5, 3), (5, 3)]
    assert [row.shape for row in as_series(np.zeros((2, 5)))] == [(5, 1), (5, 1)]
    assert [row.shape for row in as_series([[], np.ones((2, 3))])] == [(0, 3), (2, 3)]
    holes = as_series([[[1.0, None], [None, None], [2.0, 3.0]]])[0]
    np.testing.assert_array_equal(holes, [[1, NAN], [NAN, NAN], [2, 3]])
