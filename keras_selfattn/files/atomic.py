"""Folders and files that appear whole or not at all.

Content is written beside its place under a temporary name and then renamed. The writing process locks its
draft. The kernel releases the lock of a dead process, and then any process may remove the draft.
"""

import contextlib
import fcntl
import io
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

# Folders of special files.
_NO_FILES = ("dev", "proc")


@contextmanager
def new_directory(target: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield an empty folder beside `target` that replaces it when the block ends without an exception.

    On any exception, KeyboardInterrupt included, it is removed and `target` is unchanged.

    Args:
        target: the path of the folder; parents are created.
        overwrite: True replaces an existing folder, once the new one is whole.

    Raises:
        FileExistsError: if `target` exists without `overwrite`, or is a file.
    """
    check_target(target, overwrite=overwrite)
    with draft_directory(target) as draft:
        yield draft
        publish(draft, target, overwrite=overwrite)


@contextmanager
def draft_directory(target: Path) -> Iterator[Path]:
    """Yield an empty folder beside `target`, hidden by a leading dot; remove it unless it is published."""
    _make_parent(target)
    draft, lock = _locked_draft(target)
    try:
        draft.chmod(0o777 & ~_umask())  # mkdtemp's 0700 would exclude a server under another user
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        os.close(lock)


def remove_dead_drafts(parent: Path, names: str) -> list[Path]:
    """Remove draft folders whose writers were killed; keep those of running writers.

    Args:
        parent: the folder of the drafts.
        names: regular expression for their final names.

    Returns:
        The removed folders.
    """
    removed = []
    for draft in parent.iterdir():
        if not re.fullmatch(rf"\.{names}\.tmp-[a-z0-9_]{{8}}", draft.name):
            continue
        with contextlib.suppress(OSError):  # removed meanwhile, or on a file system without locks
            lock = _lock(draft, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                shutil.rmtree(draft)
                removed.append(draft)
            finally:
                os.close(lock)
    return removed


def lock_folder(folder: Path) -> int:
    """Return a descriptor that holds the lock of a folder until it is closed.

    Raises:
        BlockingIOError: if another process holds it, or has just removed the folder.
    """
    descriptor = _lock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    # The folder may have been removed, and another one made, between the two calls: this lock locks nothing.
    if not folder.exists() or not os.path.samestat(os.fstat(descriptor), folder.stat()):
        os.close(descriptor)
        raise BlockingIOError(f"{folder} has just been removed")
    return descriptor


def remove_directory(target: Path) -> None:
    """Remove a folder; a reader sees all of it or, after one rename, nothing."""
    grave, lock = _locked_draft(target)
    try:
        target.rename(grave / target.name)
        sync(target.parent)
    finally:
        shutil.rmtree(grave, ignore_errors=True)
        os.close(lock)


def publish(draft: Path, target: Path, *, overwrite: bool = False) -> None:
    """Rename a finished draft to `target`, after its content has reached the disk.

    Raises:
        FileExistsError: if `target` exists without `overwrite`; another process may have created it.
    """
    sync_tree(draft)
    if overwrite and target.exists():
        _replace(draft, target)
    else:
        try:
            draft.rename(target)
        except OSError as error:
            if target.exists():
                raise FileExistsError(f"{target} exists already") from error
            raise
    sync(target.parent)


def write_file(target: Path, content: bytes) -> None:
    """Write a file that appears whole, and replaces an existing one."""
    with new_file(target) as file:
        file.write(content)


@contextmanager
def new_file(target: Path) -> Iterator[BinaryIO]:
    """Yield a file to write to; it replaces `target` if the block succeeds."""
    _make_parent(target)
    descriptor, draft = tempfile.mkstemp(prefix=f".{target.name}.tmp-", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            os.fchmod(file.fileno(), 0o666 & ~_umask())
            file.flush()
            os.fsync(file.fileno())
        Path(draft).rename(target)
    finally:
        Path(draft).unlink(missing_ok=True)


def check_target(target: Path, *, overwrite: bool = False) -> None:
    """Raise FileExistsError if `new_directory` could not put a folder at `target`."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        kind = "a link" if target.is_symlink() else "a file"
        raise FileExistsError(f"{target} is {kind}, which a folder cannot replace")
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists already")


def check_writable(target: Path) -> None:
    """Raise OSError if a file or folder could not be made at `target`; leave nothing behind."""
    parent = target.parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir():
        raise NotADirectoryError(f"{parent} is not a folder")
    # Flags of the folder are not enough: file systems can be read-only, names too long.
    Path(tempfile.mkdtemp(prefix=f".{target.name}.tmp-", dir=parent)).rmdir()


@contextmanager
def text_destination(target: Path) -> Iterator[TextIO]:
    """Yield a text stream for `target`, in UTF-8 and with unchanged line ends.

    A file appears when all is written. A link stays a link. Special files, such as a pipe, a device or a
    shell's /dev/stdout, are written to directly.
    """
    stream = target.exists() and is_stream(target)
    with target.open("ab") if stream else new_file(_resolved(target)) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        yield text
        text.flush()
        text.detach()


def is_stream(target: Path) -> bool:
    """Return True if `target` is a special file, which a rename must not replace."""
    return not target.is_file() or target.absolute().parts[1] in _NO_FILES


def _resolved(target: Path) -> Path:
    try:
        return target.resolve()
    except RuntimeError as error:  # links in a circle
        raise OSError(str(error)) from error


def sync_tree(folder: Path) -> None:
    """Make sure that everything below `folder` has reached the disk, before a rename shows it."""
    for root, _folders, files in os.walk(folder):
        for name in files:
            sync(Path(root, name))
        sync(Path(root))


def sync(path: Path) -> None:
    """Make sure that a file, or the entries of a folder, have reached the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace(draft: Path, target: Path) -> None:
    """Move `draft` to `target`, and remove the old folder only after that."""
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}.old-", dir=target.parent))
    try:
        target.rename(old / "old")
        try:
            draft.rename(target)
        except BaseException:
            (old / "old").rename(target)
            raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _make_parent(target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(f"{error.filename} is not a folder") from error


def _locked_draft(target: Path) -> tuple[Path, int]:
    """Return a new hidden folder beside `target`, and the descriptor that holds its lock."""
    while True:
        draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.tmp-", dir=target.parent))
        with contextlib.suppress(FileNotFoundError):
            lock = _lock(draft, fcntl.LOCK_EX)
            if draft.exists():  # otherwise it was removed as a dead one before it was locked
                return draft, lock
            os.close(lock)


def _lock(folder: Path, how: int) -> int:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, how)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
