"""The body of a REST `:classify` or `:regress`, JSON objects, as tf.Examples.

Reference: FillClassifyRegressRequestFromJson in tensorflow_serving/util/json_tensor.cc.
"""

import math
from typing import Any, NamedTuple

from ...errors import InvalidArgumentError
from ...wire import messages_pb2 as pb
from . import json_values as rj
from .json_document import document, signature_name

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class ExamplesRequest(NamedTuple):
    """The body of a `:classify` or `:regress`: the signature, the rows, and what all of them share."""

    signature_name: str
    examples: list[pb.Example]
    context: pb.Example | None


def examples_request(body: bytes) -> ExamplesRequest:
    """Return the body of a `:classify` or `:regress`, read.

    Args:
        body: {"examples": [{feature: value or list of values}, ...]}, with a "context" of the same kind as an
            example, and a "signature_name", or without. Numbers with a fraction or an exponent become a
            FloatList, other numbers and bools an Int64List, text and {"b64": ...} a BytesList.

    Raises:
        InvalidArgumentError: the body is no JSON, or holds something else.

    Example:
        >>> request = examples_request(b'{"examples": [{"stars": [4, 5]}]}')
        >>> request.examples[0].features.feature["stars"].int64_list.value
        [4, 5]
    """
    doc = document(body)
    name = signature_name(doc)
    context = _example(doc["context"]) if "context" in doc else None
    if "examples" not in doc:
        raise rj.format_error(doc, "When method is classify, key 'examples' is expected and was not found")
    examples = doc["examples"]
    if not isinstance(examples, list):
        raise rj.format_error(doc, "Expecting 'examples' value to be an list/array")
    if not examples:
        raise rj.format_error(doc, "'examples' value is an empty array")
    return ExamplesRequest(name, [_example(each) for each in examples], context)


def _example(value: object) -> pb.Example:
    if not isinstance(value, dict):
        raise InvalidArgumentError(f"Example must be JSON object but got JSON {rj.type_name(value)}")
    example = pb.Example()
    features = example.features.feature
    for name, content in value.items():
        _set_feature(features[rj.proper_text(name)], name, content)
    return example


def _set_feature(feature: pb.Feature, name: str, content: object) -> None:
    items: list[Any] = content if isinstance(content, list) else [content]
    if _set_plain(feature, items):
        return
    kind = ""
    values: list[Any] = []
    for item in items:
        found = _kind(name, item)
        kind = kind or found
        if found != kind:
            raise rj.invalid(f"Unexpected element type in feature: {name} expecting type: {kind}")
        values.append(_value(name, item, kind))
    _set_values(feature, kind, values)


def _set_plain(feature: pb.Feature, items: list[Any]) -> bool:
    """Set a feature to values that are plainly of one type; False where each must be looked at."""
    types = set(map(type, items))
    if types == {str}:
        _set_values(feature, "bytes", list(map(rj.utf8, items)))
    elif types == {int} and min(items) >= _INT64_MIN and max(items) <= _INT64_MAX:
        _set_values(feature, "int64_t", items)
    elif types == {float} and math.inf not in items and -math.inf not in items:
        _set_values(feature, "float", items)
    else:
        return False
    return True


def _set_values(feature: pb.Feature, kind: str, values: list[Any]) -> None:
    if kind == "bytes":
        feature.bytes_list.value.extend(values)
    elif kind == "int64_t":
        feature.int64_list.value.extend(values)
    elif kind == "float":
        feature.float_list.value = rj.as_floats(values, pb.DT_FLOAT).astype("<f4", copy=False).tobytes()
    # Of an empty list nothing says what it would hold: the feature stays without a kind.


def _kind(name: str, item: object) -> str:
    """The type of a value, as error texts call it."""
    if isinstance(item, str) or rj.is_base64(item):
        return "bytes"
    if item is None or isinstance(item, dict | list):
        raise rj.invalid(f"Feature: {name} has element with unexpected JSON type: {rj.type_name(item)}")
    return "int64_t" if isinstance(item, bool) or rj.is_integer(item) else "float"


def _value(name: str, item: Any, kind: str) -> Any:
    if kind == "bytes":
        return rj.utf8(item) if isinstance(item, str) else rj.base64_bytes(item)
    if kind == "float":
        return rj.as_float(item)
    if item > _INT64_MAX:
        raise rj.invalid(f"Feature: {name} has uint64 element. Only int64_t is supported.")
    return int(item)
