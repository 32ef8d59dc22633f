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
    return sorted(
        int(child.name) for child in base.iterdir() if child.name.isascii() and child.name.isdigit()
    )


def latest_version(base_path: str | Path) -> int | None:
    """Returns the highest version number under a base path, or None if there is none.

    Example:

        >>> latest_version("no/such/path") is None
        True
    """
    return max(list_versions(base_path), default=None)
