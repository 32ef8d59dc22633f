"""Take the docs' screenshots of the page and of a report: python docs/screenshots.py BASE_PATH RUN FOLDER.

BASE_PATH has versions of a model of texts, such as quickstart/models/languages. RUN is a run folder, such as
quickstart/runs/1. FOLDER gets the pictures. It needs Playwright and the command chromium.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import Browser, FloatRect, Page, sync_playwright

from keras_selfattn.serving.server import Server, ServerConfig

_TEXT = "Wo ist der Bahnhof, bitte?"
_SECONDS = 120


def main(base_path: Path, run: Path, folder: Path) -> None:
    """Write the pictures of the page of a served model, and of the report of a run."""
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        take_page(browser, base_path, folder)
        take_report(browser, run, folder / "report.png")
        browser.close()


def take_page(browser: Browser, base_path: Path, folder: Path) -> None:
    """Serve a model, ask it in the browser, and write its answer, what decided it, and what it attends to."""
    config = ServerConfig("languages", base_path.resolve(), port=0, rest_api_port=-1, page=True)
    with Server(config) as server:
        page = browser.new_page(viewport={"width": 1200, "height": 760})
        page.set_default_timeout(_SECONDS * 1000)
        page.goto(f"{server.rest_url}/#try/languages")
        page.get_by_label("Text", exact=True).fill(_TEXT)
        page.locator(".bars .share").first.wait_for()
        page.locator("h1").first.focus()
        page.screenshot(path=folder / "page-try.png", animations="disabled")
        _take_letters(page, folder / "page-letters.png")
        _take_attention(page, folder / "page-attention.png")
        page.close()


def _take_letters(page: Page, picture: Path) -> None:
    """Write the letters that decided the answer, down to the n-grams."""
    size = page.viewport_size
    page.set_viewport_size({"width": 760, "height": 760})
    page.get_by_role("button", name="Which letters decided it?").click()
    page.locator(".attention-bars").nth(1).locator("li").first.wait_for()
    page.mouse.move(0, 0)
    tops = "all => all.map((one) => one.getBoundingClientRect().top + scrollY)"
    (top,) = page.locator(".panel", has=page.locator(".attention")).evaluate_all(tops)
    (end,) = page.locator(".attention-words h3").evaluate_all(tops)
    clip: FloatRect = {"x": 0, "y": top, "width": 760, "height": end - top}
    page.screenshot(path=picture, clip=clip, full_page=True, animations="disabled")
    if size is not None:
        page.set_viewport_size(size)


def _take_attention(page: Page, picture: Path) -> None:
    """Write what a letter attends to, as lines."""
    page.get_by_role("button", name="What does it attend to?").click()
    page.get_by_role("tab", name="Lines").click()
    page.locator(".attention-between").wait_for()
    page.locator(".attention bdi[role=option]").nth(1).click()
    page.locator(".attention-between path").first.wait_for()
    page.mouse.move(0, 0)
    page.locator(".panel", has=page.locator(".attention")).screenshot(path=picture, animations="disabled")


def take_report(browser: Browser, run: Path, picture: Path) -> None:
    """Write the beginning of the report of a run: its figures, its curves, and the confusion matrix."""
    page = browser.new_page(viewport={"width": 1180, "height": 1720})
    page.set_default_timeout(_SECONDS * 1000)
    page.goto((run / "report.html").resolve(strict=True).as_uri())
    page.screenshot(path=picture)
    page.close()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
