"""Figures as SVG: places and lengths against numbers computed by hand."""

import math

import numpy as np
import pytest
from html_pages import read_page

from keras_selfattn.drawing.builders import histogram_of
from keras_selfattn.drawing.charts import alignment, bars, chart, confusion, histogram
from keras_selfattn.drawing.colours import level_of
from keras_selfattn.drawing.figures import Alignment, Bars, Chart, Confusion, Histogram, Line

ATTACK = "<img src=x onerror=alert(1)>\"'&\x00\ud800"


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


def test_an_alignment_has_a_line_for_each_written_symbol_and_a_column_for_each_read_one():
    weights = [[0.75, 0.25, 0.0], [0.0, 0.5, 0.5]]
    page = read_page(alignment(Alignment("t", ["a", "b", ATTACK], ["x", "y"], weights)))
    cells = {each.tooltip: each.all("rect")[0].attributes for each in page.all("g")}
    assert len(cells) == 6
    assert not page.all("img")
    first, beside, below = (cells[words] for words in ("x reads a: 75%", "x reads b: 25%", "y reads a: 0%"))
    assert first["y"] == beside["y"]
    assert float(below["y"]) > float(first["y"])
    assert below["x"] == first["x"]
    assert float(beside["x"]) - float(first["x"]) == pytest.approx(float(first["width"]), abs=0.2)
    assert first["class"] == level_of(0.75)
    named = [each.text for each in page.all("text")]
    assert named[-2:] == ["x", "y"]
    assert named[:2] == ["a", "b"]


def test_a_matrix_of_150_classes_has_tooltips_in_place_of_letters_and_is_bounded():
    cells = [(row, column, 1 + (row == column)) for row in range(150) for column in range(150)]
    drawn = confusion(Confusion("t", [f"class {n}" for n in range(150)], cells, [151] * 150))
    page = read_page(drawn)
    assert len(page.all("g")) == 4_000
    assert {each.text for each in page.all("text")} == {"predicted", "label"}
    # The cells with the most rows are there.
    assert sum("2 of 151" in each.tooltip for each in page.all("g")) == 150
