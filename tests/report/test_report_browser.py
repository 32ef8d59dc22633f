"""A report in a real browser: it asks for nothing, runs nothing, obeys its policy and fits a telephone."""

import shutil

import numpy as np
import pytest

from keras_selfattn.drawing.figures import Bars, Chart, Confusion, Histogram, Line
from keras_selfattn.drawing.markup import Markup
from keras_selfattn.drawing.notebook import coloured_tokens
from keras_selfattn.drawing.pictures import image
from keras_selfattn.report.page import page_html
from keras_selfattn.report.sections import Page, Section, Table

ATTACK = "<img src=https://example.org/x onerror=document.title='taken'>"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"),
]


def report():
    line = Line(ATTACK, [1.0, 2.0], [0.5, 0.25])
    figures = [
        Chart(ATTACK, ATTACK, ATTACK, [line], mark=(2.0, ATTACK)),
        Histogram(ATTACK, ATTACK, [0, 1, 2], [(ATTACK, [1, 2]), ("b", [2, 1])]),
        Bars(ATTACK, [ATTACK, "العربية"], [(ATTACK, [0.5, 0.7])], ATTACK),
        Confusion(ATTACK, [ATTACK, "ไทย"], [(0, 0, 3), (0, 1, 1), (1, 1, 2)], [4, 2]),
    ]
    tokens = coloured_tokens([ATTACK, "العربية"], np.array([0.2, 0.8]), spaced=True)
    rows = [[ATTACK, "x" * 900, tokens, 0.5, image(np.zeros((4, 4, 3), np.uint8), ATTACK)]]
    blocks = [ATTACK, *figures]
    blocks += [Table(ATTACK, [ATTACK] * 5, rows), Table(ATTACK, [ATTACK] * 5, rows, folded=True)]
    return Page(ATTACK, [ATTACK], [(ATTACK, ATTACK)], [Section(ATTACK, blocks)])


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


def test_a_report_asks_for_nothing_runs_nothing_and_fits_every_width(browser, tmp_path):
    file = tmp_path / "report.html"
    file.write_text(page_html(report()), encoding="utf-8")
    opened = browser.new_page()
    asked, said = [], []
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("console", lambda message: said.append(message.text))
    opened.goto(file.as_uri())
    assert opened.title() == ATTACK
    assert opened.locator("img").count() == 2  # the two images of the tables
    for width in (320, 1200, 3840):
        opened.set_viewport_size({"width": width, "height": 900})
        assert opened.evaluate("document.documentElement.scrollWidth") <= width
    assert (
        opened.evaluate("getComputedStyle(document.body).maxWidth") == "1180px"
    )  # the style passed the policy
    grounds = set()
    for scheme in ("light", "dark"):
        opened.emulate_media(color_scheme=scheme)
        grounds.add(opened.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds == {"rgb(255, 255, 255)", "rgb(20, 24, 29)"}
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert said == []  # such as a refusal by the policy


def test_the_policy_would_stop_a_script_and_a_picture_that_slipped_through(browser, tmp_path):
    slipped = "<script>document.title = 'taken'</script><img src='https://example.org/x.png'>"
    file = tmp_path / "report.html"
    file.write_text(page_html(report()).replace("</main>", Markup(slipped) + "</main>"), encoding="utf-8")
    opened = browser.new_page()
    asked, said = [], []
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("console", lambda message: said.append(message.text))
    opened.goto(file.as_uri())
    assert opened.title() == ATTACK
    assert len(said) >= 2
    assert all("Content Security Policy" in each for each in said)
