"""Write a model as the next SavedModel version: check it in a fresh process, then rename it into place."""

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_selfattn.atomic import draft_directory, publish
from keras_selfattn.errors import ExportError
from keras_selfattn.object_stores import uri_of
from keras_selfattn.store_calls import without_secrets

from . import written_graph
from .card import Training, model_card, write_card
from .contract import Contract, contract_for
from .precision import Comparison, at_precision, compare, rounds_coarsely
from .stored_versions import upload
from .trial import live_answers, try_saved_model
from .versions import MOST, check_keep, clean, keep_newest, list_versions, next_version
from .warmup import write_warmup

# Largest difference between the answers of a model and of its graph, relative to numbers above 1. A graph
# fuses operations, which then round once instead of twice.
_FULL, _HALF = 1e-5, 5e-2


def export_saved_model(
    model: keras.Model,
    base_path: str | Path,
    version: int | None = None,
    *,
    preprocess: Callable[..., Any] | None = None,
    labels: Sequence[str] | None = None,
    signatures: Mapping[str, Any] | None = None,
    samples: Mapping[str, Any] | None = None,
    precision: str | None = None,
    evaluation: tuple[Any, Sequence[str]] | None = None,
    max_accuracy_drop: float | None = None,
    report: Callable[[Comparison], None] | None = None,
    training: Training | None = None,
    keep: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Path | str:
    """Write `<base_path>/<version>/`, a SavedModel that any TensorFlow Serving can serve; return its path.

    The signatures of a `TextClassifier` take raw text: `serving_default`, `classify` (serialized
    `tf.Example`), `tokens` and `explain`; docs/savedmodel.md lists all. The signatures of another model take
    its own inputs or those of `preprocess`. The graph has stock operations only, and none that trains or
    draws random numbers. Warmup requests and a model card are written beside it.

    The folder is written under a hidden name, loaded in a fresh process without Keras, compared there with
    the model's own answers, and renamed: a reader sees a whole, checked version or none. An object store
    cannot rename: there the graph and the card are written last, for which this project's server waits.

    Args:
        model: a trained `TextClassifier`, or any Keras model with known inputs.
        base_path: the folder of all versions of this model; created if missing. The URI of a folder in an
            object store is one, too: s3://, gs://, abfs:// (`pip install 'keras-selfattn[stores]'`); the
            returned path is then a str.
        version: an unused positive integer; by default the next one.
        preprocess: runs in the graph before the model: a `tf.function` with an input signature, a
            `tf.Module` whose `__call__` is one, or a Keras layer on strings, such as TextVectorization.
        labels: names of the classes, in order, of a model that returns probabilities `[batch, classes]`, or
            `[batch, length, classes]`.
        signatures: more functions by name, each a `tf.function` with an input signature; it replaces an
            existing signature of the same name.
        samples: a few real rows by input, for check, warmup and the card's example. By default invented.
        precision: "float32", "bfloat16" (stored and computed), "float16-weights" or "int8-weights" (stored;
            computed in float32). By default the model's own.
        evaluation: rows and their labels, to compare model and export on before anything is written.
        max_accuracy_drop: refuse if the accuracy on `evaluation` falls by more than this share.
        report: called with the comparison.
        training: the origin of the model, for the card.
        keep: remove all but this many of the highest versions, once the new one is whole.
        progress: called with the name of each stage as it begins.

    Raises:
        ExportError: if the model cannot be exported, the place cannot be written, the version is taken, the
            accuracy falls too far, or the reloaded graph answers differently. Nothing is left behind.

    Example:

        >>> import tempfile
        >>> from keras_selfattn import models
        >>> small = models.TextConfig(width=8, num_layers=1, num_heads=1, ngram_buckets=64)
        >>> model = models.TextClassifier(small, vocabulary=["good", "bad"], labels=["+", "-"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     export_saved_model(model, folder).name
        '1'

    Reference: tensorflow/core/protobuf/saved_model.proto.
    """
    base, uri = Path(base_path), uri_of(base_path)
    _check_model(model)
    _check_version(version)
    if uri is None:
        _check_folder(base)
    _check_free(base_path, version)
    check_keep(keep)
    _check_drop(max_accuracy_drop, evaluation)
    if signatures and precision is not None:
        raise ExportError("`signatures` use the model's own weights: leave out `precision`, or them.")
    stage = progress or (lambda _: None)
    contract_of = functools.partial(
        contract_for,
        preprocess=preprocess,
        labels=labels,
        signatures=signatures,
        samples=samples,
        example=None if training is None else training.example,
    )
    written, weights = at_precision(model, precision)
    contract = contract_of(written, weights)
    comparison = None
    if evaluation is not None:
        stage("comparing it with the model as it is")
        as_it_is, its_weights = at_precision(model, None)
        before = contract_of(as_it_is, its_weights)
        comparison = compare(before, contract, (its_weights, weights), precision or "exported", evaluation)
        if report is not None:
            report(comparison)
        _check_accuracy(comparison, max_accuracy_drop)
    stage("asking the model")
    cases = live_answers(contract)
    describe = functools.partial(
        model_card, contract, cases, precision=precision, comparison=comparison, training=training
    )
    with _errors_named(base if uri is None else uri):
        clean(base_path)
        with _draft(base, version) if uri is None else _draft_of_upload() as draft:
            stage("tracing and writing")
            operations = _save(contract, draft)
            write_warmup(draft, contract.signatures, cases)
            stage("checking in a fresh process")
            measured = try_saved_model(draft, cases, _HALF if rounds_coarsely(written) else _FULL)
            write_card(draft, describe(operations=operations, measured=measured))
            if uri is None:
                target = _publish(draft, base, version)
            else:
                stage("uploading")
                target = upload(draft, uri, _numbers(uri, version))
    if keep is not None:
        keep_newest(base_path, keep, always=int(PurePath(target).name))
    return target


def _draft(base: Path, version: int | None) -> AbstractContextManager[Path]:
    return draft_directory(base / str(version or next_version(base)))


@contextmanager
def _draft_of_upload() -> Iterator[Path]:
    with TemporaryDirectory(prefix="keras-selfattn-") as folder:
        yield Path(folder)


def _numbers(uri: str, version: int | None) -> Iterator[int]:
    """Yield the numbers that an upload may take: others may upload at the same time."""
    return iter([version]) if version is not None else itertools.count(next_version(uri))


def _save(contract: Contract, folder: Path) -> list[str]:
    """Write the graph and its variables into a folder, and return the names of the graph's operations."""
    module: Any = tf.Module()
    module.tracked = list(contract.tracked)
    tf.saved_model.save(
        module,
        str(folder),
        signatures={name: signature.concrete for name, signature in contract.signatures.items()},
        # They would add the training operations, including dropout's random numbers.
        options=tf.saved_model.SaveOptions(experimental_custom_gradients=False),
    )
    return written_graph.finish(
        folder, {name: each.method_name for name, each in contract.signatures.items()}
    )


@contextmanager
def _errors_named(base: Path | str) -> Iterator[None]:
    """Raise errors of writing as ExportError."""
    try:
        yield
    except FileExistsError as error:
        raise ExportError(f"{error}. Leave `version` out to write the next one.") from error
    except (OSError, tf.errors.OpError) as error:
        raise ExportError(f"{without_secrets(base)} cannot be written: {error}.") from error
    except AssertionError as error:
        # The message of tf.saved_model.save for a table that it cannot find.
        raise ExportError(
            "The model, `preprocess` or `signatures` use a table or variable that is not saved along: "
            f"{error} Let a layer hold it as a Keras weight, or give a tf.Module that holds it as an "
            "attribute."
        ) from error


def _check_model(model: keras.Model) -> None:
    if not isinstance(model, keras.Model):
        raise ExportError(f"`model` must be a Keras model. Received {type(model).__name__}.")
    if not model.built:
        raise ExportError("`model` has no weights yet. Train it, or call it once.")
    if keras.backend.backend() != "tensorflow":
        raise ExportError(
            f"A SavedModel needs TensorFlow. Keras runs on {keras.backend.backend()!r}: save the model "
            "as .keras, and export the file with `keras-selfattn export`, in a process of its own."
        )
    for weight in model.weights:
        if not np.isfinite(np.asarray(weight, dtype="float32")).all():
            raise ExportError(f"The weight {weight.path!r} is not finite everywhere. Train the model again.")


def _check_drop(most: float | None, evaluation: Any) -> None:
    if most is not None and (isinstance(most, bool) or not 0 <= most <= 1):
        raise ExportError(f"`max_accuracy_drop` must be a share from 0 to 1. Received {most!r}.")
    if most is not None and evaluation is None:
        raise ExportError("`max_accuracy_drop` needs `evaluation`: rows and labels to measure it on.")


def _check_accuracy(comparison: Comparison, most: float | None) -> None:
    if most is not None and comparison.accuracy_drop > most:
        raise ExportError(
            f"The accuracy falls by {comparison.accuracy_drop:.2%} of {comparison.rows} rows, from "
            f"{comparison.before.accuracy:.2%} to {comparison.after.accuracy:.2%}; at most {most:.2%} was "
            "allowed. Nothing was written."
        )


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
    if isinstance(version, bool) or not isinstance(version, int) or not 0 < version <= MOST:
        raise ExportError(f"`version` must be a positive integer below 2**63. Received {version!r}.")


def _check_free(base_path: str | Path, version: int | None) -> None:
    """Raise ExportError if a version exists, or the store cannot be listed, before long work."""
    uri = uri_of(base_path)
    if uri is None:
        taken = version is not None and Path(base_path, str(version)).exists()
    else:
        taken = version in list_versions(uri)
    if taken:
        raise ExportError(
            f"{without_secrets(uri or base_path)} has a version {version} already. Leave `version` out to "
            "write the next one."
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
