"""Check inputs against the served signature and convert them to arrays that can be sent; rows as tf.Examples.

Reference: tensorflow/core/example/example.proto.
"""

# Not all callers have a type checker.
# pyright: reportUnnecessaryIsInstance=false

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from keras_selfattn.errors import DataError

from ..errors import InvalidInputError
from ..wire import codec
from ..wire import messages_pb2 as pb
from ..wire.dtypes import CodecError
from ..wire.shapes import misfit, takes
from ..wire.signature_names import AUDIO, TEXT, TEXT_PAIR
from .model_metadata import Signature, TensorSpec
from .server_ref import ServerRef

_SERIES = "values"

Inputs = Mapping[str, ArrayLike] | ArrayLike
Features = Mapping[str, ArrayLike]


def checked_inputs(
    server: ServerRef, inputs: Inputs, name: str, signature: Signature | None
) -> dict[str, np.ndarray]:
    """The arrays to send to a signature, by name.

    Args:
        server: the server and the model, for messages.
        inputs: a mapping from names to values, or the value of the only input; of a model of pairs of texts
            also a list of pairs, `(text, text_pair)`. A recording may be a path, or a pair `(samples, rate)`.
        name: the signature's name, for messages.
        signature: the served signature; None if unknown: values are then sent as NumPy reads them.

    Raises:
        InvalidInputError: names, dtypes, ranks or known sizes do not fit.
    """
    named = _named(server, inputs, name, signature)
    if signature is not None:
        _check_names(server, named, name, signature)
    specs: Mapping[str, TensorSpec] = {} if signature is None else signature.inputs
    return {alias: _checked(server, alias, value, specs.get(alias)) for alias, value in named.items()}


def rowwise(arrays: Mapping[str, np.ndarray], signature: Signature | None) -> list[str]:
    """The names of the inputs whose first axis is the rows of a batch: an axis of any size."""
    specs: Mapping[str, TensorSpec] = {} if signature is None else signature.inputs
    return [name for name, array in arrays.items() if array.ndim and _any_rows(specs.get(name))]


def _any_rows(spec: TensorSpec | None) -> bool:
    return spec is None or spec.shape is None or spec.shape[0] is None


def _named(
    server: ServerRef, inputs: Inputs, name: str, signature: Signature | None
) -> Mapping[str, ArrayLike]:
    columns: Any = getattr(inputs, "columns", None)
    if columns is not None and hasattr(inputs, "iloc"):  # a DataFrame, perhaps with other columns
        frame: Any = inputs
        wanted = columns if signature is None else [alias for alias in signature.inputs if alias in columns]
        if len(wanted):
            return {alias: frame[alias] for alias in wanted}
    if isinstance(inputs, Mapping):
        for alias in inputs:
            if not isinstance(alias, str):
                raise server.refused(f"the names of inputs are strings. Received {alias!r}")
        return inputs
    if signature is None:
        raise server.refused(
            f"the server does not tell the inputs of signature {name!r}: pass a mapping from their names to "
            f"values"
        )
    if takes_pairs(signature):
        return _texts_of_pairs(server, inputs, name)
    if len(signature.inputs) != 1:
        names = ", ".join(signature.inputs) or "none"
        raise server.refused(
            f"signature {name!r} has {len(signature.inputs)} inputs ({names}): pass a mapping from their "
            f"names to values"
        )
    ((alias, spec),) = signature.inputs.items()
    if spec.dtype == "string" and spec.shape == (None,):
        _refuse_pairs(server, inputs, name, alias)
    return {alias: inputs}


def takes_pairs(signature: Signature) -> bool:
    """Return True if a signature takes two texts a row, `text` and `text_pair`."""
    return {TEXT, TEXT_PAIR} <= signature.inputs.keys()


def _texts_of_pairs(server: ServerRef, inputs: Any, name: str) -> dict[str, ArrayLike]:
    """The first and the second texts of rows that are pairs."""
    wanted = (
        f"signature {name!r} takes pairs of texts: pass a list of (text, text_pair), or a mapping from these "
        f"names to texts"
    )
    columns: Any = getattr(inputs, "columns", None)
    if columns is not None:
        raise server.refused(f"{wanted}. Received a table of the columns {list(columns)!r:.80}")
    if (
        isinstance(inputs, str | bytes)
        or not hasattr(inputs, "__iter__")
        or getattr(inputs, "shape", 1) == ()
    ):
        raise server.refused(f"{wanted}. Received {inputs!r:.60}")
    rows: list[Any] = list(inputs)
    for number, row in enumerate(rows):
        if not _is_pair(row):
            raise server.refused(f"{wanted}. Row {number} is {row!r:.60}")
    return {TEXT: [row[0] for row in rows], TEXT_PAIR: [row[1] for row in rows]}


def _is_pair(row: Any) -> bool:
    given = isinstance(row, list | tuple | np.ndarray) and len(cast("Sequence[Any]", row)) == 2
    return given and all(isinstance(text, str | bytes) for text in cast("Sequence[Any]", row))


def _refuse_pairs(server: ServerRef, inputs: Any, name: str, alias: str) -> None:
    """Refuse pairs of texts for a model that takes one text a row."""
    listed = isinstance(inputs, list | tuple) or (isinstance(inputs, np.ndarray) and inputs.ndim == 2)
    rows: Sequence[Any] = cast("Sequence[Any]", inputs if listed else [])
    if len(rows) and _is_pair(rows[0]):
        raise server.refused(
            f"signature {name!r} takes one text a row, {alias!r}. Row 0 is a pair of texts, "
            f"{tuple(rows[0])!r:.60}: ask a model of pairs, or pass one text a row"
        )


def _check_names(server: ServerRef, named: Mapping[str, ArrayLike], name: str, signature: Signature) -> None:
    unknown = [alias for alias in named if alias not in signature.inputs]
    missing = [alias for alias in signature.inputs if alias not in named and alias not in signature.defaults]
    if unknown or missing:
        problems = [f"has no input {', '.join(map(repr, unknown))}"] if unknown else []
        problems += [f"also wants {', '.join(map(repr, missing))}"] if missing else []
        hint = ""
        if TEXT_PAIR in missing:
            hint = ". The model takes pairs of texts: pass both"
        elif TEXT_PAIR in unknown:
            hint = ". The model takes one text a row"
        raise server.refused(f"signature {name!r} {' and '.join(problems)}. It is {signature!r}{hint}")


def _checked(server: ServerRef, alias: str, value: ArrayLike, spec: TensorSpec | None) -> np.ndarray:
    if alias == AUDIO and spec is not None and spec.dtype == "string" and spec.shape == (None,):
        value = _sounds(server, value)
    # A dtype that NumPy has no name for is left to the server.
    dtype = None if spec is None or spec.dtype.startswith("D") else spec.dtype
    try:
        array = codec.to_array(_padded(value, spec, alias), dtype)
    except CodecError as error:
        wants = "" if spec is None else f". The model wants {spec!r}"
        raise server.refused(f"input {alias!r}: {error}{wants}") from error
    if spec is not None and not takes(spec.shape, array.shape):
        raise server.refused(misfit(alias, array.shape, spec.dtype, spec.shape))
    return array


def _sounds(server: ServerRef, value: Any) -> Any:
    """Return recordings as WAV files, where they are paths, pairs `(samples, rate)` or `Recording`s.

    Other values, such as the bytes of a file, are sent as they are.
    """
    from keras_selfattn.rows.recordings import Recording, as_recordings
    from keras_selfattn.rows.sound_files import as_wav

    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        return value
    found: list[Any] = []
    for row, each in enumerate(cast("Sequence[Any]", value)):
        try:
            if isinstance(each, os.PathLike):
                file = Path(cast("os.PathLike[str]", each))
                found.append(as_wav(file.read_bytes(), str(file)))
            elif isinstance(each, tuple | Recording):
                found.append(as_recordings([each])[0].wav())
            elif isinstance(each, str) and os.path.isfile(each):
                raise DataError(
                    f"a text would be sent as the content of a file. Give the file {each!r} as "
                    "`pathlib.Path`, or its bytes"
                )
            else:
                found.append(each)
        except (DataError, OSError) as error:
            raise server.refused(f"input {AUDIO!r}, row {row}: {error}") from error
    return found


def _padded(value: Any, spec: TensorSpec | None, alias: str) -> Any:
    """Pad rows to the longest of them, for models with known padding: tokens with "", series with NaN."""
    if spec is None or spec.shape is None:
        return value
    if spec.dtype == "string" and spec.shape[1:] == (None,):
        return _padded_tokens(value)
    # The input's name in this project's exports: other models need not read NaN as padding.
    if alias == _SERIES and "float" in spec.dtype and len(spec.shape) == 3 and spec.shape[1] is None:
        return _padded_series(value)
    return value


def _padded_tokens(value: Any) -> Any:
    given: Any = list(value) if getattr(value, "ndim", None) == 1 else value  # a column of a DataFrame
    if not isinstance(given, list | tuple):
        return value
    rows = cast("Sequence[Any]", given)
    if not all(isinstance(row, list | tuple) for row in rows):
        return value
    longest = max(map(len, rows), default=0)
    padded = np.full((len(rows), longest), "", dtype=object)
    for place, row in enumerate(rows):
        padded[place, : len(row)] = row
    return padded


def _padded_series(value: Any) -> Any:
    """Pad series `[length, features]` to the longest; leave other values to the checks."""
    given: Any = value
    if not isinstance(given, list | tuple):
        return value
    try:
        rows = [np.asarray(row) for row in cast("Sequence[Any]", given)]
    except (TypeError, ValueError):
        return value
    if not rows or not all(_are_frames(row, rows[0]) for row in rows):
        return value
    padded = np.full((len(rows), max(map(len, rows)), rows[0].shape[1]), np.nan)
    for place, row in enumerate(rows):
        padded[place, : len(row)] = row
    return padded


def _are_frames(row: np.ndarray, first: np.ndarray) -> bool:
    return row.ndim == 2 and row.dtype.kind in "iuf" and row.shape[1:] == first.shape[1:]


def example(features: Features) -> pb.Example:
    """A tf.Example of a row.

    Args:
        features: from names to a str, bytes or number, or an array or list of them, which is flattened.
            Floats are sent as float32, integers and bools as int64.

    Raises:
        InvalidInputError: a feature holds something else.

    Example:
        >>> example({"text": "good", "stars": [4, 5]}).features.feature["stars"].int64_list.value
        [4, 5]
    """
    if not isinstance(features, Mapping):
        raise InvalidInputError(f"an example must be a dict of features. Received {features!r:.60}")
    return pb.Example(
        features=pb.Features(feature={name: _feature(name, value) for name, value in features.items()})
    )


def serialized_example(features: Features) -> bytes:
    """The bytes of a row's tf.Example, which the signatures for Classify and Regress take as strings.

    Args:
        features: as for `example`.

    Raises:
        InvalidInputError: a feature holds something else.

    Example:
        client.predict([serialized_example({"text": "what a film"})], signature="classify")
    """
    return example(features).SerializeToString(deterministic=True)


def _feature(name: str, value: ArrayLike) -> pb.Feature:
    if not isinstance(name, str):
        raise InvalidInputError(f"the names of features are strings. Received {name!r}")
    try:
        array = codec.to_array(value)
        if array.dtype == object:
            return pb.Feature(bytes_list=pb.BytesList(value=array.reshape(-1).tolist()))
        if array.dtype.kind in "iub":
            whole = codec.to_array(array, "int64").reshape(-1)
            return pb.Feature(int64_list=pb.Int64List(value=whole.tolist()))
        numbers = codec.to_array(array, "float32").reshape(-1)
        return pb.Feature(float_list=pb.FloatList(value=codec.little_endian(numbers).tobytes()))
    except CodecError as error:
        raise InvalidInputError(f"feature {name!r}: {error}") from error
