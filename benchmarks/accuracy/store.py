"""Results kept from run to run, in a file of JSON Lines with one line for each row of results."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import machine, versions
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import DataError

# The beginning of each line that `Store.add` writes.
_BEGINNING = b'{"set": '


@dataclass(frozen=True)
class Key:
    """The key of a row of results.

    Args:
        set: name of the data set.
        contestant: who was trained.
        seed: the seed of weights and all other random numbers.
        fold: the fold of the set, counted from 0.
        configuration: `fingerprint` of all other settings that the figures depend on.
    """

    set: str
    contestant: str
    seed: int
    fold: int
    configuration: str


class Store:
    """The rows in a results file, and the rows that are added to it.

    A row is one line, written in one step and synced to the disk: an interrupted process leaves whole lines,
    and several processes may add to one file. If a row occurs twice, the later one counts.

    Args:
        path: the file; it need not exist.
        figure: the name of a figure that each row has.

    Raises:
        DataError: if the file holds anything else.
    """

    def __init__(self, path: Path, figure: str = "accuracy") -> None:
        self._path, self._figure = path, figure
        self._found: dict[Key, dict[str, Any]] = {}
        content = path.read_bytes() if path.exists() else b""
        # A machine that lost its power leaves half a last line. That row is measured again, on a new line.
        self._torn = bool(content) and not content.endswith(b"\n")
        for number, line in enumerate(content.split(b"\n"), start=1):
            if line.strip():
                self._take(number, line)

    def folder(self, key: Key) -> Path:
        """Return a folder beside the file for what a measurement leaves until it is done; it is made.

        Each key has its own: contestants of one configuration may be measured at the same time.
        """
        folder = self._path.parent / f".{self._path.name}.{fingerprint(**asdict(key))}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def get(self, key: Key) -> dict[str, Any] | None:
        """Return the row of that key, or None if it has not been measured."""
        return self._found.get(key)

    def add(self, key: Key, found: Mapping[str, Any]) -> dict[str, Any]:
        """Append a row with the time, the machine and the versions, and return it."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        row = {**asdict(key), **found, "time": now, "machine": machine(), "versions": versions()}
        line = json.dumps(row, ensure_ascii=False) + "\n"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(descriptor, (b"\n" if self._torn else b"") + line.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._torn = False
        self._found[key] = row
        return row

    def _take(self, number: int, line: bytes) -> None:
        try:
            row = json.loads(line)
            key = Key(**{name: row[name] for name in Key.__dataclass_fields__})
            row["figures"][self._figure]
        except (ValueError, TypeError, KeyError) as error:
            if line.startswith(_BEGINNING[: len(line)]):  # torn
                return
            raise DataError(
                f"{self._path} is no file of results: line {number} begins {line[:40]!r}. Name another file."
            ) from error
        self._found[key] = row


def fingerprint(**settings: Any) -> str:
    """Return a short digest of settings, equal for equal ones: 16 hexadecimal digits.

    Example:

        >>> fingerprint(width=128, seed=0) == fingerprint(seed=0, width=128)
        True
    """
    text = json.dumps(settings, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def data_digest(parts: Sequence[LabelledRows | None]) -> str:
    """Return a digest of rows and targets, independent of the files they were read from."""
    found = hashlib.sha256()
    for part in parts:
        rows = [] if part is None else zip(part.inputs, part.targets, strict=True)
        found.update(b"part" if part is None else f"part of {len(part)}".encode())
        for given, target in rows:
            found.update(json.dumps([_as_json(given), target], ensure_ascii=False).encode())
            if isinstance(given, np.ndarray):
                found.update(np.ascontiguousarray(given).tobytes())
    return found.hexdigest()[:16]


def _as_json(given: Any) -> Any:
    return [str(given.dtype), *given.shape] if isinstance(given, np.ndarray) else given
