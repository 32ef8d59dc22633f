"""The servers that `bench serving` compares ours with, each written as in its tutorials.

    python -m benchmarks.serving_servers NAME FOLDER PORT [PORT]

They serve the model that `peers.served_model` wrote into FOLDER, on 127.0.0.1:PORT, until they are killed.
"""

import contextlib
import functools
import http.server
import json
import socket
import subprocess
import sys
from concurrent import futures
from pathlib import Path
from typing import Any

from benchmarks.peers.served_model import EXPECTED, KERAS_FILE, NAME, export_base, texts

HOST = "127.0.0.1"
HEALTH_PATH = "/health"
_THREADS = 8
_REPLICA_REQUESTS = 100  # more than there are connections: no request waits for the replica's permission


def plain(folder: Path, port: int) -> None:
    """gRPC's synchronous server, TensorFlow's own messages, and the signature called as it is loaded."""
    import grpc
    from grpc_health.v1 import health, health_pb2, health_pb2_grpc
    from tensorflow_serving.apis import prediction_service_pb2_grpc

    predict = _predict_rpc(folder)

    class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
        def Predict(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
            return predict(request)

    server = grpc.server(futures.ThreadPoolExecutor(max_workers=_THREADS))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Service(), server)
    servicer: Any = health.HealthServicer()
    servicer.set("", health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    server.add_insecure_port(f"{HOST}:{port}")
    server.start()
    server.wait_for_termination()


def no_model(folder: Path, port: int) -> None:
    """gRPC's asyncio server with one answer made beforehand: the cost of a request without a computation."""
    import asyncio

    asyncio.run(_answer_always(_first_answer(folder), port))


async def _answer_always(answer: bytes, port: int) -> None:
    import grpc
    import grpc.aio
    from grpc_health.v1 import health, health_pb2, health_pb2_grpc

    async def predict(_data: bytes, _context: Any) -> bytes:
        return answer

    server = grpc.aio.server()
    handlers = {"Predict": grpc.unary_unary_rpc_method_handler(predict)}
    service = grpc.method_handlers_generic_handler("tensorflow.serving.PredictionService", handlers)
    server.add_generic_rpc_handlers((service,))
    servicer: Any = health.aio.HealthServicer()  # pyright: ignore[reportAttributeAccessIssue]
    await servicer.set("", health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    server.add_insecure_port(f"{HOST}:{port}")
    await server.start()
    await server.wait_for_termination()


def _first_answer(folder: Path) -> bytes:
    """The PredictResponse to the first text."""
    import numpy as np

    from keras_selfattn.serving.wire import codec
    from keras_selfattn.serving.wire import messages_pb2 as pb

    expected = json.loads((folder / EXPECTED).read_text(encoding="utf-8"))
    outputs = {"probabilities": codec.encode_fields(np.array([expected], dtype=np.float32))}
    return pb.PredictResponse(outputs=outputs).SerializeToString()


def fastapi_keras(folder: Path, port: int) -> None:
    """FastAPI around `model.predict` of the Keras file."""
    import keras

    import keras_selfattn.models  # noqa: F401  the file's classes

    model: Any = keras.models.load_model(folder / KERAS_FILE)
    _fastapi(lambda texts: model.predict(texts, verbose=0).tolist(), port)


def fastapi_saved_model(folder: Path, port: int) -> None:
    """FastAPI around the signature of the SavedModel."""
    import tensorflow as tf

    signature = _signature(folder)
    _fastapi(lambda texts: signature(text=tf.constant(texts))["probabilities"].numpy().tolist(), port)


def _fastapi(predict: Any, port: int) -> None:
    """Serve with one worker. With `def`, not `async def`, FastAPI runs the model in threads, off its loop."""
    import fastapi  # pyright: ignore[reportMissingImports]
    import pydantic  # pyright: ignore[reportMissingImports]
    import uvicorn

    class Body(pydantic.BaseModel):
        instances: list[str]

    app = fastapi.FastAPI()

    @app.get(HEALTH_PATH)
    def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/predict")
    def answer(body: Body) -> dict[str, Any]:
        return {"predictions": predict(body.instances)}

    uvicorn.run(app, host=HOST, port=port, log_level="warning", access_log=False)


def ray_serve(folder: Path, port: int, health_port: int, *, replicas: int = 1) -> None:
    """Ray Serve's gRPC proxy, as it is set up by default, in front of replicas."""
    import ray  # pyright: ignore[reportMissingImports]
    from ray import serve  # pyright: ignore[reportMissingImports]

    adder = "tensorflow_serving.apis.prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server"

    @serve.deployment(
        max_ongoing_requests=_REPLICA_REQUESTS, num_replicas=replicas, ray_actor_options={"num_cpus": 0}
    )
    class Model:
        def __init__(self) -> None:
            self._predict = _predict_rpc(folder)
            self._predict(_stock_request())  # prepares the graph before the replica counts as running

        def Predict(self, request: Any) -> Any:  # noqa: N802
            return self._predict(request)

    health = _health_server(health_port)  # first: Ray takes ports at random
    ray.init(include_dashboard=False, log_to_driver=False, _temp_dir=str(folder / "ray"))
    serve.start(
        http_options={"host": HOST, "port": free_ports(1)[0]},
        grpc_options={"port": port, "grpc_servicer_functions": [adder]},
    )
    application: Any = Model
    serve.run(application.bind())
    health.serve_forever()


def ours_on_ray(folder: Path, port: int, health_port: int, *, replicas: int = 1) -> None:
    """Ray Serve with replicas that each run our server."""
    import ray  # pyright: ignore[reportMissingImports]
    from ray import serve  # pyright: ignore[reportMissingImports]

    from keras_selfattn.serving.ray import application as ray_application
    from keras_selfattn.serving.server import ServerConfig

    health = _health_server(health_port)  # first: Ray takes ports at random
    ray.init(include_dashboard=False, log_to_driver=False, _temp_dir=str(folder / "ray"))
    serve.start(proxy_location="Disabled")
    config = ServerConfig(NAME, folder / NAME, port=port)
    application = ray_application(
        config, min_replicas=replicas, max_replicas=replicas, ray_actor_options={"num_cpus": 0}
    )
    serve.run(application, route_prefix=None)
    health.serve_forever()


def _health_server(port: int) -> http.server.HTTPServer:
    """Return a server of health checks, to be run when all replicas run; the port is taken at once.

    The ports of the replicas themselves listen as soon as the first one runs.
    """

    class Healthy(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(http.HTTPStatus.OK)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    return http.server.HTTPServer((HOST, port), Healthy)


def two_of_ours(folder: Path, port: int, second_port: int) -> None:
    """Two servers that know nothing of each other, for a client that balances."""
    command = (sys.executable, "-c", "from keras_selfattn.cli.entry import main; main()", "serve")
    named = (f"--model_name={NAME}", f"--model_base_path={folder / NAME}")
    servers = [subprocess.Popen([*command, *named, f"--port={each}"]) for each in (port, second_port)]
    for server in servers:
        server.wait()


def free_ports(count: int) -> list[int]:
    """Return ports that nothing listens on."""
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(socket.create_server((HOST, 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in opened]


def _signature(folder: Path) -> Any:
    import tensorflow as tf

    loaded: Any = tf.saved_model.load(str(export_base(folder) / "1"))
    # The signature does not keep the loaded model alive.
    signature = loaded.signatures["serving_default"]
    signature.loaded = loaded
    return signature


def _stock_request() -> Any:
    """Return a stock PredictRequest of the first text."""
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2

    stock: Any = predict_pb2
    return stock.PredictRequest(inputs={"text": tf.make_tensor_proto(texts()[:1])})


def _predict_rpc(folder: Path) -> Any:
    """Return the function from a stock PredictRequest to a stock PredictResponse."""
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2

    stock: Any = predict_pb2  # its messages are made at import
    signature = _signature(folder)

    def predict(request: Any) -> Any:
        inputs = {name: tf.constant(tf.make_ndarray(tensor)) for name, tensor in request.inputs.items()}
        response = stock.PredictResponse()
        for name, output in signature(**inputs).items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(output.numpy()))
        return response

    return predict


SERVERS = {
    "plain": plain,
    "no-model": no_model,
    "fastapi-keras": fastapi_keras,
    "fastapi-saved-model": fastapi_saved_model,
    "ray-serve": ray_serve,
    "ray-serve-2": functools.partial(ray_serve, replicas=2),
    "ray-serve-4": functools.partial(ray_serve, replicas=4),
    "ours-on-ray": ours_on_ray,
    "ours-on-ray-2": functools.partial(ours_on_ray, replicas=2),
    "ours-on-ray-4": functools.partial(ours_on_ray, replicas=4),
    "two-of-ours": two_of_ours,
}


def main() -> None:
    """Serve."""
    name, folder, *ports = sys.argv[1:]
    SERVERS[name](Path(folder), *map(int, ports))


if __name__ == "__main__":
    main()
