"""Write a model as the next version for another runtime: check it there, then rename it into place."""

import functools
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import keras
import numpy as np

from keras_selfattn import __version__
from keras_selfattn.errors import ExportError
from keras_selfattn.extras import require
from keras_selfattn.files.version_files import PORTABLE
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.serving.wire.signature_names import PROBABILITIES

from ..card import Training, model_card, write_card
from ..contract import Contract
from ..precision import at_precision, computes_in_half, is_quantized
from ..publishing import check_model, check_place, draft_of, errors_named, publish_version
from ..signatures.model_signatures import MOST_ASKED
from ..signatures.raw_models import raw_front
from ..trial import IN_FULL, Case, check_sums, checked, live_answers, tried
from ..versions import keep_newest
from .litert_file import litert_file
from .number_contract import label_rule, number_contract
from .onnx_file import OPSET, onnx_file
from .tokenizer_export import write_files

_PROGRAM = Path(__file__).with_name("portable_check.py")
# Packages that write and run the files; TensorFlow has all of LiteRT's.
_CONVERTERS = {"onnx": ("onnx", "tf2onnx", "onnxruntime"), "litert": ()}


def export_portable(
    model: keras.Model,
    base_path: str | Path,
    format: str,  # noqa: A002  as Keras names it
    version: int | None = None,
    *,
    labels: Sequence[str] | None = None,
    samples: Mapping[str, Any] | None = None,
    precision: str | None = None,
    training: Training | None = None,
    keep: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Path | str:
    """Write `<base_path>/<version>/` for another runtime, `model.onnx` or `model.tflite`; return its path.

    Inputs and outputs are numbers: ids of texts, float32 series and images in; probabilities, numbers or
    vectors out. The labels are in the model card. For a model of texts or tokens the files beside it have all
    that a program in another language needs to make the ids; docs/savedmodel.md describes them. A
    `TextClassifier` needs `wide=False`: its wide path hashes strings.

    The folder is written under a hidden name, run in a fresh process by ONNX Runtime (without TensorFlow) or
    by LiteRT, compared there with the model's own answers, and renamed, as `export_saved_model` does.

    Args:
        model: a trained model of this library, or any Keras model whose inputs are numbers.
        base_path: the folder of all versions, or the URI of one, as of `export_saved_model`. It holds
            versions of one format only.
        format: "onnx" (`pip install 'keras-selfattn[onnx]'`) or "litert".
        version: an unused positive integer; by default the next one.
        labels: names of the classes, in order, of a model that is none of this library's.
        samples: a few real rows by input of such a model, for the check. By default invented.
        precision: "float32" for a model that computes in half precision; by default the model's own, which
            must be float32.
        training: the origin of the model, for the card.
        keep: remove all but this many of the highest versions, once the new one is whole.
        progress: called with the name of each stage as it begins.

    Raises:
        ExportError: if the model cannot be converted, the place cannot be written, the version is taken, or
            the file answers differently. Nothing is left behind.
        MissingExtraError: if a package that converts or runs the file is not installed.

    Example:

        >>> import tempfile
        >>> from keras_selfattn import models
        >>> small = models.TextConfig(tokens="characters", width=8, num_layers=1, num_heads=1, wide=False)
        >>> model = models.TextClassifier(small, vocabulary=["a", "b"], labels=["+", "-"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sorted(path.name for path in export_portable(model, folder, "litert").iterdir())
        ['assets.extra', 'model.tflite', 'tokenizer.json', 'tokenizer_examples.json']
    """
    _check_format(format)
    # All that is refused for the model's sake, before a package is asked for that would not help.
    check_model(model)
    _check_full(model, precision)
    if isinstance(model, RawModel):
        raw_front(model).check_portable()
    if _CONVERTERS[format]:
        require("onnx", f'`format="{format}"`', *_CONVERTERS[format])
    check_place(base_path, version, keep, format)
    model = at_precision(model, precision)[0]
    stage = progress or (lambda _: None)
    example = None if training is None else training.example
    contract = number_contract(model, labels=labels, samples=samples, example=example)
    rule = label_rule(model, contract.labels)
    stage("asking the model")
    ask = functools.partial(_answered, contract, rule, format)
    cases = ask()
    describe = functools.partial(
        model_card, contract, cases, precision=precision, comparison=None, training=training
    )
    stage("tracing and converting")
    content, operations = _converted(contract, rule, format)
    with errors_named(base_path), draft_of(base_path, version) as draft:
        (draft / PORTABLE[format]).write_bytes(content)
        if isinstance(model, RawModel):
            write_files(raw_front(model).id_files(), draft)
        stage("checking in a fresh process")
        measured = tried(functools.partial(try_file, draft / PORTABLE[format]), cases, ask)
        requires = _requires(format, operations)
        card = describe(requires=requires, measured=measured, converters=_CONVERTERS[format])
        write_card(draft, {**card, "runtime": format, "label_rule": rule})
        target = publish_version(draft, base_path, version, stage)
    if keep is not None:
        keep_newest(base_path, keep, always=int(PurePath(target).name))
    return target


def try_file(file: Path, cases: Sequence[Case]) -> dict[str, Any]:
    """Run all cases on a file, in a fresh process, and return its measurements.

    Raises:
        ExportError: if an answer differs, or does not come.
    """
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary, "cases.npz")
        write_arrays(path, cases)
        return checked(_PROGRAM, str(file), str(path), str(IN_FULL))


def write_arrays(path: Path, cases: Sequence[Case]) -> None:
    """Write cases as `portable_check.py` reads them."""
    arrays = {
        f"{place}/{side}/{name}": array
        for place, case in enumerate(cases)
        for side, named in (("inputs", case.request), ("outputs", case.outputs))
        for name, array in named.items()
    }
    np.savez(path, **arrays)  # pyright: ignore[reportArgumentType]


def _check_format(format: str) -> None:  # noqa: A002
    if format not in PORTABLE:
        raise ExportError(
            f"`format` must be one of {', '.join(PORTABLE)}. Received {format!r}. A SavedModel is written by "
            "`export_saved_model`."
        )


def _check_full(model: keras.Model, precision: str | None) -> None:
    """Raise ExportError unless the file would compute in float32."""
    if precision not in (None, "float32"):
        raise ExportError(
            f'For other runtimes `precision` must be "float32" or None. Received {precision!r}. Narrower '
            "weights are of `export_saved_model`; each runtime has a quantizer of its own."
        )
    if is_quantized(model):
        raise ExportError(
            "The model is quantized to int8, which other runtimes round differently. Export the model as it "
            "was before `quantize`, and quantize the file: ONNX Runtime and LiteRT have quantizers."
        )
    if precision is None and computes_in_half(model):
        raise ExportError(
            "The model computes in half precision, which other runtimes round differently. Give "
            '`precision="float32"` (`--precision float32`) to export it in float32.'
        )


def _answered(contract: Contract, rule: str | None, format: str) -> list[Case]:  # noqa: A002
    cases = live_answers(contract)
    if rule not in (None, "at least 0.5"):
        for case in cases:
            check_sums(case.outputs[PROBABILITIES])
    if format == "litert":
        # Some of its kernels end the process on an input without numbers.
        cases = [case for case in cases if all(array.size for array in case.request.values())]
    return cases


def _converted(contract: Contract, rule: str | None, format: str) -> tuple[bytes, list[str]]:  # noqa: A002
    """Return the content of the file, and the names of its operations."""
    signature = contract.signatures[MOST_ASKED]
    if format == "litert":
        return litert_file(signature)

    metadata = {
        "task": contract.task,
        "labels": json.dumps(contract.labels, ensure_ascii=False),
        "label_rule": json.dumps(rule),
        "written_by": f"keras-selfattn {__version__}",
    }
    by_position = contract.task.endswith("labelling")
    return onnx_file(signature, metadata, by_position=by_position)


def _requires(format: str, operations: Sequence[str]) -> dict[str, Any]:  # noqa: A002
    if format == "litert":
        return {"operations": list(operations)}
    return {"onnx_opset": OPSET, "operations": list(operations)}
