"""The graph of a model: its signature, and its answers to batches of rows. TensorFlow is imported late.

A graph is the `serving_default` (or another signature) of a SavedModel; or the same graph of a run folder or
a `.keras` file, traced in this process, as an export would write it.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keras_selfattn.asking.input_cells import NamedColumns
from keras_selfattn.asking.raw_texts import SignatureChoice
from keras_selfattn.errors import ConfigError, DataError, first_line
from keras_selfattn.files.folder_kinds import holds_pretrained
from keras_selfattn.files.version_files import GRAPHS, digest
from keras_selfattn.serving.client import Signature, TensorSpec
from keras_selfattn.serving.client.inputs import checked_inputs
from keras_selfattn.serving.client.server_ref import ServerRef
from keras_selfattn.serving.errors import InvalidInputError
from keras_selfattn.serving.wire.signature_names import AUDIO, DEFAULT_SIGNATURE, TEXT, TEXT_PAIR


class RowError(Exception):
    """A batch cannot be answered because of its rows; other rows may be."""


@dataclass(frozen=True)
class ModelPath:
    """A model in files, found but not loaded.

    Args:
        path: a `.keras` file, or the folder of one version of a SavedModel.
        digest: of its content.
        columns: the columns that its training read its rows from, where they are known.
    """

    path: Path
    digest: str
    columns: NamedColumns = field(default_factory=NamedColumns)


def find_model(model: str | Path) -> ModelPath:
    """Return the model at a path; of a base path the newest version.

    Raises:
        DataError: if there is no model, or a pretrained one that answers nothing yet.
    """
    path = Path(model)
    file = path / "model.keras" if path.is_dir() else path
    if file.is_file() and file.suffix == ".keras":
        with file.open("rb") as content:
            found = hashlib.file_digest(content, "sha256").hexdigest()
        return ModelPath(file.absolute(), f"sha256:{found}", _trained_columns(file.parent))
    versions = [child for child in path.iterdir() if child.name.isdigit()] if path.is_dir() else []
    newest = max(versions, key=lambda version: int(version.name), default=path)
    folder = path if _is_saved_model(path) else newest
    if _is_saved_model(folder):
        return ModelPath(folder.absolute(), digest(folder))
    if holds_pretrained(path):
        raise DataError(
            f"{path} is a pretrained model's folder. Make a run of a classifier of texts with "
            f"`keras-selfattn import {path} --output RUN`, or train one with `keras-selfattn train TABLE "
            f"--from {path}`."
        )
    raise DataError(
        f"There is no model at {path} that answers. Give a run folder of `keras-selfattn train`, a .keras "
        "file, or a folder of `keras-selfattn export`; a served model is asked with --target."
    )


class LoadedGraph:
    """A loaded model. Several threads can use it at once.

    Args:
        found: its files.
        name: of the signature, or the choice of one.

    Raises:
        ConfigError: if it has no such signature.
    """

    def __init__(self, found: ModelPath, name: str | SignatureChoice = DEFAULT_SIGNATURE) -> None:
        load = _loaded_run if found.path.suffix == ".keras" else _loaded_saved_model
        self._run, self.signature = load(found.path, name)

    def answers(self, inputs: Mapping[str, Sequence[Any]], outputs: Sequence[str]) -> dict[str, Any]:
        """Return the named outputs for rows, an array `[rows, ...]` each.

        Args:
            inputs: a list of the rows' values for each input.
            outputs: names of outputs.

        Raises:
            RowError: if rows are no inputs of the model.
            DataError: if the graph fails for another reason.
        """
        import tensorflow as tf

        try:
            arrays = checked_inputs(_HERE, inputs, "", self.signature)
        except InvalidInputError as error:
            raise RowError(error.details) from error
        try:
            tensors = {name: tf.constant(array) for name, array in arrays.items()}
            found = self._run(tensors)
            return {name: found[name].numpy() for name in outputs}
        except (tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError) as error:
            raise RowError(_reason(error)) from error
        except tf.errors.ResourceExhaustedError as error:
            raise RowError(f"out of memory: {_reason(error)}") from error
        except tf.errors.OpError as error:
            raise DataError(f"The model failed: {_reason(error)}.") from error


_SOURCE = "source"  # the column with the texts of a model that writes texts
_HERE = ServerRef("this process", "model")
_Run = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def _loaded_saved_model(path: Path, name: str | SignatureChoice) -> tuple[_Run, Signature]:
    import tensorflow as tf

    # It warns of gradients that were not saved, which answers do not need.
    log, level = logging.getLogger("absl"), logging.getLogger("absl").level
    log.setLevel(logging.ERROR)
    try:
        loaded: Any = tf.saved_model.load(str(path))
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise DataError(f"{path} is not a SavedModel that can be loaded: {first_line(error)}") from error
    finally:
        log.setLevel(level)
    functions = loaded.signatures
    name = name if isinstance(name, str) else name.of(functions)
    if name not in functions:
        raise ConfigError(f"{path} has no signature {name!r}. It has {', '.join(sorted(functions))}.")
    function = functions[name]
    # `loaded` owns the variables, which the function alone would not keep.
    return lambda tensors, _owner=loaded: function(**tensors), _signature(
        function.structured_input_signature[1], function.structured_outputs
    )


def _loaded_run(path: Path, name: str | SignatureChoice) -> tuple[_Run, Signature]:
    import keras

    from keras_selfattn.export.contract import contract_for
    from keras_selfattn.export.precision import at_precision
    from keras_selfattn.models import load

    if keras.backend.backend() != "tensorflow":
        raise ConfigError(
            f"Rows are answered on TensorFlow. Keras runs on {keras.backend.backend()!r}: set "
            "KERAS_BACKEND=tensorflow, with which the same file loads."
        )
    contract = contract_for(*at_precision(load(path), None))
    name = name if isinstance(name, str) else name.of(contract.signatures)
    if name not in contract.signatures:
        raise ConfigError(f"{path} has no signature {name!r}. It has {', '.join(contract.signatures)}.")
    signature = contract.signatures[name]
    function, specs = signature.concrete, signature.function.input_signature

    def run(tensors: Mapping[str, Any]) -> Mapping[str, Any]:
        return function(*(tensors[spec.name] for spec in specs))

    run.owner = contract  # type: ignore[attr-defined]  # its variables and tables, which it must keep
    return run, _signature({spec.name: spec for spec in specs}, function.structured_outputs)


def _signature(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Signature:
    return Signature(_specs(inputs), _specs(outputs))


def _specs(tensors: Mapping[str, Any]) -> dict[str, TensorSpec]:
    return {name: _spec(tensors[name]) for name in sorted(tensors)}


def _spec(tensor: Any) -> TensorSpec:
    shape = None if tensor.shape.rank is None else tuple(tensor.shape.as_list())
    return TensorSpec(tensor.dtype.name, shape)


def _is_saved_model(folder: Path) -> bool:
    return any((folder / name).is_file() for name in GRAPHS)


def _trained_columns(folder: Path) -> NamedColumns:
    """Return the columns with the texts of a run's training, and the second ones of pairs, if it tells."""
    from keras_selfattn.errors import RunError
    from keras_selfattn.runs.run_folder import read_config

    try:
        reading = read_config(folder).get("reading")
    except RunError:
        return NamedColumns()
    reading = reading if isinstance(reading, dict) else {}
    found = [reading.get(TEXT, reading.get(_SOURCE, reading.get(AUDIO))), reading.get(TEXT_PAIR)]
    return NamedColumns(*(column if isinstance(column, str) else None for column in found))


def _reason(error: Any) -> str:
    """Return the words of TensorFlow's message, without the names of nodes and the frames around them."""
    words = re.split(r"\s*\[(?:\[\{\{node|Op:)", error.message)[0]
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:300].rstrip(".")
