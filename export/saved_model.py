"""Write a model as the next SavedModel version: check it in a fresh process, then rename it into place."""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import keras
import tensorflow as tf

from keras_selfattn.errors import ExportError

from . import written_graph
from .card import Training, model_card, write_card
from .contract import Contract, contract_for
from .precision import Comparison, at_precision, compare, rounds_coarsely
from .publishing import check_model, check_place, draft_of, errors_named, publish_version
from .trial import IN_FULL, IN_HALF, live_answers, tried, try_saved_model
from .versions import keep_newest
from .warmup import write_warmup


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
            computed in float32), or "int8" (the kernels of attention and feed-forward layers, stored and
            multiplied; for x86 processors, by oneDNN). By default the model's own.
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
    check_model(model)
    check_place(base_path, version, keep, "savedmodel")
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
    in_int8 = precision == "int8"
    ask = functools.partial(live_answers, contract, in_graphs=in_int8)
    cases = ask()
    describe = functools.partial(
        model_card, contract, cases, precision=precision, comparison=comparison, training=training
    )
    with errors_named(base_path), draft_of(base_path, version) as draft:
        stage("tracing and writing")
        operations = _save(contract, draft)
        write_warmup(draft, contract.signatures, cases)
        stage("checking in a fresh process")
        allowed = IN_HALF if rounds_coarsely(written) else IN_FULL
        measured = tried(lambda cases: try_saved_model(draft, cases, allowed), cases, ask)
        write_card(draft, describe(requires=_requires(operations, in_int8), measured=measured))
        target = publish_version(draft, base_path, version, stage)
    if keep is not None:
        keep_newest(base_path, keep, always=int(PurePath(target).name))
    return target


def _requires(operations: Sequence[str], in_int8: bool) -> dict[str, Any]:
    needed = {"tensorflow_serving": f">={written_graph.OLDEST}"}
    return {**needed, **({"onednn": True} if in_int8 else {}), "operations": list(operations)}


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
    return written_graph.finish(folder, contract.signatures)


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
