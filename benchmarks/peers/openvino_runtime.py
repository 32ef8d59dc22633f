"""KerasHub's trained blocks in OpenVINO, converted from their SavedModel."""

import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from benchmarks.case import Case
from benchmarks.machine import cores
from benchmarks.peers.keras_tensorflow import save_kerashub
from benchmarks.prepared import Prepared


def build(fields: dict[str, Any]) -> Prepared:
    """Build KerasHub's blocks in a process of their own, convert and compile them."""
    import openvino  # pyright: ignore[reportMissingImports]

    case = Case.from_json(fields)
    bf16 = case.dtype == "bfloat16"
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(1, get_context("spawn")) as pool:
        # Save the weights in float32; the engine is told to compute in bfloat16.
        pool.submit(save_kerashub, {**fields, "dtype": "float32"}, folder).result()
        model = openvino.convert_model(folder)
    settings = {
        "INFERENCE_PRECISION_HINT": "bf16" if bf16 else "f32",
        "INFERENCE_NUM_THREADS": cores(),
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = openvino.Core().compile_model(model, "CPU", settings)
    request = compiled.create_infer_request()
    names = {len(port.partial_shape): port.any_name for port in compiled.inputs}  # by rank: x 3, mask 2
    x, mask = case.inputs()

    def call(samples: int, tokens: int) -> Any:
        given = {names[3]: x[:samples, :tokens], names[2]: mask[:samples, :tokens]}
        return request.infer(given, share_inputs=True)[0]

    return Prepared(
        run=lambda: call(*mask.shape), warm=lambda: call(1, 8), outputs=lambda: call(*mask.shape)[mask]
    )
