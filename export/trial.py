"""Try a written SavedModel: a fresh process must give the answers of the live model."""

import base64
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ExportError
from keras_selfattn.serving.wire.signature_names import LABEL, LABELS, PROBABILITIES

from .contract import Contract, model_errors
from .signatures.model_signatures import Signature
from .signatures.trial_requests import Request

_PROGRAM = Path(__file__).with_name("check.py")
# Seconds for the fresh process: importing TensorFlow and loading take about ten on two busy cores.
_TIMEOUT = 600.0
_EAGER = threading.Lock()

# How far the answers of a written file may be from the live model's, relative to numbers above 1.
IN_FULL = 1e-5
"""In float32, where one rounding is off by 1e-7: a graph fuses operations, which then round once instead of
twice, and another runtime adds in another order."""
IN_HALF = 5e-2
"""Of a model that `rounds_coarsely`: one rounding is off by up to 4e-3 in bfloat16, and in int8 a small
difference becomes a step of the scale."""
SUM_ERROR = 1e-3
"""Of the sum of a row's probabilities from 1: room for many labels that are rounded. Logits, which would be
served as probabilities, are off by far more."""


@dataclass(frozen=True)
class Case:
    """A request, and the answer of the live model.

    Args:
        signature: the name of its signature.
        request: inputs by name.
        outputs: the answer by name.
        margins: the distance of each row from another answer, `[B]`; None if the outputs tell it.
    """

    signature: str
    request: Request
    outputs: dict[str, np.ndarray]
    margins: np.ndarray | None = None


Ask = Callable[[], list[Case]]


def live_answers(contract: Contract, *, in_graphs: bool = False) -> list[Case]:
    """Return the live model's answers to the requests of each signature, without any graph.

    Args:
        contract: the signatures.
        in_graphs: True runs the graphs of this process instead. Where numbers are rounded to int8, the last
            bit of a float decides how, and the operations that a graph fuses differ in it from single ones.

    Raises:
        ExportError: if the model fails on a request, or returns invalid probabilities.
    """
    cases = []
    with nullcontext() if in_graphs else _eagerly():
        for name, signature in contract.signatures.items():
            for place, request in enumerate(signature.requests):
                function = signature.function if in_graphs else signature.function.python_function
                outputs = _answer(name, signature, request, function, needed=place == 0)
                if outputs is not None:
                    cases.append(Case(name, request, outputs, _margins(signature, request)))
    for case in cases:
        _check_probabilities(case)
    return cases


def tried(check: Callable[[list[Case]], dict[str, Any]], cases: list[Case], ask: Ask) -> dict[str, Any]:
    """Return what a check of an export measures; if it refuses, the live model is asked again first.

    The live model runs the same operations, so it may be off in some rows, too: see `check.wrong`.

    Args:
        check: what raises an ExportError, or returns measurements.
        cases: the live model's answers.
        ask: returns its answers again.
    """
    try:
        return check(cases)
    except ExportError:
        again = ask()
        if _same(cases, again):
            raise
        return check(again)


def _same(cases: Sequence[Case], others: Sequence[Case]) -> bool:
    return all(
        _equal(first.outputs[name], other.outputs[name])
        for first, other in zip(cases, others, strict=True)
        for name in first.outputs
    )


def _equal(first: np.ndarray, other: np.ndarray) -> bool:
    return np.array_equal(first, other, equal_nan=first.dtype.kind == "f")


def try_saved_model(folder: Path, cases: Sequence[Case], tolerance: float) -> dict[str, Any]:
    """Run all cases on a SavedModel, in a fresh process without Keras, and return its measurements.

    Args:
        folder: the SavedModel.
        cases: requests and answers.
        tolerance: the largest difference of numbers, relative to those above 1.

    Raises:
        ExportError: if an answer differs, changes between two runs, or does not come.
    """
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary, "cases.json")
        write_cases(path, cases, tolerance)
        return checked(_PROGRAM, str(folder), str(path))


def checked(program: Path, *arguments: str) -> dict[str, Any]:
    """Run a program that checks an export, in a fresh process, and return the measurements that it prints.

    Raises:
        ExportError: if it fails, with the last line of its errors; or if it takes too long.
    """
    # -P keeps the script's own folder off the path: its neighbours are not top-level modules.
    command = [sys.executable, "-P", str(program), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise ExportError(f"The exported graph did not answer within {_TIMEOUT:.0f} s.") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise ExportError(
            f"The exported graph failed its check, nothing was written: {lines[-1].rstrip('.')}."
        )
    return json.loads(done.stdout.decode().strip().splitlines()[-1])


def write_cases(path: Path, cases: Sequence[Case], tolerance: float) -> None:
    """Write cases as `check.py` reads them."""
    content = [
        {
            "signature": case.signature,
            "inputs": _protos(case.request),
            "outputs": _protos(case.outputs),
            "tolerance": tolerance,
            **({} if case.margins is None else {"margins": case.margins.tolist()}),
        }
        for case in cases
    ]
    path.write_text(json.dumps(content), encoding="utf-8")


def _protos(arrays: dict[str, np.ndarray]) -> dict[str, str]:
    return {
        name: base64.b64encode(tf.make_tensor_proto(array).SerializeToString()).decode()
        for name, array in arrays.items()
    }


def _answer(
    name: str, signature: Signature, request: Request, function: Callable[..., Any], *, needed: bool
) -> dict[str, np.ndarray] | None:
    try:
        with model_errors(name, request):
            answer = function(*signature.arguments(request))
    except ExportError:
        if needed or any(len(array) for array in request.values()):
            raise
        return None  # a user's model may not accept an empty batch
    if not isinstance(answer, Mapping) or not all(isinstance(value, tf.Tensor) for value in answer.values()):
        raise ExportError(f"The signature {name!r} must return a dict of tensors by name.")
    return {key: np.asarray(value) for key, value in answer.items()}


def _margins(signature: Signature, request: Request) -> np.ndarray | None:
    return None if signature.margins is None else np.asarray(signature.margins(*signature.arguments(request)))


@contextmanager
def _eagerly() -> Iterator[None]:
    # The switch is global: a second thread must not save the first thread's value as the original.
    with _EAGER:
        before = tf.config.functions_run_eagerly()
        tf.config.run_functions_eagerly(True)
        try:
            yield
        finally:
            tf.config.run_functions_eagerly(before)


def _check_probabilities(case: Case) -> None:
    found = case.outputs.get(PROBABILITIES)
    if found is None or LABEL not in case.outputs or not found.size:
        return
    if LABELS in case.outputs:  # which need not sum to 1
        return
    check_sums(found)


def check_sums(found: np.ndarray) -> None:
    """Raise ExportError if rows of probabilities `[..., C]` do not sum to 1.

    Rows of zeros are masked. Rows with NaN, of a model that answers some inputs with it, are no probabilities
    or logits.
    """
    sums = found.sum(axis=-1)
    sums = sums[(sums != 0) & ~np.isnan(sums)]
    wrong = sums[~(np.abs(sums - 1) <= SUM_ERROR)]
    if wrong.size or (found < 0).any():
        raise ExportError(
            "With `labels`, the model must return probabilities. It returns rows that sum up to "
            f"{wrong[0] if wrong.size else 1:.3g} with values from {found.min():.3g} to {found.max():.3g}; "
            'end it with activation="softmax" (or "sigmoid" for one column and two labels).'
        )
