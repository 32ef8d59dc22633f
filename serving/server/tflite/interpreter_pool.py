"""A pool of TFLite's interpreters, each of which runs one request at a time.

Reference: tensorflow_serving/servables/tensorflow/tflite_interpreter_pool.cc.
"""

import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tensorflow.lite.python.interpreter import Interpreter, OpResolverType

from ...errors import CancelledError, DeadlineExceededError, InvalidArgumentError
from ..runtime.cpus import available_cpus
from .tflite_signatures import Tensor


class InterpreterPool:
    """Interpreters, each for one caller at a time; more are made as callers come, up to one for each CPU."""

    def __init__(self, content: bytes, threads: int):
        self._content = content
        self._threads = threads
        self._most = available_cpus()
        self._changed = threading.Condition()
        self._idle = [_Interpreter(content, threads)]
        self._made = 1
        self._closed = False

    def run(
        self, feeds: Mapping[Tensor, np.ndarray], fetches: Sequence[Tensor], timeout: float | None
    ) -> list[np.ndarray]:
        interpreter = self._take(timeout)
        try:
            if interpreter is None:
                interpreter = _Interpreter(self._content, self._threads)
            arrays = interpreter.run(feeds, fetches)
        except BaseException:
            # The state of an interpreter after a failed run is unknown.
            self._give_back(None)
            raise
        self._give_back(interpreter)
        return arrays

    def _take(self, timeout: float | None) -> "_Interpreter | None":
        """Take an idle interpreter, or None as permission to create one; give either back."""
        end = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not self._closed and not self._idle and self._made >= self._most:
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    raise DeadlineExceededError("Timed out waiting for a TFLite interpreter.")
                self._changed.wait(left)
            if self._closed:
                raise CancelledError("Session has been closed.")
            if self._idle:
                return self._idle.pop()
            self._made += 1
            return None

    def _give_back(self, interpreter: "_Interpreter | None") -> None:
        with self._changed:
            if interpreter is None:
                self._made -= 1
            elif not self._closed:
                self._idle.append(interpreter)
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._idle.clear()
            self._changed.notify_all()


class _Interpreter:
    """A tf.lite.Interpreter that is resized only if a shape differs from the last run's."""

    def __init__(self, content: bytes, threads: int):
        # No public method takes a subgraph; every signature but the first has a separate one.
        self._owner = _new_interpreter(content, threads)
        self._wrapper: Any = self._owner._interpreter
        self._shapes: dict[tuple[int, int], tuple[int, ...]] = {}

    def run(self, feeds: Mapping[Tensor, np.ndarray], fetches: Sequence[Tensor]) -> list[np.ndarray]:
        subgraph = next((tensor.subgraph for tensor in (*feeds, *fetches)), 0)
        try:
            self._resize(subgraph, feeds)
            for tensor, array in feeds.items():
                self._wrapper.SetTensor(tensor.index, _settable(array), subgraph)
        except (RuntimeError, ValueError) as error:
            raise InvalidArgumentError(f"Failed to allocate tensors: {error}") from error
        try:
            self._wrapper.Invoke(subgraph)
        except RuntimeError as error:
            raise InvalidArgumentError(f"Failed to invoke TfLite interpreter: {error}") from error
        # GetTensor copies.
        return [
            np.asarray(self._wrapper.GetTensor(tensor.index, subgraph), tensor.dtype) for tensor in fetches
        ]

    def _resize(self, subgraph: int, feeds: Mapping[Tensor, np.ndarray]) -> None:
        changed = {
            tensor.index: array.shape
            for tensor, array in feeds.items()
            if self._shapes.get((subgraph, tensor.index)) != array.shape
        }
        for index, shape in changed.items():
            self._wrapper.ResizeInputTensor(index, np.array(shape, np.int32), False, subgraph)
        if changed or not feeds:
            self._wrapper.AllocateTensors(subgraph)
        self._shapes |= {(subgraph, index): shape for index, shape in changed.items()}


def _new_interpreter(content: bytes, threads: int) -> Interpreter:
    """Create an interpreter that is ready to run.

    Raises:
        InvalidArgumentError: the content is not a TFLite file, or TFLite cannot run it.
    """
    # catch_warnings would restore other threads' filters; repeated calls of this add one filter.
    warnings.filterwarnings("ignore", r"\s*Warning: tf\.lite\.Interpreter is deprecated", UserWarning)
    kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    try:
        interpreter = Interpreter(
            model_content=content, num_threads=threads or None, experimental_op_resolver_type=kernels
        )
    except ValueError as error:
        raise InvalidArgumentError(f"Cannot build FlatBufferModel from buffer. {error}") from error
    try:
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        raise InvalidArgumentError(f"Failed to allocate tensors: {error}") from error
    return interpreter


def _settable(array: np.ndarray) -> np.ndarray:
    """`array` in SetTensor's form, which reads the address of a string without axes as the string's text."""
    if array.dtype == object and array.ndim == 0:
        text = array.item()
        return np.ndarray((), f"S{len(text)}", buffer=text)
    return array
