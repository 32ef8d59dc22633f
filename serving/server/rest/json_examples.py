"""Parse the body of a REST `:classify` or `:regress`, JSON objects, into tf.Examples.

Reference: FillClassifyRegressRequestFromJson in tensorflow_serving/util/json_tensor.cc.
"""

from typing import Any, NamedTuple

import numpy as np

from ...errors import InvalidArgumentError
from ...wire import messages_pb2 as pb
from ...wire.signature_names import DEFAULT_SIGNATURE
from .json_in import check_protocol, document, floats, invalid, signature_name, text_bytes

_INT64_MIN, _INT64_MAX, _UINT64_MAX = -(2**63), 2**63 - 1, 2**64 - 1
_FLOAT = np.dtype("<f4")


class ExamplesRequest(NamedTuple):
    """The body of a `:classify` or `:regress`: the signature, the rows, and the features they all share."""

    signature_name: str
    examples: list[pb.Example]
    context: pb.Example | None


def examples_request(body: bytes, infer_path: str = "/v2/models/MODEL/infer") -> ExamplesRequest:
    """Parse the body of a `:classify` or `:regress`.

    Args:
        body: {"examples": [{feature: value or list of values}, ...]}. A "context", in the form of an example,
            and a "signature_name" are optional. Numbers with a fraction or an exponent become a FloatList,
            other numbers and bools an Int64List, strings and {"b64": ...} a BytesList.

        infer_path: of the model in the Open Inference Protocol, for messages.

    Raises:
        InvalidArgumentError: the body is not JSON, or holds something else.

    Example:
        >>> request = examples_request(b'{"examples": [{"stars": [4, 5]}]}')
        >>> request.examples[0].features.feature["stars"].int64_list.value
        [4, 5]
    """
    doc = document(body)
    check_protocol(doc, infer_path, "'examples'")
    name = _unicode(signature_name(doc)) or DEFAULT_SIGNATURE
    context = _example(doc["context"]) if "context" in doc else None
    if "examples" not in doc:
        raise invalid("When method is classify or regress, key 'examples' is expected and was not found")
    examples = doc["examples"]
    if not isinstance(examples, list):
        raise invalid("Expecting 'examples' value to be a list/array")
    if not examples:
        raise invalid("'examples' value is an empty array")
    return ExamplesRequest(name, [_example(each) for each in examples], context)


def _example(value: object) -> pb.Example:
    if not isinstance(value, dict):
        raise invalid("Example must be a JSON object, of features by name")
    example = pb.Example()
    features = example.features.feature
    for name, content in value.items():
        items: list[Any] = content if isinstance(content, list) else [content]
        _set_values(features[_unicode(name)], name, items)
    return example


def _set_values(feature: pb.Feature, name: str, items: list[Any]) -> None:
    if not items:  # an empty list tells no kind, so the feature stays without one
        return
    types = set(map(type, items))
    if types <= {str, dict}:
        feature.bytes_list.value.extend(text_bytes(items))
    elif types <= {int, bool} and min(items) >= _INT64_MIN and max(items) <= _INT64_MAX:
        feature.int64_list.value.extend(map(int, items))
    elif types <= {int, float} and not (int in types and any(map(_is_integer, items))):
        feature.float_list.value = floats(items, _FLOAT).tobytes()
    else:
        raise invalid(
            f"Unexpected element type in feature: {name}. Its values must all be text, all int64 or bool, "
            "or all numbers with a fraction or an exponent"
        )


def _is_integer(value: float) -> bool:
    """Return True if TensorFlow Serving reads a value as an integer; beyond 64 bits it reads a double."""
    return type(value) is int and _INT64_MIN <= value <= _UINT64_MAX


def _unicode(text: str) -> str:
    """Return a name if it is valid Unicode, which a message requires."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError("a name must be valid Unicode") from None
    return text
