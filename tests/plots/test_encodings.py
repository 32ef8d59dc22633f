"""Plots of position encodings: curves of columns and heat maps."""

import numpy as np
import pytest

from keras_selfattn.plots import (
    encoding_curves,
    encoding_heatmap,
)

ENCODING = np.random.default_rng(0).normal(size=(11, 7))


def texts(labels):
    return [label.get_text() for label in labels]


def image(axes):
    (only,) = axes.images
    return only


def test_each_curve_is_a_column_against_its_position():
    (axes,) = encoding_curves(ENCODING, [5, 0, 6]).axes
    for line, column in zip(axes.lines, [5, 0, 6], strict=True):
        np.testing.assert_array_equal(line.get_xdata(), np.arange(11))
        np.testing.assert_array_equal(line.get_ydata(), ENCODING[:, column])
    assert texts(axes.get_legend().get_texts()) == ["column 5", "column 0", "column 6"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("position", "encoding")


@pytest.mark.parametrize("columns", [range(2, 4), np.array([2, 3]), (2, np.int64(3))])
def test_columns_may_come_as_any_sequence_of_integers(columns):
    assert texts(encoding_curves(ENCODING, columns).axes[0].get_legend().get_texts()) == [
        "column 2",
        "column 3",
    ]


def test_the_heat_map_is_the_encoding_with_position_0_at_the_top_and_zero_in_the_middle_of_the_colours():
    axes, bar = encoding_heatmap(ENCODING).axes
    np.testing.assert_array_equal(image(axes).get_array(), ENCODING)
    assert axes.get_ylim() == (10.5, -0.5)
    assert axes.get_xlim() == (-0.5, 6.5)
    assert image(axes).get_clim() == (-np.abs(ENCODING).max(), np.abs(ENCODING).max())
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("column (encoding dimension)", "position")
    assert bar.get_ylabel() == "encoding"


def test_torch_tensors_with_gradients_and_in_half_precision_are_drawn():
    torch = pytest.importorskip("torch")
    values = torch.linspace(0, 1, 12, requires_grad=True).reshape(4, 3)
    for tensor in (values, values.to(torch.bfloat16)):
        lines = encoding_curves(tensor, [1]).axes[0].lines
        np.testing.assert_allclose(lines[0].get_ydata(), values.detach().numpy()[:, 1], atol=0.01)
