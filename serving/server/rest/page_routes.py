"""The paths of the page: its files, the list of models, and the card of a version."""

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

from ..config import ServerConfig
from ..page.served_models import ServedModels
from ..page.static_files import StaticFile, read_static_files
from .errors import no_such_path, only_read
from .json_out import Answer, dumped
from .origin_check import check_origin

_LIST = "/page/models"
_CARD = re.compile(r"/page/models/(?P<name>[^/]+)/versions/(?P<version>\d{1,19})/card")
_MOST_VERSION = 2**63 - 1
_NOT_MODIFIED = 304
# Nothing of another origin, no script or style in the page itself, no frame around it, no form that leaves.
# Blobs are what the page itself has: images that are chosen, sounds that are recorded.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "media-src blob:; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": _POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class PageRoutes:
    """Answer the requests of the page.

    Args:
        served: what it is told of the models.
        config: of the server.

    Example:
        page = PageRoutes(served, config)
        answer = await page.answer("GET", "/", headers)
    """

    def __init__(self, served: ServedModels, config: ServerConfig):
        self._served = served
        self._config = config
        self._files = read_static_files()

    def check(self, method: str, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Check that a request, to any path of the port, is not made by a web page of another site.

        Raises:
            HttpError: 421 or 403, it may be.
        """
        check_origin(self._config, method, headers)

    def is_file(self, path: str) -> bool:
        """Return True for a file of the page, which needs no token: it holds nothing of the models."""
        return path in self._files

    async def answer(self, method: str, path: str, headers: Sequence[tuple[bytes, bytes]]) -> Answer | None:
        """Return the answer to a request for one of the page's paths; None for another path.

        Raises:
            HttpError: 405, it is no GET; 404, there is nothing under /page/ at that path.
            NotFoundError: no such version answers.
        """
        if path != "/" and not path.startswith("/page/"):
            return None
        if method != "GET":
            raise only_read(path, method)
        if path in self._files:
            return _file_answer(self._files[path], headers)
        if path == _LIST:
            return _json(await self._served.listed())
        if (found := _CARD.fullmatch(path)) and int(found["version"]) <= _MOST_VERSION:
            return _json(self._served.card(unquote(found["name"]), int(found["version"])))
        raise no_such_path(path, "the page begins at /")


def _file_answer(file: StaticFile, headers: Sequence[tuple[bytes, bytes]]) -> Answer:
    known = b",".join(value for name, value in headers if name == b"if-none-match").decode("latin-1")
    if file.tag in (tag.strip().removeprefix("W/") for tag in known.split(",")):
        return Answer(b"", _NOT_MODIFIED, file.content_type, {**_HEADERS, "ETag": file.tag})
    return Answer(file.body, content_type=file.content_type, headers={**_HEADERS, "ETag": file.tag})


def _json(value: Any) -> Answer:
    return Answer(dumped(value), headers={**_HEADERS, "Cache-Control": "no-store"})
