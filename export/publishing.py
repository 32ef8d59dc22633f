"""A new version: its place checked before long work, drafted beside it, published by one step.

A place is a folder of this machine, or the URI of one in an object store.
"""

import itertools
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ExportError, StorageError
from keras_selfattn.files.atomic import draft_directory, publish
from keras_selfattn.files.object_stores import StoreFolder, uri_of
from keras_selfattn.files.store_calls import without_secrets
from keras_selfattn.files.version_files import CARD, FORMATS
from keras_selfattn.files.version_listing import LARGEST_VERSION
from keras_selfattn.models.saving.weight_parts import parts_of

from .versions import check_keep, clean, formats_of, next_version, version_folders

_log = logging.getLogger(__name__)


def check_model(model: keras.Model) -> None:
    """Raise ExportError for a model that is not trained, or that cannot be computed here."""
    if not isinstance(model, keras.Model):
        raise ExportError(f"`model` must be a Keras model. Received {type(model).__name__}.")
    if not model.built:
        raise ExportError("`model` has no weights yet. Train it, or call it once.")
    if keras.backend.backend() != "tensorflow":
        raise ExportError(
            f"An export needs TensorFlow. Keras runs on {keras.backend.backend()!r}: save the model "
            "as .keras, and export the file with `keras-selfattn export`, in a process of its own."
        )
    for weight in model.weights:
        if not all(np.isfinite(part.astype("float32", copy=False)).all() for part in parts_of(weight)):
            raise ExportError(f"The weight {weight.path!r} is not finite everywhere. Train the model again.")


def check_place(base_path: str | Path, version: int | None, keep: int | None, format: str) -> None:  # noqa: A002
    """Raise ExportError if a version cannot be written to a place, before long work.

    Args:
        base_path: the folder of all versions, or its URI.
        version: its number, or None for the next one.
        keep: the number of versions to keep, or None for all.
        format: of the version: all versions of a place are of one.
    """
    _check_version(version)
    if uri_of(base_path) is None:
        _check_folder(Path(base_path))
    _check_free(base_path, version)
    check_keep(keep)
    others = formats_of(base_path) - {format}
    if others:
        raise ExportError(
            f"{without_secrets(uri_of(base_path) or base_path)} holds versions of the format "
            f"{min(others)}. Write those of the format {format} to another folder: a server, or an "
            "application, takes the highest version and could not read it."
        )


@contextmanager
def draft_of(base_path: str | Path, version: int | None) -> Iterator[Path]:
    """Yield an empty folder for a version's files; it is removed unless it is published."""
    clean(base_path)
    if uri_of(base_path) is not None:
        with TemporaryDirectory(prefix="keras-selfattn-") as folder:
            yield Path(folder)
    else:
        with draft_directory(Path(base_path, str(version or next_version(base_path)))) as draft:
            yield draft


def publish_version(
    draft: Path, base_path: str | Path, version: int | None, stage: Callable[[str], None]
) -> Path | str:
    """Make a finished draft a version, and return its path or URI.

    Raises:
        FileExistsError: another export took the given number meanwhile.
    """
    uri = uri_of(base_path)
    if uri is None:
        return _publish(draft, Path(base_path), version)
    stage("uploading")
    return upload(draft, uri, _numbers(uri, version))


@contextmanager
def errors_named(base_path: str | Path) -> Iterator[None]:
    """Raise errors of writing as ExportError."""
    try:
        yield
    except FileExistsError as error:
        raise ExportError(f"{error}. Leave `version` out to write the next one.") from error
    except (OSError, tf.errors.OpError) as error:
        raise ExportError(
            f"{without_secrets(uri_of(base_path) or base_path)} cannot be written: {error}."
        ) from error
    except AssertionError as error:
        # The message of tf.saved_model.save for a table that it cannot find.
        raise ExportError(
            "The model, `preprocess` or `signatures` use a table or variable that is not saved along: "
            f"{error} Let a layer hold it as a Keras weight, or give a tf.Module that holds it as an "
            "attribute."
        ) from error


def _numbers(uri: str, version: int | None) -> Iterator[int]:
    """Yield the numbers that an upload may take: others may upload at the same time."""
    return iter([version]) if version is not None else itertools.count(next_version(uri))


def _check_folder(base: Path) -> None:
    if base.exists() and not base.is_dir():
        raise ExportError(f"`base_path` must be a folder. {base} is a file; choose another name.")
    if set("[]\\") & set(str(base.absolute())):
        raise ExportError(
            "`base_path` must hold no brackets or backslashes: TensorFlow cannot load from "
            f"{base.absolute()}."
        )


def _check_version(version: int | None) -> None:
    if version is None:
        return
    if isinstance(version, bool) or not isinstance(version, int) or not 0 < version <= LARGEST_VERSION:
        raise ExportError(
            "`version` must be a positive integer below 2**63: servers skip larger ones. "
            f"Received {version!r}."
        )


def _check_free(base_path: str | Path, version: int | None) -> None:
    """Raise ExportError if a version exists, or the store cannot be listed, before long work."""
    uri, folders = uri_of(base_path), version_folders(base_path)
    if version is None:
        return
    if version in folders:
        place, folder = without_secrets(uri or base_path), folders[version]
        where = "" if folder == str(version) else f", in the folder {folder}"
        raise ExportError(
            f"{place} has a version {version} already{where}. Leave `version` out to write the next one."
        )
    if uri is None and os.path.lexists(Path(base_path, str(version))):
        raise ExportError(
            f"{base_path} holds {str(version)!r}, which is no folder: servers skip it, and no version can "
            "take its place. Remove it, or leave `version` out to write the next one."
        )


def _publish(draft: Path, base: Path, version: int | None) -> Path:
    while True:
        target = base / str(version or next_version(base))
        try:
            publish(draft, target)
        except FileExistsError:
            if version is not None:
                raise
            continue  # another export took this number meanwhile
        return target


def upload(folder: Path, uri: str, numbers: Iterator[int]) -> str:
    """Write a version's files as the first of `numbers` that is free, and return its URI.

    Where the store can refuse to replace an object, as S3, GCS and Azure can, two uploads never get the same
    number. A reader that does not wait for the card may see a version whose files are not all there.

    Raises:
        FileExistsError: none is free.
        StorageError: the store refuses, or does not answer; what was written is removed, but for a first
            object of which that is not known.
    """
    store = StoreFolder(uri)
    first, *rest = _in_order(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )
    for number in numbers:
        written: list[str] = []
        try:
            for name in (first, *rest):
                written.append(f"{number}/{name}")
                store.write(written[-1], folder / name, new=name == first)
        except FileExistsError:
            continue
        except BaseException:
            try:
                # A first write that failed has claimed nothing: the object may be another upload's.
                store.remove(written if len(written) > 1 else [])
            except StorageError as error:
                _log.warning("what was written to %s/%s is left there: %s", store.shown, number, error)
            raise
        return f"{uri}/{number}"
    raise FileExistsError(f"{uri} has this version already")


def _in_order(names: Iterable[str]) -> list[str]:
    """Return names of files in the order in which they are written."""
    return sorted(names, key=lambda name: (name == CARD, name in FORMATS, name))
