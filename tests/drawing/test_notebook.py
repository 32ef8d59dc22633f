"""Tokens in a notebook, on the colours of their weights."""

import numpy as np
from html_pages import read_page

from keras_selfattn.drawing.notebook import coloured_tokens, shown_alignment, shown_tokens

ATTACK = "<img src=x onerror=alert(1)>\"'&\x00\ud800"


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


def test_an_alignment_has_a_line_for_each_written_symbol_on_the_colours_of_what_it_reads():
    drawn = shown_alignment(["a", ATTACK], ["x", "y"], np.array([[0.75, 0.25], [0.0, 1.0]]))
    page = read_page(drawn)
    assert not page.all("img")
    assert [each.attributes["class"] for each in page.all("td") if "class" in each.attributes] == [
        "w7",
        "w2",
        "w0",
        "w9",
    ]
    assert [each.attributes.get("title", "")[-4:] for each in page.all("td")][1:] == [
        " 75%",
        " 25%",
        ": 0%",
        "100%",
    ]
    assert [each.text for each in page.all("th")][2:] == ["x", "y"]
    assert all(".selfattn" in rule for rule in page.all("style")[0].text.split("}")[:-1])


def test_an_alignment_of_long_texts_is_bounded():
    page = read_page(shown_alignment(["a"] * 500, ["b"] * 300, np.zeros((300, 500))))
    assert len([each for each in page.all("td") if "class" in each.attributes]) == 60 * 60
    assert [each.text for each in page.all("th")].count("…") == 2
