"""Versions in an object store: listed there, and fetched into the cache of this machine to be loaded.

A version of this project's exports is whole when its model card is there, which is written last; its size and
digest are checked. Any other version is whole when two listings in a row are the same.
"""

import contextlib
import functools
import logging
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_selfattn.errors import StorageError
from keras_selfattn.files.object_stores import StoreFolder
from keras_selfattn.files.version_files import CARD, GRAPHS, VARIABLES_INDEX, card_in, digest, read_card
from keras_selfattn.files.version_listing import list_base_path

from ..tflite.tflite_servable import TFLITE_FILE
from .base_paths import Look, Version
from .model_cache import ModelCache
from .version_folders import has_variables, lacking_graph

_log = logging.getLogger(__name__)

# Seconds between two listings of a version that the start of a server cannot know to be whole.
_SETTLING_SECONDS = 1.0
_LARGEST_CARD = 2**26
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 600.0
_SHARD = re.compile(r"variables/variables\.data-\d{5}-of-(\d{5})")


class StoredVersions:
    """The versions below a URI.

    Args:
        uri: of the folder that holds them.
        cache: holds what was fetched.
        prefer_tflite: True if a TFLite file is enough for a version.
        stopping: returns True when waiting calls shall end.

    Raises:
        StorageError: no file system has the URI's scheme, or its package is missing.

    Example:
        StoredVersions("s3://bucket/models/half", cache).versions()
    """

    def __init__(
        self,
        uri: str,
        cache: ModelCache,
        prefer_tflite: bool = False,
        stopping: Callable[[], bool] = lambda: False,
    ):
        self._folder = StoreFolder(uri, stopping)
        self._cache = cache
        self._prefer_tflite = prefer_tflite
        self._stopping = stopping
        self._files: Sequence[str] = ()
        self._known: dict[int, StoredVersion] = {}

    def versions(self) -> dict[int, Version]:
        """Return the versions by number; one call for each 1,000 of them."""
        listing = list_base_path(self._folder)
        self._files = listing.files
        self._known = {
            number: self._known.get(number) or self._version(name)
            for number, name in listing.versions.items()
        }
        return {**self._known}

    def _version(self, name: str) -> "StoredVersion":
        return StoredVersion(self._folder, name, self._cache, self._prefer_tflite, self._stopping)

    def is_version(self) -> bool:
        """Return True if the place is itself a version."""
        return bool({*GRAPHS} & {*self._files})


class StoredVersion:
    """A version in an object store; see `Version`."""

    def __init__(
        self,
        folder: StoreFolder,
        name: str,
        cache: ModelCache,
        prefer_tflite: bool,
        stopping: Callable[[], bool],
    ):
        self._folder = folder
        self._name = name
        self._cache = cache
        self._prefer_tflite = prefer_tflite
        self._stopping = stopping
        self._read: tuple[Look, dict[str, Any] | None] | None = None
        self._restores: tuple[Look, bool] | None = None
        self._failure: _Failure | None = None

    @property
    def place(self) -> str:
        """The URI."""
        return f"{self._folder.uri}/{self._name}"

    def look(self) -> Look:
        """Return the name, size and tag of each object; one call for each 1,000 of them."""
        files = self._folder.files(self._name)
        return frozenset((name, file.size, file.tag) for name, file in files.items())

    def missing(self, look: Look) -> str | None:
        """Return what it lacks, or None."""
        sizes = {name: size for name, size, _tag in look}
        if self._prefer_tflite and TFLITE_FILE in sizes:
            return None
        graph = next((name for name in GRAPHS if name in sizes), None)
        if graph is None:
            return lacking_graph(sizes.keys())
        card = self._card(look)
        if card is not None:
            found, wanted = sum(sizes.values()) - sizes[CARD], card["files"]["bytes"]
            differs = f"files: it has {found} bytes, and its model card names {wanted}"
            return None if found == wanted else differs
        if VARIABLES_INDEX not in sizes and self._has_variables(look, graph, sizes[graph]):
            return VARIABLES_INDEX
        return _missing_shard(sizes)

    def settled(self, look: Look, before: Look | None, first: bool) -> bool:
        """Return True if it has a card, which is written last, or two listings are the same."""
        if look == before or self._card(look) is not None:
            return True
        if not first:
            return False
        time.sleep(_SETTLING_SECONDS)
        return look == self.look()

    @contextmanager
    def local(self, look: Look) -> Iterator[Path]:
        """A folder of the cache with its files, fetched unless it is there."""
        if self._failure is not None:
            self._failure.raise_until(time.monotonic(), look)
        size = sum(size for _name, size, _tag in look)
        label = f"{self._folder.uri.rpartition('/')[2]}-{self._name}"
        with contextlib.ExitStack() as stack:
            try:
                fetch = functools.partial(self._fetch, look, size)
                entry = self._cache.entry(label, self._key(look), size, fetch, self._stopping)
                path = stack.enter_context(entry)
            except StorageError as error:
                self._failure = _Failure.after(self._failure, look, error)
                raise
            self._failure = None
            yield path

    def _fetch(self, look: Look, size: int, draft: Path) -> None:
        # Tried again and again in an outage, and told once.
        level = logging.INFO if self._failure is None else logging.DEBUG
        _log.log(level, "fetching %s/%s, %.1f MB", self._folder.shown, self._name, size / 1e6)
        started = time.monotonic()
        self._folder.fetch(self._name, {name: size for name, size, _tag in look}, draft)
        self._check(draft, look)
        _log.info("fetched %s/%s in %.1f s", self._folder.shown, self._name, time.monotonic() - started)

    def _key(self, look: Look) -> list[str]:
        """Return all that the content depends on; something new where a store tells too little."""
        told = all(tag for _name, _size, tag in look)
        return [self.place, *map(repr, sorted(look)), "" if told else str(time.time_ns())]

    def _check(self, draft: Path, look: Look) -> None:
        """Raise StorageError if fetched files are not those of one whole version."""
        shown = f"{self._folder.shown}/{self._name}"
        if self.look() != look:
            raise StorageError(f"{shown} changed while it was fetched", may_pass=True)
        card = read_card(draft)
        if card is not None and card["files"]["digest"] != digest(draft):
            raise DamagedVersionError("it is damaged: its files do not have the digest of its model card")

    def _card(self, look: Look) -> dict[str, Any] | None:
        """Return the card of this project's exports, or None if it has none."""
        if self._read is None or self._read[0] != look:
            size = next((size for name, size, _tag in look if name == CARD), _LARGEST_CARD)
            readable = size < _LARGEST_CARD
            content = self._folder.read(f"{self._name}/{CARD}", 0, size) if readable else b""
            self._read = look, card_in(content)
        return self._read[1]

    def _has_variables(self, look: Look, graph: str, size: int) -> bool:
        if self._restores is None or self._restores[0] != look:
            content = self._folder.read(f"{self._name}/{graph}", 0, size)
            self._restores = look, has_variables(graph, content)
        return self._restores[1]


class DamagedVersionError(Exception):
    """A version's files are not those that were exported."""


@dataclass(frozen=True)
class _Failure:
    """A fetch that failed: each next one waits longer, because it may read everything again."""

    look: Look
    error: StorageError
    pause: float
    next_try: float

    @classmethod
    def after(cls, before: "_Failure | None", look: Look, error: StorageError) -> "_Failure":
        """Return the failure that follows another one, or is the first."""
        pause = min(_LONGEST_PAUSE_SECONDS, 2 * before.pause) if before else _FIRST_PAUSE_SECONDS
        return cls(look, error, pause, time.monotonic() + pause)

    def raise_until(self, now: float, look: Look) -> None:
        """Raise the error again if it is too early for the next try of the same files."""
        if now < self.next_try and look == self.look:
            raise StorageError(str(self.error), may_pass=self.error.may_pass, summary=self.error.summary)


def _missing_shard(names: Collection[str]) -> str | None:
    """Return a file of variables that is missing by the names of the others, or None."""
    shards = {name: int(found[1]) for name in names if (found := _SHARD.fullmatch(name))}
    if not shards:
        return "variables/variables.data-00000-of-00001" if VARIABLES_INDEX in names else None
    count = max(shards.values())
    wanted = [f"variables/variables.data-{shard:05d}-of-{count:05d}" for shard in range(count)]
    return next((name for name in [*wanted, VARIABLES_INDEX] if name not in names), None)
