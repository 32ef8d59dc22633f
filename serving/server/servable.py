"""One loaded version of a model: a SavedModel in a TensorFlow session, and Predict on it.

The session is TensorFlow 1's, fed and fetched below its Python checks, because that is what TensorFlow
Serving runs: error texts and the missing shape check are then its own. A call costs 40 microseconds.

Reference: RunPredict in tensorflow_serving/servables/tensorflow/predict_util.cc, and GetInputValues in
tensorflow/cc/saved_model/util.cc.
"""

import logging
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np
import tensorflow as tf
from tensorflow.python.client import pywrap_tf_session as session_api

from ..errors import ERROR_OF_CODE, FailedPreconditionError, InvalidArgumentError, ServingError, status_code
from ..wire import codec
from ..wire import messages_pb2 as pb
from ..wire.dtypes import CodecError

DEFAULT_SIGNATURE = "serving_default"
_TAGS = [tf.saved_model.SERVING]
# Its stub takes no None for "no options" and "no metadata"; Session.run passes both.
_session_run: Any = session_api.TF_SessionRun_wrapper


class Servable:
    """A version of a model, ready to answer.

    Args:
        model: the model's name.
        version: the version's number.
        path: the version's folder, a SavedModel.
        intra_op_threads: threads for one operation; 0 leaves it to TensorFlow.

    Raises:
        ServingError: TensorFlow's runtime cannot load it, for example because a checkpoint is cut short.
        Exception: TensorFlow's Python cannot: an OSError, ValueError or RuntimeError among others.

    Example:
        servable = Servable("half", 1, Path("models/half/1"), intra_op_threads=1)
        response = servable.predict(request, timeout=1.0)
    """

    def __init__(self, model: str, version: int, path: Path, intra_op_threads: int):
        self.model = model
        self.version = version
        self._path = path
        options = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=intra_op_threads)
        self._session = tf.compat.v1.Session(graph=tf.Graph(), config=options)
        try:
            meta_graph = _load(self._session, path)
            signatures = {name: proto.SerializeToString() for name, proto in meta_graph.signature_def.items()}
            self.signatures = {name: pb.SignatureDef.FromString(data) for name, data in signatures.items()}
            self._tensors = {name: self._tensor(name) for name in self._tensor_names()}
        except tf.errors.OpError as error:
            self._session.close()
            raise self._serving_error(error) from error
        except BaseException:
            self._session.close()
            raise

    def predict(self, request: pb.PredictRequest, timeout: float | None) -> pb.PredictResponse:
        """The response to a request, with the texts of TensorFlow Serving where there is none.

        Args:
            request: its model_spec has already been resolved to this version.
            timeout: seconds the graph may run; None for no limit.

        Raises:
            FailedPreconditionError: the signature does not exist.
            InvalidArgumentError: inputs or output_filter do not fit it.
            ServingError: what the graph itself ended with.
        """
        name = request.model_spec.signature_name or DEFAULT_SIGNATURE
        if name not in self.signatures:
            raise FailedPreconditionError(f'Serving signature key "{name}" not found.')
        signature = self.signatures[name]
        feeds = {self._tensors[feed]: array for feed, array in _input_arrays(signature, request)}
        aliases = _output_aliases(signature, request.output_filter)
        fetches = [self._tensors[signature.outputs[alias].name] for alias in aliases]
        arrays = self._run(feeds, fetches, timeout)
        response = pb.PredictResponse(
            outputs={alias: codec.encode_fields(array) for alias, array in zip(aliases, arrays, strict=True)},
            model_spec=pb.ModelSpec(name=request.model_spec.name, signature_name=name),
        )
        response.model_spec.version.value = self.version
        return response

    def close(self) -> None:
        """Frees the model. Runs that are still on their way end with CANCELLED."""
        self._session.close()

    def _run(self, feeds: dict[Any, np.ndarray], fetches: list[Any], timeout: float | None) -> list[Any]:
        options = None
        if timeout is not None:
            milliseconds = max(1, math.ceil(timeout * 1000))
            run_options = tf.compat.v1.RunOptions(timeout_in_ms=milliseconds)
            options = session_api.TF_NewBufferFromString(run_options.SerializeToString())
        try:
            # No public call feeds a session without a shape check of its own in front.
            return _session_run(self._session._session, options, feeds, fetches, [], None)
        except tf.errors.OpError as error:
            raise self._serving_error(error) from error
        finally:
            if options is not None:
                session_api.TF_DeleteBuffer(options)

    def _serving_error(self, error: tf.errors.OpError) -> ServingError:
        return ERROR_OF_CODE[status_code(error.error_code)](without_path(error.message, self._path))

    def _tensor_names(self) -> Iterable[str]:
        for signature in self.signatures.values():
            for info in (*signature.inputs.values(), *signature.outputs.values()):
                # Sparse and composite tensors have parts instead of a name; __saved_model_init_op names an
                # operation. Neither can be fed or fetched by Predict.
                if ":" in info.name:
                    yield info.name

    def _tensor(self, name: str) -> Any:
        return self._session.graph.get_tensor_by_name(name)._as_tf_output()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def without_path(message: str, path: Path) -> str:
    """`message` without the folders that a version lies in: clients need not know them."""
    for folder in (path, path.parent):
        message = message.replace(str(folder), folder.name)
    return message


def _load(session: Any, path: Path) -> Any:
    """The MetaGraphDef of the SavedModel, loaded into the session."""
    with session.graph.as_default():
        # TensorFlow announces on every load that this function is deprecated; its successor runs no sessions.
        logger = logging.getLogger("tensorflow")
        level = logger.level
        logger.setLevel(logging.ERROR)
        try:
            return tf.compat.v1.saved_model.load(session, _TAGS, str(path))
        finally:
            logger.setLevel(level)


def _input_arrays(signature: pb.SignatureDef, request: pb.PredictRequest) -> Iterable[tuple[str, np.ndarray]]:
    """(feed name, array) for every input of the signature, checked as TensorFlow Serving checks."""
    _check_input_count(signature, request)
    used = []
    for alias in sorted(signature.inputs):
        info = signature.inputs[alias]
        if alias in request.inputs:
            used.append(alias)
            proto = request.inputs[alias]
        elif alias in signature.defaults:
            proto = signature.defaults[alias]
        else:
            raise InvalidArgumentError(
                f"Signature input alias: {alias}(feed name: {info.name}) not found in request and no "
                f"default value provided. Inputs expected to be in the request {{{_join(request.inputs)}}}, "
                f"or default input alias set: {_join(signature.defaults)}"
            )
        try:
            yield info.name, codec.decode(proto)
        except CodecError:
            raise InvalidArgumentError(f"tensor parsing error: {alias}") from None
    if len(used) != len(request.inputs):
        raise InvalidArgumentError(
            f"Inputs contains invalid name. Used request inputs: {_join(used)}, "
            f"request input: {_join(request.inputs)}"
        )


def _check_input_count(signature: pb.SignatureDef, request: pb.PredictRequest) -> None:
    sent, known = set(request.inputs), set(signature.inputs)
    if len(sent) > len(known) or (len(sent) < len(known) and not signature.defaults):
        raise InvalidArgumentError(
            f"input size does not match signature: {len(sent)}!={len(known)} len({{{_join(sent)}}}) != "
            f"len({{{_join(known)}}}). Sent extra: {{{_join(sent - known)}}}. "
            f"Missing but required: {{{_join(known - sent)}}}."
        )


def _output_aliases(signature: pb.SignatureDef, output_filter: Iterable[str]) -> list[str]:
    """The outputs to fetch: those asked for, or all."""
    aliases: list[str] = []
    for alias in output_filter:
        if alias not in signature.outputs:
            raise InvalidArgumentError(
                f"output tensor alias not found in signature: {alias} Outputs expected to be in the set "
                f"{{{_join(signature.outputs)}}}."
            )
        if alias in aliases:
            raise InvalidArgumentError(f"duplicate output tensor alias: {alias}")
        aliases.append(alias)
    return aliases or sorted(signature.outputs)


def _join(names: Iterable[str]) -> str:
    return ",".join(sorted(names))
