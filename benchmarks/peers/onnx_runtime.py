"""KerasHub's trained blocks in ONNX Runtime, converted from their SavedModel by tf2onnx."""

import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from benchmarks.case import Case
from benchmarks.machine import cores
from benchmarks.peers.keras_tensorflow import save_kerashub
from benchmarks.prepared import Prepared

_OPSET = "18"


def build(fields: dict[str, Any]) -> Prepared:
    """Build KerasHub's blocks in a process of their own, convert and load them."""
    import onnxruntime  # pyright: ignore[reportMissingImports]

    case = Case.from_json(fields)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = cores()  # its default counts all cores of the machine
    session = onnxruntime.InferenceSession(_converted(fields), options, ["CPUExecutionProvider"])
    names = {len(port.shape): port.name for port in session.get_inputs()}  # by rank: x 3, mask 2
    x, mask = case.inputs()

    def call(samples: int, tokens: int) -> Any:
        return session.run(None, {names[3]: x[:samples, :tokens], names[2]: mask[:samples, :tokens]})[0]

    return Prepared(
        run=lambda: call(*mask.shape), warm=lambda: call(1, 8), outputs=lambda: call(*mask.shape)[mask]
    )


def _converted(fields: dict[str, Any]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            pool.submit(save_kerashub, fields, folder).result()
        command = [sys.executable, "-m", "tf2onnx.convert", "--saved-model", folder, "--opset", _OPSET]
        done = subprocess.run(
            [*command, "--output", f"{folder}/blocks.onnx"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["tf2onnx failed"])[-1])
        with open(f"{folder}/blocks.onnx", "rb") as file:
            return file.read()
