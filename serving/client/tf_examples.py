"""Classify, Regress and MultiInference: rows as tf.Examples, which callers write as dicts.

Reference: tensorflow/core/example/example.proto; tensorflow_serving/apis/{input,classification,regression,
inference}.proto.
"""

# Not all callers have a type checker.
# pyright: reportUnnecessaryIsInstance=false

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ..errors import FailedPreconditionError, InvalidArgumentError, InvalidInputError
from ..wire import codec
from ..wire import messages_pb2 as pb
from ..wire.dtypes import CodecError
from .answers import ClassScore
from .operations import DEFAULT_SIGNATURE, Operations
from .steps import Many, Steps
from .transport.base import CLASSIFY, MULTI_INFERENCE, REGRESS, Request
from .version_selector import VersionSelector

_T = TypeVar("_T")

Features = Mapping[str, ArrayLike]
MultiResult = list[list[ClassScore]] | np.ndarray

# The tasks of MultiInference and TensorFlow Serving's names for them.
METHODS = {"classify": "tensorflow/serving/classify", "regress": "tensorflow/serving/regress"}


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


def tf_classify(
    operations: Operations,
    examples: Sequence[Features],
    signature: str | None,
    context: Features | None,
    which: VersionSelector,
) -> Steps[list[list[ClassScore]]]:
    """The classes of each row with their scores."""
    listed = _listed(examples)

    def request(name: str, which: VersionSelector, rows: pb.Input) -> bytes:
        spec = which.spec(operations.model, name)
        return pb.ClassificationRequest(model_spec=spec, input=rows).SerializeToString()

    call = _ExamplesCall(operations, CLASSIFY, request, pb.ClassificationResponse, listed, context)
    responses = yield from call.answers(signature, "classify", which)
    found = [_classes(response.result) for response in responses]
    return _of_each_row(operations, list(chain.from_iterable(found)), len(listed))


def tf_regress(
    operations: Operations,
    examples: Sequence[Features],
    signature: str | None,
    context: Features | None,
    which: VersionSelector,
) -> Steps[np.ndarray]:
    """The number of each row, float32."""
    listed = _listed(examples)

    def request(name: str, which: VersionSelector, rows: pb.Input) -> bytes:
        spec = which.spec(operations.model, name)
        return pb.RegressionRequest(model_spec=spec, input=rows).SerializeToString()

    call = _ExamplesCall(operations, REGRESS, request, pb.RegressionResponse, listed, context)
    responses = yield from call.answers(signature, "regress", which)
    found = [_numbers(response.result) for response in responses]
    return np.array(_of_each_row(operations, list(chain.from_iterable(found)), len(listed)), np.float32)


def multi_inference(
    operations: Operations,
    examples: Sequence[Features],
    tasks: Mapping[str, str],
    context: Features | None,
    which: VersionSelector,
) -> Steps[dict[str, MultiResult]]:
    """Return the result of each signature's task, all from one run of the model."""
    if not isinstance(tasks, Mapping) or not tasks or not set(tasks.values()) <= METHODS.keys():
        raise InvalidInputError(
            f'tasks must be a dict from signatures to "classify" or "regress". Received {tasks!r}'
        )
    listed = _listed(examples)

    def request(_name: str, which: VersionSelector, rows: pb.Input) -> bytes:
        return _multi_request(operations, tasks, rows, which)

    call = _ExamplesCall(operations, MULTI_INFERENCE, request, pb.MultiInferenceResponse, listed, context)
    responses = yield from call.answers(", ".join(tasks), "", which)
    return {name: _results(operations, responses, place, name, listed) for place, name in enumerate(tasks)}


@dataclass(frozen=True)
class _ExamplesCall:
    """A call on examples: it makes the requests and reads the answers."""

    operations: Operations
    method: str
    request: Callable[[str, VersionSelector, pb.Input], bytes]
    response: Any
    examples: list[Features]
    context: Features | None

    def answers(self, signature: str | None, usual: str, which: VersionSelector) -> Steps[list[Any]]:
        """The answers for all rows. For `signature` None: `usual` if the model has it, else the default."""
        if signature is not None:
            return (yield from self._of_one_version(signature, which))
        name = yield from self._name(usual, which)
        try:
            return (yield from self._of_one_version(name, which))
        except (InvalidArgumentError, FailedPreconditionError):
            # The name came from cached metadata, perhaps of another version.
            self.operations.metadata_cache.forget(which)
            again = yield from self._name(usual, which)
            if again == name:
                raise
            return (yield from self._of_one_version(again, which))

    def _name(self, usual: str, which: VersionSelector) -> Steps[str]:
        known = yield from self.operations.metadata_cache.known(which)
        return usual if known is not None and usual in known.signatures else DEFAULT_SIGNATURE

    def _of_one_version(self, name: str, which: VersionSelector) -> Steps[list[Any]]:
        responses = yield from self._responses(name, which)
        versions = [_version(response) for response in responses]
        if len(set(versions)) > 1:
            # A newer version took over between two parts: request all rows from the newer version.
            responses = yield from self._responses(name, VersionSelector(versions[-1]))
        return responses

    def _responses(self, name: str, which: VersionSelector) -> Steps[list[Any]]:
        answers = yield Many(self._requests(name, which))
        return [self.operations.parsed(self.response, answer) for answer in answers]

    def _requests(self, name: str, which: VersionSelector) -> Iterator[Request]:
        size = self.operations.max_batch_size or max(1, len(self.examples))
        for start in range(0, max(1, len(self.examples)), size):
            rows = [example(features) for features in self.examples[start : start + size]]
            part = None if len(self.examples) <= size else range(start, start + len(rows))
            yield Request(self.method, self.request(name, which, _input(rows, self.context)), name, part)


def _version(response: Any) -> int:
    if isinstance(response, pb.MultiInferenceResponse):
        return response.results[0].model_spec.version.value if response.results else 0
    return response.model_spec.version.value


def _listed(examples: Sequence[Features]) -> list[Features]:
    if isinstance(examples, Mapping | str | bytes) or not isinstance(examples, Iterable):
        raise InvalidInputError(f"examples must be a list of dicts. Received {examples!r:.60}")
    return list(examples)


def _multi_request(
    operations: Operations, tasks: Mapping[str, str], rows: pb.Input, which: VersionSelector
) -> bytes:
    listed = [
        pb.InferenceTask(model_spec=which.spec(operations.model, name), method_name=METHODS[task])
        for name, task in tasks.items()
    ]
    return pb.MultiInferenceRequest(tasks=listed, input=rows).SerializeToString()


def _results(
    operations: Operations,
    responses: Sequence[pb.MultiInferenceResponse],
    place: int,
    name: str,
    examples: Sequence[Features],
) -> MultiResult:
    if any(len(response.results) <= place for response in responses):
        raise operations.server.malformed(f"there is no result for signature {name!r}", name)
    # TensorFlow Serving answers in the order of the tasks.
    results = [response.results[place] for response in responses]
    if all(result.HasField("regression_result") for result in results):
        numbers = chain.from_iterable(_numbers(result.regression_result) for result in results)
        return np.array(_of_each_row(operations, list(numbers), len(examples)), np.float32)
    classes = chain.from_iterable(_classes(result.classification_result) for result in results)
    return _of_each_row(operations, list(classes), len(examples))


def _input(rows: list[pb.Example], context: Features | None) -> pb.Input:
    if context is None:
        return pb.Input(example_list=pb.ExampleList(examples=rows))
    shared = pb.ExampleListWithContext(examples=rows, context=example(context))
    return pb.Input(example_list_with_context=shared)


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


def _classes(result: pb.ClassificationResult) -> list[list[ClassScore]]:
    return [[ClassScore(each.label, each.score) for each in row.classes] for row in result.classifications]


def _numbers(result: pb.RegressionResult) -> list[float]:
    return [each.value for each in result.regressions]


def _of_each_row(operations: Operations, found: list[_T], count: int) -> list[_T]:
    if len(found) != count:
        raise operations.server.malformed(f"there are {len(found)} answers for {count} examples")
    return found
