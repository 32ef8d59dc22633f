"""Classify, Regress and MultiInference: rows as tf.Examples, which callers write as dicts.

Reference: tensorflow/core/example/example.proto; tensorflow_serving/apis/{input,classification,regression,
inference}.proto.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InvalidInputError
from ..wire import codec
from ..wire import messages_pb2 as pb
from ..wire.dtypes import CodecError
from .answers import ClassScore
from .core import DEFAULT_SIGNATURE, Core, Which
from .steps import CLASSIFY, MULTI_INFERENCE, REGRESS, Many, Request, Steps

_T = TypeVar("_T")

Features = Mapping[str, ArrayLike]
MultiResult = list[list[ClassScore]] | np.ndarray

# The tasks of MultiInference and what TensorFlow Serving calls them.
METHODS = {"classify": "tensorflow/serving/classify", "regress": "tensorflow/serving/regress"}


def example(features: Features) -> pb.Example:
    """A tf.Example of a row.

    Args:
        features: by name a str, bytes, number, or an array or list of them, which is flattened. Floats go as
            float32, integers and bools as int64.

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
    core: Core, examples: Sequence[Features], signature: str | None, context: Features | None, which: Which
) -> Steps[list[list[ClassScore]]]:
    """The classes of each row with their scores."""
    name = yield from _signature_name(core, signature, "classify", which)
    requests = (
        Request(
            CLASSIFY, pb.ClassificationRequest(model_spec=spec, input=rows).SerializeToString(), name, part
        )
        for spec, rows, part in _parts(core, examples, context, name, which)
    )
    answers = yield Many(requests)
    found = [_classes(core.parsed(pb.ClassificationResponse, answer).result) for answer in answers]
    return _of_each_row(core, list(chain.from_iterable(found)), len(examples))


def tf_regress(
    core: Core, examples: Sequence[Features], signature: str | None, context: Features | None, which: Which
) -> Steps[np.ndarray]:
    """The number of each row, float32."""
    name = yield from _signature_name(core, signature, "regress", which)
    requests = (
        Request(REGRESS, pb.RegressionRequest(model_spec=spec, input=rows).SerializeToString(), name, part)
        for spec, rows, part in _parts(core, examples, context, name, which)
    )
    answers = yield Many(requests)
    found = [_numbers(core.parsed(pb.RegressionResponse, answer).result) for answer in answers]
    return np.array(_of_each_row(core, list(chain.from_iterable(found)), len(examples)), np.float32)


def multi_inference(
    core: Core,
    examples: Sequence[Features],
    tasks: Mapping[str, str],
    context: Features | None,
    which: Which,
) -> Steps[dict[str, MultiResult]]:
    """Of each signature what its task returns, all from one run of the model."""
    if not isinstance(tasks, Mapping) or not tasks or not set(tasks.values()) <= METHODS.keys():
        raise InvalidInputError(
            f'tasks must be a dict from signatures to "classify" or "regress". Received {tasks!r}'
        )
    requests = (
        Request(MULTI_INFERENCE, _multi_request(core, tasks, rows, which), ", ".join(tasks), part)
        for _, rows, part in _parts(core, examples, context, "", which)
    )
    answers = yield Many(requests)
    responses = [core.parsed(pb.MultiInferenceResponse, answer) for answer in answers]
    return {name: _results(core, responses, place, name, examples) for place, name in enumerate(tasks)}


def _multi_request(core: Core, tasks: Mapping[str, str], rows: pb.Input, which: Which) -> bytes:
    listed = [
        pb.InferenceTask(model_spec=which.spec(core.model, name), method_name=METHODS[task])
        for name, task in tasks.items()
    ]
    return pb.MultiInferenceRequest(tasks=listed, input=rows).SerializeToString()


def _results(
    core: Core,
    responses: Sequence[pb.MultiInferenceResponse],
    place: int,
    name: str,
    examples: Sequence[Features],
) -> MultiResult:
    if any(len(response.results) <= place for response in responses):
        raise core.asked.malformed(f"there is no result for signature {name!r}", name)
    # TensorFlow Serving answers in the order of the tasks.
    results = [response.results[place] for response in responses]
    if all(result.HasField("regression_result") for result in results):
        numbers = chain.from_iterable(_numbers(result.regression_result) for result in results)
        return np.array(_of_each_row(core, list(numbers), len(examples)), np.float32)
    classes = chain.from_iterable(_classes(result.classification_result) for result in results)
    return _of_each_row(core, list(classes), len(examples))


def _signature_name(core: Core, name: str | None, usual: str, which: Which) -> Steps[str]:
    """The signature asked for; else the one that our exports have for the call, or the default."""
    if name is not None:
        return name
    known = yield from core.known(which)
    return usual if known is not None and usual in known.signatures else DEFAULT_SIGNATURE


def _parts(
    core: Core, examples: Sequence[Features], context: Features | None, name: str, which: Which
) -> Iterator[tuple[pb.ModelSpec, pb.Input, range | None]]:
    if isinstance(examples, Mapping | str | bytes):
        raise InvalidInputError(f"examples must be a list of dicts. Received {examples!r:.60}")
    size = core.max_batch_size or max(1, len(examples))
    for start in range(0, max(1, len(examples)), size):
        rows = [example(features) for features in examples[start : start + size]]
        part = None if len(examples) <= size else range(start, start + len(rows))
        yield which.spec(core.model, name), _input(rows, context), part


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


def _of_each_row(core: Core, found: list[_T], count: int) -> list[_T]:
    if len(found) != count:
        raise core.asked.malformed(f"there are {len(found)} answers for {count} examples")
    return found
