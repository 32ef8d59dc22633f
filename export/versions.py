"""The versions under a base path: folders named by an integer, as TensorFlow Serving reads them."""

from pathlib import Path


def list_versions(base_path: str | Path) -> list[int]:
    """Returns the version numbers under a base path, in order; none if the path does not exist.

    Example:

        >>> list_versions("no/such/path")
        []
    """
    base = Path(base_path)
    if not base.is_dir():
        return []
    return sorted(int(child.name) for child in base.iterdir() if _is_number(child.name) and child.is_dir())


def latest_version(base_path: str | Path) -> int | None:
    """Returns the highest version number under a base path, or None if there is none.

    Example:

        >>> latest_version("no/such/path") is None
        True
    """
    return max(list_versions(base_path), default=None)


def next_version(base_path: str | Path) -> int:
    """Returns a number above every name in a base path, files included.

    Example:

        >>> next_version("no/such/path")
        1
    """
    base = Path(base_path)
    names = [child.name for child in base.iterdir()] if base.is_dir() else []
    return 1 + max((int(name) for name in names if name.isascii() and name.isdigit()), default=0)


def _is_number(name: str) -> bool:
    # Not "007": a server would read it as 7, and there might be one.
    return name.isascii() and name.isdigit() and name == str(int(name))
