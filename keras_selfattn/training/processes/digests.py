"""Digests of rows, settings and files, to tell whether a training that goes on is the same."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def digest_of(value: Any) -> str:
    """Return a digest of rows or settings: equal for equal values in equal containers.

    Example:

        >>> digest_of(["good", 1.5]) == digest_of(["good", 1.5])
        True
        >>> digest_of(["good", "bad"]) == digest_of(["goodbad"])
        False
    """
    found = hashlib.sha256()
    _add(found, value)
    return found.hexdigest()


def digest_of_files(path: Path) -> str:
    """Return a digest of a file, or of the names and contents of all files in a folder."""
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    parts = []
    for each in files:
        with each.open("rb") as file:
            parts.append([str(each.relative_to(path)), hashlib.file_digest(file, "sha256").hexdigest()])
    return digest_of(parts)


def _add(digest: Any, value: Any) -> None:
    """Add a value with its kind and size, so that no two values give the same bytes."""
    if isinstance(value, Mapping):
        value = [each for pair in value.items() for each in pair]
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        content, parts, kind = np.ascontiguousarray(value).tobytes(), [], f"{value.dtype} {value.shape}"
    elif isinstance(value, list | tuple | np.ndarray):
        content, parts, kind = b"", value, f"list {len(value)}"
    else:
        content, parts = repr(value).encode(errors="surrogatepass"), []
        kind = f"{type(value).__name__} {len(content)}"
    digest.update(f"<{kind}>".encode() + content)
    for part in parts:
        _add(digest, part)
