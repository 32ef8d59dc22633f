"""Inspect any SavedModel's folder from its files, without loading or running it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf import text_format
from google.protobuf.message import DecodeError

from keras_selfattn.errors import ExportError
from keras_selfattn.files.version_files import digest, format_of, read_card, size_of

from . import warmup
from .versions import version_folders
from .written_graph import count_operations, read_saved_model


@dataclass(frozen=True)
class TensorView:
    """One input or output of a signature: the dtype name, and sizes with None for any size."""

    dtype: str
    shape: tuple[int | None, ...] | None

    def __str__(self) -> str:
        shape = (
            "of any shape"
            if self.shape is None
            else f"[{', '.join(str(size or '?') for size in self.shape)}]"
        )
        return f"{self.dtype} {shape}"


@dataclass(frozen=True)
class SignatureView:
    """A signature: its inputs and outputs by name, and the API call that it is for."""

    method_name: str
    inputs: Mapping[str, TensorView]
    outputs: Mapping[str, TensorView]


@dataclass(frozen=True)
class Inspection:
    """The contents of a SavedModel's folder.

    Args:
        path: the folder.
        signatures: by name.
        operations: the count of each, in functions too.
        variables: dtype and sizes of each in the checkpoint, by name.
        bytes: of all files but the card.
        tensorflow: the version that wrote it.
        warmup_requests: their number.
        card: the model card, or None.
        intact: True if the files have the card's digest; None without a card.
        format: "savedmodel"; or "onnx" or "litert", of which all that is known is in the card.

    Example:

        >>> from dataclasses import fields
        >>> [field.name for field in fields(Inspection)][:3]
        ['path', 'signatures', 'operations']
    """

    path: Path
    signatures: Mapping[str, SignatureView]
    operations: Mapping[str, int]
    variables: Mapping[str, TensorView]
    bytes: int
    tensorflow: str
    warmup_requests: int
    card: Mapping[str, Any] | None
    intact: bool | None
    format: str = "savedmodel"


def inspect_saved_model(path: str | Path) -> Inspection:
    """Return the contents of a SavedModel, or of the newest version under a base path.

    Of a version that `export_portable` wrote, they are what its card says.

    Args:
        path: any SavedModel's folder, or a folder of versions.

    Raises:
        ExportError: if there is no SavedModel, or its graph cannot be read.

    Example:

        >>> import tempfile
        >>> import tensorflow as tf
        >>> folder = tempfile.mkdtemp()
        >>> module = tf.Module()
        >>> module.double = tf.function(lambda x: 2 * x, [tf.TensorSpec([None], tf.float32, name="x")])
        >>> tf.saved_model.save(module, folder, module.double)
        >>> inspection = inspect_saved_model(folder)
        >>> print(inspection.signatures["serving_default"].inputs["x"], inspection.operations["Mul"])
        float32 [?] 1
    """
    folder = _folder(Path(path))
    try:
        return _inspect(folder)
    except (tf.errors.OpError, KeyError, TypeError, ValueError) as error:
        raise ExportError(f"{folder} is not whole, or not a SavedModel: {error}") from error


def _inspect(folder: Path) -> Inspection:
    card = read_card(folder)
    if _graph(folder) is None:
        return _inspect_portable(folder, card)
    saved_model = _read(folder)
    return Inspection(
        path=folder,
        signatures={
            name: _view(definition)
            for name, definition in sorted(saved_model.meta_graphs[0].signature_def.items())
            if not name.startswith("__saved_model")
        },
        operations=dict(count_operations(saved_model).most_common()),
        variables=_variables(folder),
        bytes=size_of(folder),
        tensorflow=saved_model.meta_graphs[0].meta_info_def.tensorflow_version,
        warmup_requests=_count_records(folder / warmup.FILE),
        card=card,
        intact=None if card is None else card["files"].get("digest") == digest(folder),
    )


def _inspect_portable(folder: Path, card: Mapping[str, Any] | None) -> Inspection:
    form = format_of(folder)
    if card is None or form is None:
        raise ExportError(
            f"{folder} holds a file for {form} without a model card: keras-selfattn did not write it. Use "
            "that runtime's own tools."
        )
    signatures = {
        name: SignatureView(each["method_name"], _described(each["inputs"]), _described(each["outputs"]))
        for name, each in card["signatures"].items()
    }
    return Inspection(
        path=folder,
        signatures=signatures,
        operations={},
        variables={},
        bytes=size_of(folder),
        tensorflow=card.get("versions", {}).get("tensorflow", ""),
        warmup_requests=0,
        card=card,
        intact=card["files"].get("digest") == digest(folder),
        format=form,
    )


def _described(tensors: Mapping[str, Any]) -> dict[str, TensorView]:
    shapes = {name: tensor["shape"] for name, tensor in tensors.items()}
    return {
        name: TensorView(tensors[name]["dtype"], None if shape is None else tuple(shape))
        for name, shape in shapes.items()
    }


def _folder(path: Path) -> Path:
    versions = version_folders(path)
    folder = path if not versions or format_of(path) else path / versions[max(versions)]
    if format_of(folder) is None:
        raise ExportError(
            f"There is no SavedModel in {path}: no saved_model.pb there, and no version below. Give a folder "
            "that `export` or tf.saved_model.save wrote."
        )
    return folder


def _graph(folder: Path) -> Path | None:
    return next(
        (folder / name for name in ("saved_model.pb", "saved_model.pbtxt") if (folder / name).is_file()), None
    )


def _read(folder: Path) -> Any:
    try:
        saved_model = read_saved_model(_graph(folder) or folder)
    except (DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise ExportError(f"{_graph(folder)} is not whole: {error or 'it ends too early'}.") from error
    if not saved_model.meta_graphs:
        raise ExportError(f"{_graph(folder)} holds no graph.")
    return saved_model


def _view(definition: Any) -> SignatureView:
    inputs, outputs = (
        {name: _tensor(info) for name, info in sorted(side.items())}
        for side in (definition.inputs, definition.outputs)
    )
    return SignatureView(definition.method_name, inputs, outputs)


def _tensor(info: Any) -> TensorView:
    dtype = tf.dtypes.as_dtype(info.dtype).name if info.dtype else "composite"
    if info.tensor_shape.unknown_rank:
        return TensorView(dtype, None)
    return TensorView(dtype, tuple(None if dim.size < 0 else dim.size for dim in info.tensor_shape.dim))


def _variables(folder: Path) -> dict[str, TensorView]:
    """Return the variables of the checkpoint, without its own table of contents."""
    if not (folder / "variables" / "variables.index").is_file():
        return {}
    reader = tf.train.load_checkpoint(str(folder / "variables" / "variables"))
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    names = sorted(name for name in shapes if not re.match("_CHECKPOINTABLE|save_counter", name))
    return {name: TensorView(dtypes[name].name, tuple(shapes[name])) for name in names}


def _count_records(path: Path) -> int:
    return sum(1 for _ in tf.data.TFRecordDataset(str(path))) if path.is_file() else 0
