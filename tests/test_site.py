"""The documentation site, as it is built: every public name, a search, and nothing from another host.

CONTRIBUTING.md has the command that builds it; without its folder these tests are skipped.
"""

import importlib
import pkgutil
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path

import pytest

import keras_selfattn
from keras_selfattn import errors
from keras_selfattn.serving import errors as serving_errors

ROOT = Path(__file__).parent.parent
SITE = ROOT / "site"
built = pytest.mark.skipif(not SITE.is_dir(), reason="site/ is not built")


def public_names():
    """Each package with `__all__`, and what the modules without it define."""
    places = {"keras_selfattn.": keras_selfattn.__path__[:1]}
    for package in (keras_selfattn.export, keras_selfattn.serving):
        places[f"{package.__name__}."] = package.__path__
    found = {info.name for start in places for info in pkgutil.walk_packages(places[start], start)}
    modules = [
        importlib.import_module(name) for name in sorted(found) if not name.endswith((".check", "_pb2"))
    ]
    names = {module.__name__: module.__all__ for module in modules if hasattr(module, "__all__")}
    for module in (errors, serving_errors):
        own = [
            name for name, each in vars(module).items() if getattr(each, "__module__", "") == module.__name__
        ]
        names[module.__name__] = [name for name in own if not name.startswith("_")]
    return names


def test_each_public_package_has_a_page_of_its_docstrings():
    pages = (ROOT / "docs" / "reference").glob("*.md")
    shown = {name for page in pages for name in re.findall(r"automodule:: (\S+)", page.read_text("utf-8"))}
    assert shown == set(public_names())


def test_the_start_page_leads_to_each_page_of_the_documentation():
    docs = ROOT / "docs"
    lines = (docs / "index.md").read_text(encoding="utf-8").splitlines()
    folders = [line.removesuffix("/*") for line in lines if line.endswith("/*")]
    pages = [page for folder in (docs, docs / "guides", docs / "tasks") for page in folder.glob("*.md")]
    assert len(pages) >= 25
    for page in pages:
        name = page.relative_to(docs).with_suffix("").as_posix()
        assert name == "index" or name in lines or page.parent.name in folders, name


@built
def test_the_reference_has_every_public_name():
    lines = (SITE / "objects.inv").read_bytes().split(b"\n", 4)[4]
    shown = {line.split()[0] for line in zlib.decompress(lines).decode().splitlines()}
    wanted = {f"{module}.{name}" for module, names in public_names().items() for name in names}
    assert len(wanted) > 100
    assert wanted - shown == set()


@built
def test_methods_that_a_class_gets_from_other_classes_of_ours_are_shown_and_those_of_keras_are_not():
    text = (SITE / "docs" / "reference" / "models.html").read_text(encoding="utf-8")
    for ours in ("label", "compute_loss"):
        assert f'id="keras_selfattn.models.TextClassifier.{ours}"' in text
    for of_keras in ("get_layer", "count_params"):
        assert f'id="keras_selfattn.models.TextClassifier.{of_keras}"' not in text
    signature = re.search(r'id="keras_selfattn.models.TextClassifier">.*?</dt>', text, re.DOTALL)[0]
    assert "multi_label" in signature


class Loaded(HTMLParser):
    """Collects the addresses that a page loads by itself, which links to click are not."""

    def __init__(self):
        super().__init__()
        self.addresses = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        names = ("src", "srcset", "poster", "data") if tag != "link" else ("href",)
        self.addresses += [given[name] for name in names if given.get(name)]
        self.addresses += re.findall(r"url\(([^)]*)\)", given.get("style") or "")


def elsewhere(address):
    return re.match(r"\s*['\"]?(https?:)?//", address) is not None


@built
def test_no_page_and_no_style_loads_anything_from_another_host():
    pages = list(SITE.rglob("*.html"))
    assert len(pages) >= 30
    loaded = Loaded()
    for page in pages:
        loaded.feed(page.read_text(encoding="utf-8"))
    styles = [path.read_text(encoding="utf-8") for path in SITE.rglob("*.css")]
    imported = [url for style in styles for url in re.findall(r"(?:@import|url\()\s*([^);]+)", style)]
    assert len(loaded.addresses) > 100
    assert [address for address in loaded.addresses + imported if elsewhere(address)] == []


def test_the_check_above_can_fail():
    loaded = Loaded()
    loaded.feed(
        '<a href="https://a.b"><link href="//a.b/c.css"><img src="d.png"><script src="http://a.b/e.js">'
    )
    assert [elsewhere(address) for address in loaded.addresses] == [True, False, True]


@built
def test_the_search_finds_a_name_and_a_word_without_a_server():
    index = (SITE / "searchindex.js").read_text(encoding="utf-8")
    assert index.startswith("Search.setIndex(")  # a script, which a page from the disk may load
    assert '"RotaryPositions"' in index
    assert "fasttext" in index
    assert "searchindex.js" in (SITE / "search.html").read_text(encoding="utf-8")
