"""The files of the page, read once: HTML, style sheets, JavaScript modules and pictures."""

import hashlib
from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).parent / "static"
_PREFIX = "/page/static/"
_INDEX = "index.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class StaticFile(NamedTuple):
    """A file's content, its type, and a tag that changes with the content."""

    body: bytes
    content_type: str
    tag: str


def read_static_files() -> dict[str, StaticFile]:
    """Return the files of the page by the path of their URL; the page itself is at "/".

    Example:
        >>> read_static_files()["/"].content_type
        'text/html; charset=utf-8'
    """
    found: dict[str, StaticFile] = {}
    for path in sorted(_FOLDER.rglob("*")):
        if path.suffix in _TYPES:
            name = path.relative_to(_FOLDER).as_posix()
            found["/" if name == _INDEX else f"{_PREFIX}{name}"] = _read(path)
    return found


def _read(path: Path) -> StaticFile:
    body = path.read_bytes()
    return StaticFile(body, _TYPES[path.suffix], f'"{hashlib.sha256(body).hexdigest()[:32]}"')
