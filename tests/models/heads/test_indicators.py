"""Integer columns of a table are all labels or all indices."""

import pandas
import pytest

from keras_selfattn.errors import DataError
from keras_selfattn.models.heads.indicators import as_indicators

pytestmark = pytest.mark.usefixtures("eager_steps")


@pytest.mark.parametrize(
    ("labels", "columns", "names"),
    [
        (["x", "y"], [0, 1], ["x", "y"]),
        (["x", "y"], [1, 0], ["y", "x"]),
        (["x", "y"], ["y", "x"], ["y", "x"]),
        # As the default columns of an array in a table: 0 is no label, so that 1 is the second one.
        (["1", "2"], [0, 1], ["1", "2"]),
        (["1", "2"], [2, 1], ["2", "1"]),
    ],
)
def test_integer_columns_of_a_table_are_all_labels_or_all_indices(labels, columns, names):
    table = pandas.DataFrame([[1, 0], [0, 1]], columns=columns)
    assert as_indicators(table, labels).one_hot() == names


def test_integer_columns_that_can_be_read_in_two_ways_are_refused():
    table = pandas.DataFrame([[1, 0], [0, 1]], columns=[1, 2])
    with pytest.raises(DataError, match=r"`columns` can be read in two ways.* with the labels as text"):
        as_indicators(table, ["1", "2", "3"])
