"""The rows that an export is tried with."""

import numpy as np
import pytest

from keras_selfattn.errors import ExportError
from keras_selfattn.export.trial import check_sums


def test_rows_of_nan_are_no_reason_to_miss_a_softmax():
    check_sums(np.float32([[np.nan, np.nan], [0.25, 0.75]]))
    with pytest.raises(ExportError, match="rows that sum up to 3"):
        check_sums(np.float32([[np.nan, np.nan], [1.0, 2.0]]))
