"""Classify, Regress and MultiInference: tf.Examples in, named answers out.

Reference: tensorflow_serving/servables/tensorflow/{classifier,regressor,multi_inference,util}.cc, whose error
texts these are.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ...errors import FailedPreconditionError, InvalidArgumentError, UnimplementedError
from ...wire import messages_pb2 as pb
from ...wire.signature_names import CLASSES, DEFAULT_SIGNATURE, EXAMPLES, REGRESSED, SCORES
from ..models.quantized_tensors import code_of
from ..models.servable import Servable
from .predict import answering_spec

CLASSIFY = "tensorflow/serving/classify"
REGRESS = "tensorflow/serving/regress"


class ClassifyCall:
    """The call that a ClassificationRequest asks for.

    Args:
        servable: the version of its model_spec.
        request: the request.
        check_method: True if the signature's method_name must be Classify's own.

    Raises:
        InvalidArgumentError: there is no such signature, it is not for Classify, or there is no input.
        FailedPreconditionError: the signature lacks the inputs or outputs of Classify.
    """

    def __init__(self, servable: Servable, request: pb.SerializedInputRequest, check_method: bool):
        self._signature = _signature(servable, request.model_spec, check_method, CLASSIFY)
        self._spec = answering_spec(servable, request.model_spec)
        self.signature_name = self._spec.signature_name
        fed, self.fetches = _classify_tensors(self._signature)
        self._examples = _examples(request.input)
        self.feeds = {fed: self._examples}

    def respond(self, arrays: Sequence[np.ndarray]) -> pb.ClassificationResponse:
        """Return the classes and scores of each example; errors are TensorFlow Serving's."""
        tensors = dict(zip(self.fetches, arrays, strict=True))
        result = _classified(self._signature, len(self._examples), tensors)
        return pb.ClassificationResponse(result=result, model_spec=self._spec)


class RegressCall:
    """The call that a RegressionRequest asks for; arguments and errors are those of `ClassifyCall`."""

    def __init__(self, servable: Servable, request: pb.SerializedInputRequest, check_method: bool):
        self._signature = _signature(servable, request.model_spec, check_method, REGRESS)
        self._spec = answering_spec(servable, request.model_spec)
        self.signature_name = self._spec.signature_name
        fed, self.fetches = _regress_tensors(self._signature)
        self._examples = _examples(request.input)
        self.feeds = {fed: self._examples}

    def respond(self, arrays: Sequence[np.ndarray]) -> pb.RegressionResponse:
        """Return the number of each example; errors are TensorFlow Serving's."""
        tensors = dict(zip(self.fetches, arrays, strict=True))
        result = _regressed(self._signature, len(self._examples), tensors)
        return pb.RegressionResponse(result=result, model_spec=self._spec)


class MultiInferenceCall:
    """The call that a MultiInferenceRequest asks for: one run of the graph for all of its tasks.

    Every input tensor of the tasks' signatures gets the same examples: signatures share an input tensor only
    in exports of TensorFlow 1.

    Raises:
        InvalidArgumentError: tasks that contradict each other, an unknown signature, or no input.
        UnimplementedError: a task is neither Classify nor Regress.
    """

    def __init__(self, servable: Servable, request: pb.SerializedMultiInferenceRequest, check_method: bool):
        self.signature_name = ""
        self._servable = servable
        self._tasks = request.tasks
        self._signatures: dict[str, pb.SignatureDef] = {}
        self.fetches: list[str] = []
        fed: set[str] = set()
        for task in request.tasks:
            name = _task_signature(task, request.tasks[0], self._signatures)
            if name not in servable.signatures:
                raise InvalidArgumentError(f"Requested signature not found in model graph: {name}")
            self._signatures[name] = servable.signatures[name]
            task_input, outputs = _task_tensors(task, servable.signatures[name], check_method)
            fed.add(task_input)
            self.fetches += [output for output in outputs if output not in self.fetches]
        self._examples = _examples(request.input)
        self.feeds = dict.fromkeys(sorted(fed), self._examples)

    def respond(self, arrays: Sequence[np.ndarray]) -> pb.MultiInferenceResponse:
        """Return a result for each task; errors are TensorFlow Serving's."""
        tensors = dict(zip(self.fetches, arrays, strict=True))
        rows = len(self._examples)
        response = pb.MultiInferenceResponse()
        for task, signature in zip(self._tasks, self._signatures.values(), strict=True):
            result = response.results.add(model_spec=answering_spec(self._servable, task.model_spec))
            if task.method_name == CLASSIFY:
                result.classification_result.CopyFrom(_classified(signature, rows, tensors))
            else:
                result.regression_result.CopyFrom(_regressed(signature, rows, tensors))
        return response


def _task_signature(task: pb.InferenceTask, first: pb.InferenceTask, seen: Mapping[str, object]) -> str:
    spec = task.model_spec
    if not spec.name:
        raise InvalidArgumentError("Found ModelSpec with an empty model name.")
    if spec.name != first.model_spec.name:
        raise InvalidArgumentError(
            "All ModelSpecs in a MultiInferenceRequest must access the same model name."
        )
    name = spec.signature_name or DEFAULT_SIGNATURE
    if name in seen:
        raise InvalidArgumentError(f"Duplicate evaluation of signature: {name}")
    return name


def _task_tensors(
    task: pb.InferenceTask, signature: pb.SignatureDef, check_method: bool
) -> tuple[str, list[str]]:
    if task.method_name not in (CLASSIFY, REGRESS):
        raise UnimplementedError(f"Unsupported signature method_name: {task.method_name}")
    if check_method:
        _check_method(signature, task.method_name)
    return _classify_tensors(signature) if task.method_name == CLASSIFY else _regress_tensors(signature)


def _signature(servable: Servable, spec: pb.ModelSpec, check_method: bool, method: str) -> pb.SignatureDef:
    name = spec.signature_name or DEFAULT_SIGNATURE
    if name not in servable.signatures:
        raise InvalidArgumentError(f"No signature was found with the name: {name}")
    signature = servable.signatures[name]
    if check_method:
        _check_method(signature, method)
    return signature


def _check_method(signature: pb.SignatureDef, method: str) -> None:
    if signature.method_name != method:
        kind = "classification" if method == CLASSIFY else "regression"
        raise InvalidArgumentError(
            f"Expected {kind} signature method_name to be {method}. Was: {signature.method_name}"
        )


def _classify_tensors(signature: pb.SignatureDef) -> tuple[str, list[str]]:
    """The names of the tensors that Classify feeds and fetches."""
    if len(signature.inputs) != 1:
        raise InvalidArgumentError("Expected one input Tensor.")
    if len(signature.outputs) not in (1, 2):
        raise InvalidArgumentError(f"Expected one or two output Tensors, found {len(signature.outputs)}")
    if EXAMPLES not in signature.inputs:
        raise FailedPreconditionError(f"No classification inputs found in SignatureDef: {signature}")
    outputs = [signature.outputs[name].name for name in (CLASSES, SCORES) if name in signature.outputs]
    if not outputs:
        raise FailedPreconditionError(
            f'Expected classification signature outputs to contain at least one of "{CLASSES}" or '
            f'"{SCORES}". Signature was: {signature}'
        )
    return signature.inputs[EXAMPLES].name, outputs


def _regress_tensors(signature: pb.SignatureDef) -> tuple[str, list[str]]:
    """The names of the tensors that Regress feeds and fetches."""
    if len(signature.inputs) != 1:
        raise InvalidArgumentError("Expected one input Tensor.")
    if len(signature.outputs) != 1:
        raise InvalidArgumentError("Expected one output Tensor.")
    if EXAMPLES not in signature.inputs:
        raise FailedPreconditionError(f"No regression inputs found in SignatureDef: {signature}")
    if REGRESSED not in signature.outputs:
        raise FailedPreconditionError(f"No regression outputs found in SignatureDef: {signature}")
    return signature.inputs[EXAMPLES].name, [signature.outputs[REGRESSED].name]


def _examples(proto: pb.SerializedInput) -> np.ndarray:
    """The serialized tf.Examples of a request.  # [examples], of bytes"""
    examples: Sequence[bytes] = ()
    match proto.WhichOneof("kind"):
        case "example_list":
            examples = proto.example_list.examples
        case "example_list_with_context":
            with_context = proto.example_list_with_context
            # A parser reads two concatenated serialized messages as one with the fields of both.
            examples = [with_context.context + example for example in with_context.examples]
    if not examples:
        raise InvalidArgumentError("Input is empty.")
    array = np.empty(len(examples), dtype=object)
    array[:] = list(examples)
    return array


def _classified(
    signature: pb.SignatureDef, rows: int, tensors: Mapping[str, np.ndarray]
) -> pb.ClassificationResult:
    classes = _matrix(signature, CLASSES, pb.DT_STRING, rows, tensors)
    scores = _matrix(signature, SCORES, pb.DT_FLOAT, rows, tensors)
    if classes is not None and scores is not None and classes.shape[1] != scores.shape[1]:
        raise InvalidArgumentError(
            f"Tensors class and score should match in dim_size(1). Got {classes.shape[1]} vs. "
            f"{scores.shape[1]}"
        )
    labels = None if classes is None else [[each.decode(errors="replace") for each in row] for row in classes]
    values = None if scores is None else scores.tolist()
    result = pb.ClassificationResult()
    for row in range(rows):
        found = result.classifications.add().classes
        if labels is not None and values is not None:
            for label, score in zip(labels[row], values[row], strict=True):
                found.add(label=label, score=score)
        elif labels is not None:
            for label in labels[row]:
                found.add(label=label)
        elif values is not None:
            for score in values[row]:
                found.add(score=score)
    return result


def _matrix(
    signature: pb.SignatureDef,
    alias: str,
    dtype: pb.DataType,
    rows: int,
    tensors: Mapping[str, np.ndarray],
) -> np.ndarray | None:
    """A checked output of Classify; None if the signature lacks it.  # [rows, classes]"""
    if alias not in signature.outputs:
        return None
    array = tensors[signature.outputs[alias].name]
    if array.ndim != 2:
        raise InvalidArgumentError(f"Expected Tensor shape: [batch_size num_classes] but got {_shape(array)}")
    _check_type(array, dtype, f"Expected {alias} Tensor of {pb.DataType.Name(dtype)}. Got: ")
    if len(array) != rows:
        raise InvalidArgumentError(f"Expected {alias} output batch size of {rows}. Got: {len(array)}")
    return array


def _regressed(
    signature: pb.SignatureDef, rows: int, tensors: Mapping[str, np.ndarray]
) -> pb.RegressionResult:
    array = tensors[signature.outputs[REGRESSED].name]
    if not (array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1)):
        raise InvalidArgumentError(
            f"Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got "
            f"{_shape(array)}"
        )
    if len(array) != rows:
        raise InvalidArgumentError(
            f"Input batch size did not match output batch size: {rows} vs. {len(array)}"
        )
    _check_type(array, pb.DT_FLOAT, "Expected output Tensor of DT_FLOAT.  Got: ")
    return pb.RegressionResult(
        regressions=[pb.Regression(value=value) for value in array.reshape(-1).tolist()]
    )


def _check_type(array: np.ndarray, dtype: pb.DataType, message: str) -> None:
    found = pb.DT_STRING if array.dtype == object else code_of(array.dtype)
    if found != dtype:
        raise InvalidArgumentError(message + pb.DataType.Name(found))


def _shape(array: np.ndarray) -> str:
    return f"[{','.join(map(str, array.shape))}]"
