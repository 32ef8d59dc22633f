"""Make a picture of the beginning of a report, in a browser without a window.

    python examples/report_picture.py runs/mine report.png

The report is the `report.html` of a run folder, or another .html file. Needs Chromium or Chrome.
"""

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

from keras_selfattn.atomic import write_file

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
SECONDS = 120


def main() -> None:
    """Read the command line, and write the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("report", type=Path, help="a run folder, or an .html file")
    parser.add_argument("picture", type=Path, help="the .png file to write")
    parser.add_argument("--width", type=int, default=1180, help="in pixels")
    parser.add_argument("--height", type=int, default=1270, help="in pixels")
    parser.add_argument("--browser", help="program; by default the first of " + ", ".join(BROWSERS))
    given = parser.parse_args()
    page = given.report / "report.html" if given.report.is_dir() else given.report
    if not page.is_file():
        parser.error(f"there is no report {page}")
    browser = given.browser or next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        parser.error("no browser was found: install Chromium, or name a program with --browser")
    with tempfile.TemporaryDirectory() as folder:
        drawn = Path(folder, "picture.png")
        words = [browser, *options(folder, drawn, given), page.resolve().as_uri()]
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode or not drawn.is_file():
            raise SystemExit(f"{browser} failed:\n{done.stderr}")
        write_file(given.picture, drawn.read_bytes())
    print(given.picture)


def options(folder: str, drawn: Path, given: argparse.Namespace) -> list[str]:
    """Return the browser's options; in a container its sandbox cannot start, and the page has no script."""
    size = f"--window-size={given.width},{given.height}"
    plain = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    return [*plain, f"--user-data-dir={folder}/profile", size, f"--screenshot={drawn}"]


if __name__ == "__main__":
    main()
