"""The page of a model that writes texts: its answer, what its search found, a cut text, and the alignment."""

import page_models
import pytest
from page_browser import answer, expect

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_a_written_text_has_its_score_and_candidates(opened):
    page = opened.open("try", "backwards")
    page.get_by_label("Text", exact=True).fill("abc")
    expect(answer(page)).to_have_text("cba")
    expect(page.locator(".written-facts:visible")).to_have_text("Score −0.250")
    rows = page.locator(".candidates tbody tr:visible")
    expect(rows).to_have_count(3)
    assert [row.locator("td").all_inner_texts() for row in rows.all()] == [
        ["cba", "−0.250", ""],
        ["CBA", "−0.500", "−0.250"],
        [f"cba{page_models.HOSTILE}", "−1.500", "−1.250"],
    ]
    assert page.title() != "owned"


def test_a_text_that_its_bound_cut_is_marked_alone_and_in_the_table(opened):
    page = opened.open("try", "backwards")
    page.get_by_label("Text", exact=True).fill("abcdefghij")
    expect(answer(page)).to_have_text("jihgfedc")
    expect(page.locator(".written-facts .cut:visible")).to_have_text("cut at its bound")
    page.get_by_text("Each line is a text of its own").check()
    page.get_by_label("Text", exact=True).fill("ab\nabcdefghij")
    rows = page.locator(".rows tbody tr:visible")
    expect(rows).to_have_count(2)
    expect(rows.nth(1).locator("td").nth(1)).to_have_text("jihgfedc cut at its bound")
    expect(rows.nth(0).locator("td").nth(1)).to_have_text("ba")
    assert page.locator(".rows th:visible").all_inner_texts() == ["Row", "Answer", "Score"]
    expect(rows.nth(0).locator("td").nth(2)).to_have_text("−0.250")


def test_an_empty_answer_is_said_to_be_one(opened):
    page = opened.open("try", "backwards")
    page.get_by_role("button", name="JSON").click()
    page.locator("textarea:visible").fill('{"inputs": [""]}')
    expect(answer(page)).to_have_text("an empty text")


def test_the_alignment_is_shown_as_lines_and_as_a_matrix(opened):
    page = opened.open("try", "backwards")
    page.get_by_label("Text", exact=True).fill("abcdefghij")
    page.get_by_role("button", name="What was each piece written from?").click()
    names = page.locator(".attention-column")
    expect(names.nth(0).locator("bdi")).to_have_text(list("jihgfedc"))
    expect(names.nth(1).locator("bdi")).to_have_text(list("abcdefghij"))
    expect(page.locator(".attention-between path")).to_have_count(8)  # of all, those that count
    names.nth(0).locator("bdi").nth(1).click()
    expect(page.locator(".attention-title")).to_have_text("All layers and heads: what “i” was written from")
    expect(page.locator(".attention-top li").first).to_have_text("i0.800")
    assert page.get_by_role("tab").all_inner_texts() == ["Lines", "Matrix", "All heads"]
    page.get_by_role("tab", name="Matrix").click()
    matrix = page.get_by_role("application")
    matrix.press("Home")
    matrix.press("ArrowUp")
    expect(page.locator(".attention-status")).to_contain_text("j (1) → a (1): 0.050")
    matrix.press("End")
    expect(page.locator(".attention-status")).to_contain_text("j (1) → j (10): 0.800")
    with page.expect_download() as download:
        page.get_by_role("button", name="SVG").click()
    saved = download.value.path().read_text("utf-8")
    assert "All layers and heads: what “j” was written from" in saved
