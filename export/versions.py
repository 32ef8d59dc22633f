"""The versions under a base path: folders named by an integer, as TensorFlow Serving reads them."""

from pathlib import Path

from keras_selfattn.atomic import remove_dead_drafts, remove_directory
from keras_selfattn.errors import ExportError

MOST = 2**63 - 1  # TensorFlow Serving's versions have 64 bits


def list_versions(base_path: str | Path) -> list[int]:
    """Return the version numbers under a base path, in order; none if the path does not exist.

    Example:

        >>> list_versions("no/such/path")
        []
    """
    base = Path(base_path)
    if not base.is_dir():
        return []
    return sorted(int(child.name) for child in base.iterdir() if _is_number(child.name) and child.is_dir())


def latest_version(base_path: str | Path) -> int | None:
    """Return the highest version number under a base path, or None if there is none.

    Example:

        >>> latest_version("no/such/path") is None
        True
    """
    return max(list_versions(base_path), default=None)


def remove_versions(base_path: str | Path, *versions: int) -> None:
    """Remove versions; a reader sees each of them whole or not at all.

    Args:
        base_path: the folder of all versions.
        versions: their numbers.

    Raises:
        ExportError: if there is no such version, before any is removed, or if one cannot be removed.

    Example:

        >>> import tempfile
        >>> base = Path(tempfile.mkdtemp())
        >>> (base / "1").mkdir(), (base / "2").mkdir()
        (None, None)
        >>> remove_versions(base, 1)
        >>> list_versions(base)
        [2]
    """
    base, known = Path(base_path), list_versions(base_path)
    for version in versions:
        if version not in known:
            raise ExportError(f"{base} has no version {version!r}. It has: {_joined(known)}.")
    for version in dict.fromkeys(versions):
        _remove(base / str(version))


def keep_newest(base_path: str | Path, count: int, always: int | None = None) -> list[int]:
    """Remove all versions but the `count` highest, and return the numbers of those removed.

    Args:
        base_path: the folder of all versions.
        count: the number of versions to keep.
        always: a version to keep even if it is not among them.

    Raises:
        ExportError: if `count` is not a positive integer, or a version cannot be removed.

    Example:

        >>> keep_newest("no/such/path", 3)
        []
    """
    check_keep(count)
    old = [version for version in list_versions(base_path)[:-count] if version != always]
    for version in old:
        _remove(Path(base_path, str(version)))
    return old


def check_keep(count: int | None) -> None:
    """Raise ExportError if `count` is neither None nor a positive integer."""
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
        raise ExportError(f"`keep` must be a positive integer or None. Received {count!r}.")


def clean(base_path: str | Path) -> None:
    """Remove the hidden folders of killed exports under a base path."""
    if Path(base_path).is_dir():
        remove_dead_drafts(Path(base_path), r"[0-9]+")


def next_version(base_path: str | Path) -> int:
    """Return a number above every name in a base path, files included.

    Example:

        >>> next_version("no/such/path")
        1
    """
    base = Path(base_path)
    names = [child.name for child in base.iterdir()] if base.is_dir() else []
    numbers = (int(name) for name in names if name.isascii() and name.isdigit())
    return 1 + max((number for number in numbers if number < MOST), default=0)


def _is_number(name: str) -> bool:
    # Not "007": a server would read it as 7, and there might be one.
    return name.isascii() and name.isdigit() and name == str(int(name))


def _remove(version: Path) -> None:
    try:
        remove_directory(version)
    except FileNotFoundError:
        pass  # another process was faster
    except OSError as error:
        raise ExportError(
            f"Version {version.name} of {version.parent} cannot be removed: {error}."
        ) from error


def _joined(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
