"""Take the screenshots of docs/page.md: python docs/screenshots.py BASE_PATH FOLDER.

BASE_PATH has versions of a model of texts, such as quickstart/models/languages; FOLDER gets the pictures. It
needs Playwright and the command chromium.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from keras_selfattn.serving.server import Server, ServerConfig

_TEXT = "Wo ist der Bahnhof, bitte?"
_SECONDS = 120


def main(base_path: Path, folder: Path) -> None:
    """Serve a model, ask it in the browser, and write what is seen."""
    config = ServerConfig("languages", base_path.resolve(), port=0, rest_api_port=-1, page=True)
    folder.mkdir(parents=True, exist_ok=True)
    with Server(config) as server, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 760})
        page.set_default_timeout(_SECONDS * 1000)
        page.goto(f"{server.rest_url}/#try/languages")
        page.get_by_label("Text", exact=True).fill(_TEXT)
        page.locator(".bars .share").first.wait_for()
        page.locator("h1").first.focus()
        page.screenshot(path=folder / "page-try.png", animations="disabled")
        _attention(page, folder / "page-attention.png")
        browser.close()


def _attention(page: Page, path: Path) -> None:
    """Write what a letter attends to, as lines."""
    page.get_by_role("button", name="What does it attend to?").click()
    page.get_by_role("tab", name="Lines").click()
    page.locator(".attention-between").wait_for()
    page.locator(".attention bdi[role=option]").nth(1).click()
    page.locator(".attention-between path").first.wait_for()
    page.mouse.move(0, 0)
    page.locator(".panel", has=page.locator(".attention")).screenshot(path=path, animations="disabled")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
