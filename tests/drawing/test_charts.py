"""Figures as SVG: places and lengths against numbers computed by hand, colours against their claims."""

import io
import math
import re
import zlib

import numpy as np
import pytest
from html_pages import read_page

from keras_selfattn.drawing.builders import histogram_of
from keras_selfattn.drawing.charts import bars, chart, confusion, histogram
from keras_selfattn.drawing.colours import sequential
from keras_selfattn.drawing.figures import Bars, Chart, Confusion, Histogram, Line
from keras_selfattn.drawing.markup import Markup, escape, isolated, join, shortened, tag
from keras_selfattn.drawing.notebook import coloured_tokens, shown_tokens
from keras_selfattn.drawing.pictures import image, png, sparkline
from keras_selfattn.drawing.scales import Scale, number, span, ticks
from keras_selfattn.drawing.style import STYLE

ATTACK = "<img src=x onerror=alert(1)>\"'&\x00\ud800"


def luminance(colour):
    """Of sRGB, as WCAG defines it."""
    channels = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_texts_and_attributes_come_back_as_they_were_and_make_no_element():
    page = read_page(tag("p", ATTACK, title=ATTACK))
    (found,) = page.all("p")
    shown = ATTACK.replace("\x00", "\ufffd").replace("\ud800", "\ufffd")
    assert found.text == found.attributes["title"] == shown
    assert page.all("img") == []


def test_markup_is_not_escaped_twice_and_a_text_beside_it_is():
    assert join([tag("b", "<"), "<", None]) == "<b>&lt;</b>&lt;"
    assert escape(Markup("<b></b>")) == "<b></b>"


def test_attributes_are_named_as_html_names_them():
    made = tag(
        "line", class_="a", stroke_width=2, aria_hidden="true", viewBox="0 0 1 1", hidden=True, id=None
    )
    assert made == '<line class="a" stroke-width="2" aria-hidden="true" viewBox="0 0 1 1" hidden></line>'


def test_a_long_text_ends_with_an_ellipsis_and_keeps_the_whole_as_its_tooltip():
    assert [shortened("abcdef", n) for n in (6, 4)] == ["abcdef", "abc…"]
    (found,) = read_page(isolated("x" * 700)).all("bdi")
    assert len(found.text) == 600
    assert found.attributes["title"] == "x" * 700


def test_the_lightness_of_the_colours_rises_evenly_also_without_colours():
    shades = [luminance(sequential(n / 20)) ** (1 / 3) for n in range(21)]
    steps = np.diff(shades)
    assert (steps > 0).all()
    assert steps.max() < 2 * steps.min()


def test_letters_on_every_level_can_be_read_in_light_and_dark():
    found = re.findall(r"\.s(\d+)\{fill:(#\w+)\}\.count\.s\d+\{fill:(#\w+)\}", STYLE)
    assert len(found) == 3 * 21  # light, dark, paper
    for _level, ground, ink in found:
        low, high = sorted((luminance(ground), luminance(ink)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (ground, ink)


def test_round_ticks_lie_within_their_axis():
    assert ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert ticks(1, 4, whole=True) == [1, 2, 3, 4]
    for low, high in ((0.013, 0.0171), (-3, 1e6), (1e-9, 3e-9)):
        found = ticks(low, high)
        assert 2 <= len(found) <= 12
        assert low <= found[0] < found[-1] <= high


def test_spans_of_one_value_of_none_and_of_gaps_have_a_width():
    assert span([2.0, math.nan, 5.0, math.inf]) == (2, 5)
    assert span([3.0, 3.0]) == (2.7, 3.3)
    assert span([0.0]) == (-1, 1)
    assert span([math.nan]) == (0, 1)
    assert span([4.0], least=0) == (0, 4)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (0.98765, "0.9877"),
        (1e-7, "1e-7"),
        (12345.6, "12,346"),
        (-1.5e30, "-1.5e30"),
        (math.nan, "none"),
        (-2.0, "-2"),
    ],
)
def test_numbers_are_short(value, shown):
    assert number(value) == shown


def test_a_line_goes_through_its_points_and_each_says_its_values():
    drawn = chart(Chart("Loss by epoch", "epoch", "loss", [Line("training", [1, 2, 3], [4.0, 2.0, 3.0])]))
    dots = read_page(drawn).all("circle")
    places = [(float(dot.attributes["cx"]), float(dot.attributes["cy"])) for dot in dots]
    assert places[1][0] - places[0][0] == pytest.approx(places[2][0] - places[1][0], abs=0.2)
    # 4 is above 3, and 3 above 2, half way between.
    assert places[2][1] == pytest.approx((places[0][1] + places[1][1]) / 2, abs=0.2)
    assert places[0][1] < places[2][1] < places[1][1]
    assert [dot.tooltip for dot in dots] == ["training: 1, 4", "training: 2, 2", "training: 3, 3"]
    (line,) = read_page(drawn).all("polyline")
    assert line.attributes["points"] == " ".join(f"{x:g},{y:g}" for x, y in places)


def test_values_that_are_not_finite_are_left_out_of_a_chart():
    drawn = chart(Chart("t", "x", "y", [Line("a", [1, 2, 3], [1.0, math.nan, math.inf])]))
    assert len(read_page(drawn).all("circle")) == 1
    assert "nan" not in drawn


def test_numbers_of_any_size_and_none_are_drawn():
    drawn = read_page(chart(Chart("loss", "epoch", "loss", [Line("", [1, 2, 3], [-1e308, 1e308, 2.0])])))
    assert [dot.tooltip for dot in drawn.all("circle")] == ["3, 2"]
    assert "inf" not in str(drawn)
    for values, rows in ([], 0), ([math.nan], 0), ([1e17] * 5, 5), ([1e17, 1e17 + 16], 2), ([1e308, 1.5], 1):
        found = histogram_of("Targets", "target", {"": np.array(values)})
        assert sum(found.groups[0][1]) == rows
        assert read_page(histogram(found)).all("figure")


def test_lines_are_told_apart_without_their_colours():
    lines = [Line(str(n), [0, 1], [n, n + 1]) for n in range(4)]
    found = read_page(chart(Chart("t", "x", "y", lines))).all("polyline")
    assert len({each.attributes.get("stroke-dasharray") for each in found}) == 4


def test_rows_of_a_histogram_are_whole_and_large_ticks_stay_beside_their_axis():
    drawn = read_page(histogram(Histogram("h", "x", [0.0, 2e7, 4e7], [("", [2, 1])])))
    said = [each.text for each in drawn.all("text")]
    assert said[:3] == ["0", "1", "2"]
    assert "2e7" in said


def test_columns_of_a_histogram_are_as_high_as_their_counts():
    drawn = read_page(histogram(Histogram("t", "x", [0, 1, 2, 3], [("", [2, 0, 8])])))
    heights = [float(each.attributes["height"]) for each in drawn.all("rect")]
    assert len(heights) == 2
    assert heights[1] / heights[0] == pytest.approx(4, rel=0.02)


def test_bars_are_as_long_as_their_values_and_name_them():
    drawn = read_page(bars(Bars("t", ["a", ATTACK], [("train", [0.5, 0.25])], "share")))
    found = [each for each in drawn.all("rect") if each.tooltip]
    assert [each.tooltip.split(": ")[1] for each in found] == ["0.5", "0.25"]
    widths = [float(each.attributes["width"]) for each in found]
    assert widths[0] / widths[1] == pytest.approx(2, rel=0.01)
    assert drawn.all("img") == []


def test_cells_of_a_confusion_matrix_stand_in_their_row_and_column_with_their_counts():
    cells = [(0, 0, 6), (0, 2, 2), (1, 1, 5)]
    drawn = read_page(confusion(Confusion("t", ["a", "b", "c"], cells, [8, 5, 0])))
    groups = drawn.all("g")
    assert {each.tooltip for each in groups} == {
        "a predicted as a: 6 of 8 (75%)",
        "a predicted as c: 2 of 8 (25%)",
        "b predicted as b: 5 of 5 (100%)",
    }
    by_count = {each.all("text")[0].text: each.all("rect")[0].attributes for each in groups}
    assert by_count["6"]["y"] == by_count["2"]["y"] < by_count["5"]["y"]
    assert float(by_count["2"]["x"]) - float(by_count["6"]["x"]) == pytest.approx(
        2 * (float(by_count["5"]["x"]) - float(by_count["6"]["x"])), abs=0.3
    )
    assert by_count["5"]["class"] == "s20"


def test_a_matrix_of_150_classes_has_tooltips_in_place_of_letters_and_is_bounded():
    cells = [(row, column, 1 + (row == column)) for row in range(150) for column in range(150)]
    drawn = confusion(Confusion("t", [f"class {n}" for n in range(150)], cells, [151] * 150))
    page = read_page(drawn)
    assert len(page.all("g")) == 4_000
    assert {each.text for each in page.all("text")} == {"predicted", "label"}
    # The cells with the most rows are there.
    assert sum("2 of 151" in each.tooltip for each in page.all("g")) == 150


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


def test_the_largest_weight_has_the_strongest_colour_and_each_token_says_its_own():
    drawn = coloured_tokens(["a", ATTACK, "c"], np.array([0.1, 0.4, 0.0]), spaced=True)
    found = read_page(drawn).all("span")
    assert [each.attributes["class"] for each in found] == ["w2", "w9", "w0"]
    assert [each.attributes["title"] for each in found] == ["10.0%", "40.0%", "0.0%"]
    assert read_page(coloured_tokens(["a"] * 9, np.zeros(9), spaced=False, most=3)).text == "aaa…"


def test_a_notebook_gets_the_style_with_the_tokens_and_no_rule_for_anything_else():
    drawn = shown_tokens(["a"], np.ones(1), spaced=True)
    style = read_page(drawn).all("style")[0].text
    assert all(".selfattn" in rule for rule in style.split("}")[:-1])
    assert "w9" in drawn


def test_a_scale_maps_its_ends_to_its_ends():
    scale = Scale(2, 4, 100, 0)
    assert (scale(2), scale(3), scale(4)) == (100, 50, 0)
