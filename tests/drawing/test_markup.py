"""Texts and attributes in markup come back as they were, and make no element."""

from html_pages import read_page

from keras_selfattn.drawing.markup import Markup, escape, isolated, join, shortened, tag

ATTACK = "<img src=x onerror=alert(1)>\"'&\x00\ud800"


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
