"""The files of the page: packaged, without code from text and addresses of others."""

import re
from pathlib import Path

from keras_selfattn.serving.server.page import static_files

STATIC = Path(static_files.__file__).parent / "static"


def files():
    return sorted(path for path in STATIC.rglob("*") if path.is_file())


def test_the_page_holds_no_code_from_text_and_no_address_of_others():
    from_text = (
        r"innerHTML|outerHTML\s*\+?=(?!=)|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc"
    )
    for path in files():
        text = path.read_text("utf-8")
        assert re.findall(from_text, text) == [], path.name
        code = re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)
        addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"'`]*", code))
        # The name of SVG's elements, which is never fetched.
        assert addresses <= {"http://www.w3.org/2000/svg"}, path.name
    index = (STATIC / "index.html").read_text("utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)|\son\w+=|\bstyle=|<style", index) == []


def test_every_file_is_packaged():
    """The globs of setup.cfg go two folders deep."""
    assert {len(path.relative_to(STATIC).parts) for path in files()} <= {1, 2}
    assert {path.suffix for path in files()} <= {".html", ".js", ".css", ".svg"}
    setup = (Path(__file__).parents[4] / "setup.cfg").read_text("utf-8")
    assert "keras_selfattn.serving.server.page = static/*, static/*/*\n" in setup
