"""Tokens that requests must bear.

Reference: RFC 6750, section 2.1.
"""

import hmac
import logging
import os
import re
import stat
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from ...errors import ServerStartError, UnauthenticatedError

_log = logging.getLogger(__name__)

# Seconds between two looks at the file.
_LOOK_SECONDS = 1.0
_BEARER = re.compile(r"bearer +(\S+)", re.IGNORECASE)
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")


class BearerTokens:
    """The tokens of a file, one a line, which is read again when it changes.

    Safe to use from several threads. A changed file counts when two looks, a second apart, find it the same.
    One that can no longer be read, or has no token, is logged once, and the tokens before it stay.

    Args:
        path: the file.

    Raises:
        ServerStartError: it cannot be read, has no token, or a line that is none.

    Example:
        BearerTokens("tokens").check(["Bearer mF_9.B5f-4.1JqM"])
    """

    def __init__(self, path: str | Path):
        self._path = Path(path)
        self._lock = threading.Lock()
        self._tokens, self._state = self._read()
        self._seen = self._state
        self._next_look = time.monotonic() + _LOOK_SECONDS
        self._complaint = ""

    def check(self, authorizations: Sequence[str | bytes]) -> None:
        """Check the values of a request's `authorization` headers.

        Raises:
            UnauthenticatedError: there is none, there are several, or it bears no token of the file.
        """
        self._reload_if_changed()
        if not authorizations:
            raise UnauthenticatedError("this server needs a token: send authorization: Bearer TOKEN")
        if len(authorizations) > 1:
            raise UnauthenticatedError("a request must have one authorization header, not several")
        (sent_as,) = authorizations
        text = sent_as.decode("latin-1") if isinstance(sent_as, bytes) else sent_as
        found = _BEARER.fullmatch(text.strip(" \t"))
        sent = found[1].encode("latin-1", "replace") if found else b""
        # All are compared, each in a time that does not depend on how much of it is right.
        right = [hmac.compare_digest(sent, token) for token in self._tokens]
        if True not in right:
            raise UnauthenticatedError("the authorization header bears no token that this server knows")

    def _reload_if_changed(self) -> None:
        now = time.monotonic()
        if now < self._next_look:
            return
        with self._lock:
            self._next_look = now + _LOOK_SECONDS
            try:
                before, self._seen = self._seen, _state_of(self._path)
                if self._seen != self._state and self._seen == before:
                    self._tokens, self._state = self._read()
                    _log.info("auth_token_file has changed; it has %d tokens", len(self._tokens))
                    self._complaint = ""
            except (OSError, ServerStartError) as error:
                if str(error) != self._complaint:
                    _log.error("auth_token_file: %s; the tokens before stay", error)
                self._complaint = str(error)

    def _read(self) -> tuple[list[bytes], object]:
        try:
            state, text = _state_of(self._path), self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ServerStartError(f"auth_token_file {self._path} cannot be read: {error}") from error
        tokens = [line.strip() for line in text.splitlines() if line.strip()]
        if not tokens or not all(map(_TOKEN.fullmatch, tokens)):
            wrong = sum(not _TOKEN.fullmatch(token) for token in tokens)
            raise ServerStartError(
                f"auth_token_file {self._path} must have a token a line, of letters, digits and ._~+/-=. It "
                f"has {len(tokens)} lines with text; {wrong} of them are not valid tokens"
            )
        return [token.encode() for token in tokens], state


def _state_of(path: Path) -> object:
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):  # reading it could wait for ever
        raise OSError(f"{path} is not a regular file")
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
