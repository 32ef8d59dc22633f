"""The server of `benchmarks/client.py`: TensorFlow Serving's services, with answers made beforehand.

It answers with as many rows as a request has, without reading them. It prints its port, and serves until its
standard input ends.
"""

import sys
from concurrent import futures

import grpc
import numpy as np

from keras_selfattn.serving.wire import codec
from keras_selfattn.serving.wire import messages_pb2 as pb

_UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
_PREDICT = "/tensorflow.serving.PredictionService/Predict"
_METADATA = "/tensorflow.serving.PredictionService/GetModelMetadata"


def main() -> None:
    """Serve until standard input ends."""
    answers = {rows: _answer(rows) for rows in (1, 64, 1024)}
    sizes = {rows: rows * (1024 if rows == 1024 else 128) * 4 for rows in answers}

    def predict(request: bytes, _context: grpc.ServicerContext) -> bytes:
        return answers[min(sizes, key=lambda rows: abs(sizes[rows] - len(request)))]

    handlers = {_PREDICT: predict, _METADATA: lambda _request, _context: _metadata()}

    class Handler(grpc.GenericRpcHandler):
        def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
            return grpc.unary_unary_rpc_method_handler(handlers[handler_call_details.method])

    server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[Handler()], options=_UNLIMITED)
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    sys.stdin.read()  # ends when the parent process ends


def _answer(rows: int) -> bytes:
    outputs = {"y": codec.encode_fields(np.ones((rows, 2), np.float32))}
    return pb.PredictResponse(outputs=outputs, model_spec={"name": "m"}).SerializeToString()


def _metadata() -> bytes:
    def info(sizes: list[int]) -> pb.TensorInfo:
        return pb.TensorInfo(dtype=pb.DT_FLOAT, tensor_shape={"dim": [{"size": size} for size in sizes]})

    signature = pb.SignatureDef(inputs={"x": info([-1, -1])}, outputs={"y": info([-1, 2])})
    signatures = pb.SignatureDefMap(signature_def={"serving_default": signature})
    response = pb.GetModelMetadataResponse(model_spec={"name": "m"})
    response.metadata["signature_def"].value = signatures.SerializeToString()
    return response.SerializeToString()


if __name__ == "__main__":
    main()
