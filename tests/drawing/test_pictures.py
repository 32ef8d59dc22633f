"""Pictures of images and series: PNGs that others read, lines with gaps."""

import io
import math
import zlib

import numpy as np
import pytest
from html_pages import read_page

from keras_selfattn.drawing.pictures import image, png, sparkline


def test_a_png_is_read_back_by_another_library():
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)
    found = pytest.importorskip("PIL.Image").open(io.BytesIO(png(pixels)))
    np.testing.assert_array_equal(np.asarray(found), pixels)
    grey = pytest.importorskip("PIL.Image").open(io.BytesIO(png(pixels[..., :1])))
    np.testing.assert_array_equal(np.asarray(grey), pixels[..., 0])


def test_a_large_image_is_reduced_and_floats_span_all_shades():
    drawn = image(np.linspace(-3, 9, 300 * 200).reshape(300, 200, 1), "what it is")
    (found,) = read_page(drawn).all("img")
    assert found.attributes["alt"] == "what it is"
    assert int(found.attributes["height"]) <= 64
    with pytest.raises(zlib.error):
        zlib.decompress(b"no picture")
    opened = pytest.importorskip("PIL.Image").open(
        io.BytesIO(__import__("base64").b64decode(found.attributes["src"].partition(",")[2]))
    )
    assert opened.getextrema() == (0, 255)


def test_missing_and_infinite_pixels_are_shades():
    pixels = np.array([[[math.nan], [math.inf]], [[1.0], [2.0]]])
    assert image(pixels, "x") == image(np.array([[[0], [255]], [[0], [255]]], np.uint8), "x")


def test_a_series_has_a_line_for_each_feature_and_a_gap_where_a_value_is_missing():
    series = np.array([[0.0, 5.0], [1.0, math.nan], [2.0, 7.0]])
    lines = read_page(sparkline(series)).all("polyline")
    assert [len(each.attributes["points"].split()) for each in lines] == [3, 1, 1]
    assert read_page(sparkline(np.zeros((0, 1)))).all("polyline") == []


def test_a_long_series_has_few_points_and_keeps_its_peaks():
    series = np.zeros((100_000, 1))
    series[12_345], series[67_890] = 5, -3
    (line,) = read_page(sparkline(series)).all("polyline")
    places = [float(point.partition(",")[2]) for point in line.attributes["points"].split()]
    assert len(places) <= 200
    assert (min(places), max(places)) == (3, 49)  # the whole height


def test_a_forecast_goes_on_where_its_series_ends():
    drawn = read_page(sparkline(np.zeros((4, 1)), after=[("true", np.ones(2)), ("predicted", np.ones(2))]))
    first, *after = [each.attributes["points"].split() for each in drawn.all("polyline")]
    last = float(first[-1].partition(",")[0])
    assert all(float(points[0].partition(",")[0]) > last for points in after)
    assert [each.tooltip for each in drawn.all("g")] == ["true", "predicted"]
