"""One client's side of `benchmarks/client.py`: it measures on request, and prints a JSON object of medians.

python benchmarks/client_worker.py codec|calls ours|stock
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

SIZES = {"1 float": 1, "10,000 floats": 10_000, "2 M floats": 2_000_000}
ROWS = {"1 x 128 floats": 1, "64 x 128 floats": 64, "1,024 x 1,024 floats": 1024}
TEXTS = [f"a text of some words, number {number}" for number in range(64)]
_SECONDS = 0.3


def main() -> None:
    """Measure once for each line on standard input."""
    task, name = sys.argv[1:]
    measure = {"codec": codec, "calls": calls}[task](name)
    for _ in sys.stdin:
        print(json.dumps(measure()), flush=True)


def median_microseconds(function: Callable[[], Any]) -> float:
    """The median time of a call, over as many as fit in a third of a second."""
    times: list[float] = []
    end = time.perf_counter() + _SECONDS
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def codec(name: str) -> Callable[[], dict[str, float]]:
    """Messages to bytes and back."""
    encode, decode = (_our_codec if name == "ours" else _stock_codec)()
    tasks: dict[str, Callable[[], Any]] = {}
    for size, count in SIZES.items():
        array = np.random.default_rng(0).normal(size=count).astype(np.float32)
        typed, content = _answers(array)
        for answer in (typed, content):
            np.testing.assert_array_equal(decode(answer), array)
        tasks[f"encode {size}"] = lambda array=array: encode(array)
        tasks[f"decode {size}, float_val"] = lambda typed=typed: decode(typed)
        tasks[f"decode {size}, tensor_content"] = lambda content=content: decode(content)
    texts = np.array([text.encode() for text in TEXTS], dtype=object)
    answer = _answers(texts)[0]
    tasks["encode 64 texts"] = lambda: encode(TEXTS)
    tasks["decode 64 texts"] = lambda: decode(answer)
    return lambda: {what: median_microseconds(task) for what, task in tasks.items()}


def _answers(array: np.ndarray) -> tuple[bytes, bytes]:
    """PredictResponses as TensorFlow Serving writes them: typed fields, or tensor_content."""
    from keras_selfattn.serving.wire import codec as wire
    from keras_selfattn.serving.wire import messages_pb2 as pb

    made = (wire.encode_fields(array), wire.encode(array))
    return tuple(pb.PredictResponse(outputs={"y": each}).SerializeToString() for each in made)  # pyright: ignore


def _our_codec() -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    from keras_selfattn.serving.wire import codec as wire
    from keras_selfattn.serving.wire import message_bytes
    from keras_selfattn.serving.wire import messages_pb2 as pb

    spec = pb.ModelSpec(name="m")
    return (
        lambda value: message_bytes.predict_request(spec, {"x": wire.to_array(value)}, ()),
        lambda answer: message_bytes.predict_response(answer)[0]["y"],
    )


def _stock_codec() -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2 as stock

    predict_pb2: Any = stock  # its messages are made at import

    def encode(value: Any) -> bytes:
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "m"
        request.inputs["x"].CopyFrom(tf.make_tensor_proto(value))
        return request.SerializeToString()

    return encode, lambda answer: tf.make_ndarray(predict_pb2.PredictResponse.FromString(answer).outputs["y"])


def calls(name: str) -> Callable[[], dict[str, float]]:
    """Call over loopback: wall and CPU time of one client."""
    command = [sys.executable, str(Path(__file__).parent / "client_server.py")]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    predict = (_our_call if name == "ours" else _stock_call)(f"127.0.0.1:{int(server.stdout.readline())}")

    def measure() -> dict[str, float]:
        found: dict[str, float] = {}
        for what, rows in ROWS.items():
            x = np.zeros((rows, 128 if rows < 1024 else 1024), np.float32)
            answer = predict(x)
            cpu = time.process_time()
            times: list[float] = []
            end = time.perf_counter() + 2 * _SECONDS
            while time.perf_counter() < end:
                start = time.perf_counter()
                answer = predict(x)
                times.append(time.perf_counter() - start)
            cpu = time.process_time() - cpu
            assert answer.shape == (rows, 2)
            found[f"call with {what}, p50"] = statistics.median(times) * 1e6
            found[f"call with {what}, CPU"] = cpu / len(times) * 1e6
        return found

    return measure


def _our_call(target: str) -> Callable[[np.ndarray], np.ndarray]:
    from keras_selfattn.serving.client import Client

    client = Client(target, "m")
    return lambda x: client.predict({"x": x})["y"]


def _stock_call(target: str) -> Callable[[np.ndarray], np.ndarray]:
    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2 as stock
    from tensorflow_serving.apis import prediction_service_pb2_grpc

    predict_pb2: Any = stock  # its messages are made at import
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    stub = prediction_service_pb2_grpc.PredictionServiceStub(grpc.insecure_channel(target, options))

    def predict(x: np.ndarray) -> np.ndarray:
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "m"
        request.inputs["x"].CopyFrom(tf.make_tensor_proto(x))
        return tf.make_ndarray(stub.Predict(request, timeout=10).outputs["y"])

    return predict


if __name__ == "__main__":
    main()
