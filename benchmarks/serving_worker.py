"""The clients of `bench serving`: closed loops, each over its own connection, in a separate process.

Each connection sends its next request when the last one is answered. Requests are bytes made beforehand, and
answers are not parsed during the measurement, so that the server has as much of the machine as possible.
"""

import asyncio
import json
import math
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import grpc
import grpc.aio
import numpy as np

from benchmarks.peers.served_model import NAME, texts
from benchmarks.usage import anonymous_bytes, cpu_seconds
from benchmarks.worker import serve
from keras_selfattn.serving.wire import codec, message_bytes
from keras_selfattn.serving.wire import messages_pb2 as pb
from keras_selfattn.serving.wire import open_inference_pb2 as oip
from keras_selfattn.serving.wire import open_inference_tensors as tensors

# Channels to one address would share a connection. One to several addresses asks them in turns.
_OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.lb_policy_name", "round_robin")]
_TIMEOUT = 30.0  # seconds, of one request
_PAUSE = 0.05  # seconds, after a failure
_LARGEST_REASON = 200  # characters


class RequestError(Exception):
    """A request had no good answer; the message is the reason."""


class Connection(Protocol):
    """One connection to a server."""

    async def ask(self, number: int) -> bytes:
        """Return the answer to one of the prepared requests.

        Raises:
            RequestError: there is no answer, or it is an error.
        """
        ...

    async def close(self) -> None:
        """End the connection."""
        ...


class GrpcConnection:
    """A channel that carries bytes."""

    _method = "/tensorflow.serving.PredictionService/Predict"

    def __init__(self, address: str, _path: str) -> None:
        self._channel = grpc.aio.insecure_channel(address, _OPTIONS)
        self._call: Any = self._channel.unary_unary(self._method)
        self._requests = [self._request(text) for text in texts()]

    async def ask(self, number: int) -> bytes:
        try:
            return await self._call(self._requests[number % len(self._requests)], timeout=_TIMEOUT)
        except grpc.aio.AioRpcError as error:
            raise RequestError(f"{error.code().name}: {error.details()}") from None

    async def close(self) -> None:
        await self._channel.close()

    @staticmethod
    def probabilities(answer: bytes) -> list[float]:
        """Return what the answer says of the request's text."""
        return message_bytes.predict_response(answer)[0]["probabilities"][0].tolist()

    @staticmethod
    def _request(text: str) -> bytes:
        inputs = {"text": codec.encode_fields(np.array([text.encode()], dtype=object))}
        return pb.PredictRequest(model_spec={"name": NAME}, inputs=inputs).SerializeToString()


class WritingConnection(GrpcConnection):
    """Texts of one's own, to a model that answers them with texts."""

    def __init__(self, address: str, model: str, asked: Sequence[str]) -> None:
        super().__init__(address, "")
        self._requests = [self._of_model(model, text) for text in asked]

    @staticmethod
    def text(answer: bytes) -> str:
        """Return what the model has written."""
        return message_bytes.predict_response(answer)[0]["text"][0].decode()

    @staticmethod
    def _of_model(model: str, text: str) -> bytes:
        inputs = {"text": codec.encode_fields(np.array([text.encode()], dtype=object))}
        return pb.PredictRequest(model_spec={"name": model}, inputs=inputs).SerializeToString()


class OpenInferenceConnection(GrpcConnection):
    """The same text by the Open Inference Protocol."""

    _method = "/inference.GRPCInferenceService/ModelInfer"

    @staticmethod
    def probabilities(answer: bytes) -> list[float]:
        response = oip.ModelInferResponse.FromString(answer)
        place = [output.name for output in response.outputs].index("probabilities")
        output, data = response.outputs[place], response.raw_output_contents[place]
        return tensors.from_raw(output.datatype, output.shape, data)[0].tolist()

    @staticmethod
    def _request(text: str) -> bytes:
        data = tensors.to_raw(np.array([text.encode()], dtype=object))
        request = oip.ModelInferRequest(model_name=NAME, raw_input_contents=[data])
        request.inputs.add(name="text", datatype="BYTES", shape=[1])
        return request.SerializeToString()


class HttpConnection(asyncio.Protocol):
    """A kept connection of HTTP/1.1. Answers have a Content-Length, as those of all these servers do."""

    def __init__(self, address: str, path: str) -> None:
        self._address = address
        self._requests = [self._request(address, path, text) for text in texts()]
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._answer: asyncio.Future[bytes] | None = None

    async def ask(self, number: int) -> bytes:
        try:
            async with asyncio.timeout(_TIMEOUT):
                if self._transport is None:
                    host, _, port = self._address.rpartition(":")
                    await asyncio.get_running_loop().create_connection(lambda: self, host, int(port))
                assert self._transport is not None
                self._received = b""
                self._answer = asyncio.get_running_loop().create_future()
                self._transport.write(self._requests[number % len(self._requests)])
                return await self._answer
        except (OSError, TimeoutError) as error:
            await self.close()
            raise RequestError(str(error) or "no answer in time") from None

    async def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if separator and len(body) >= _content_length(head) and self._answer and not self._answer.done():
            if b" 200 " in head.partition(b"\r\n")[0]:
                self._answer.set_result(body)
            else:
                self._answer.set_exception(RequestError(_shown(head.partition(b"\r\n")[0] + b": " + body)))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._answer and not self._answer.done():
            self._answer.set_exception(RequestError("the server closed the connection"))

    @staticmethod
    def probabilities(answer: bytes) -> list[float]:
        """Return what the answer says of the request's text."""
        (row,) = json.loads(answer)["predictions"]
        return row["probabilities"] if isinstance(row, dict) else row

    @staticmethod
    def _body(text: str) -> dict[str, Any]:
        return {"instances": [text]}

    def _request(self, address: str, path: str, text: str) -> bytes:
        body = json.dumps(self._body(text))
        head = f"POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


class OpenInferenceHttpConnection(HttpConnection):
    """The same text by the Open Inference Protocol, in JSON."""

    @staticmethod
    def probabilities(answer: bytes) -> list[float]:
        outputs = {output["name"]: output["data"] for output in json.loads(answer)["outputs"]}
        return outputs["probabilities"]

    @staticmethod
    def _body(text: str) -> dict[str, Any]:
        return {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": [text]}]}


CONNECTIONS: dict[str, Any] = {
    "grpc": GrpcConnection,
    "http": HttpConnection,
    "open inference, grpc": OpenInferenceConnection,
    "open inference, http": OpenInferenceHttpConnection,
}


@dataclass
class Taken:
    """Observations of the loops: the seconds of each good answer, and the reason for each failure."""

    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


class Session:
    """The worker's calls for its parent; one public method for each request.

    Args:
        runner: the event loop that the clients run in.
    """

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner

    def check(self, protocol: str, address: str, path: str) -> dict[str, Any]:
        """Answer with the probabilities that a server has for the first text."""
        answers: list[bytes] = []

        async def ask(connections: Sequence[Connection]) -> None:
            answers.append(await connections[0].ask(0))

        self._connected(protocol, address, path, 1, ask)
        return {"probabilities": CONNECTIONS[protocol].probabilities(answers[0])}

    def load(
        self, protocol: str, address: str, path: str, connections: int, seconds: float, server: int
    ) -> dict[str, Any]:
        """Warm a server up for half the time, then measure it; answer with figures and failures.

        Args:
            protocol: a key of CONNECTIONS.
            address: "host:port".
            path: the path of requests over HTTP.
            connections: the number of simultaneous connections.
            seconds: the seconds of the measurement.
            server: the number of the server's process.
        """
        found: dict[str, Any] = {}

        async def measure(opened: Sequence[Connection]) -> None:
            await _loops(opened, seconds / 2)
            cpu, own, start = cpu_seconds(server), time.process_time(), time.perf_counter()
            taken = await _loops(opened, seconds)
            passed, own = time.perf_counter() - start, time.process_time() - own
            found.update(_figures(taken, passed, cpu_seconds(server) - cpu, own))
            found["figures"]["memory MB"] = anonymous_bytes(server) / 1e6

        self._connected(protocol, address, path, connections, measure)
        return found

    def written(self, address: str, model: str, asked: Sequence[str]) -> dict[str, Any]:
        """Answer with what a model writes for texts."""

        async def write() -> list[str]:
            connection = WritingConnection(address, model, asked)
            try:
                return [connection.text(await connection.ask(number)) for number in range(len(asked))]
            finally:
                await connection.close()

        return {"texts": self._runner.run(write())}

    def beside(
        self, address: str, model: str, groups: Sequence[dict[str, Any]], seconds: float
    ) -> dict[str, Any]:
        """Warm a server up for half the time, then measure groups of clients that ask at the same time.

        Args:
            address: "host:port".
            model: the name of a model that answers texts with texts.
            groups: of clients; the `texts` that each asks for, in turns, and the number of `connections`.
            seconds: the seconds of the measurement.
        """

        async def measure() -> list[dict[str, float]]:
            opened = [
                [WritingConnection(address, model, group["texts"]) for _ in range(group["connections"])]
                for group in groups
            ]
            try:
                await asyncio.gather(*(_loops(each, seconds / 2) for each in opened))
                return await asyncio.gather(*(_latencies(each, seconds) for each in opened))
            finally:
                for connection in (each for group in opened for each in group):
                    await connection.close()

        return {"groups": self._runner.run(measure())}

    def _connected(
        self,
        protocol: str,
        address: str,
        path: str,
        count: int,
        action: Callable[[Sequence[Connection]], Awaitable[None]],
    ) -> None:
        async def run() -> None:
            opened = [CONNECTIONS[protocol](address, path) for _ in range(count)]
            try:
                await action(opened)
            finally:
                for connection in opened:
                    await connection.close()

        self._runner.run(run())


async def _loops(connections: Sequence[Connection], seconds: float) -> Taken:
    taken = Taken()
    end = time.perf_counter() + seconds
    await asyncio.gather(
        *(_loop(connection, place, end, taken) for place, connection in enumerate(connections))
    )
    return taken


async def _latencies(connections: Sequence[Connection], seconds: float) -> dict[str, float]:
    start = time.perf_counter()
    taken = await _loops(connections, seconds)
    passed = time.perf_counter() - start
    if not taken.seconds:
        raise RuntimeError(f"not one request was answered; the first: {taken.failures[0]}")
    return {
        "requests/s": len(taken.seconds) / passed,
        **{f"p{100 * share:g} ms": 1e3 * quantile(taken.seconds, share) for share in (0.5, 0.95)},
        "failures": len(taken.failures),
    }


async def _loop(connection: Connection, number: int, end: float, taken: Taken) -> None:
    """Send requests until `end`; at least one, however slow the server."""
    while True:
        start = time.perf_counter()
        try:
            await connection.ask(number)
            taken.seconds.append(time.perf_counter() - start)
        except RequestError as error:
            taken.failures.append(str(error)[:_LARGEST_REASON])
            await asyncio.sleep(_PAUSE)
        if time.perf_counter() >= end:
            return
        number += 1


def _figures(taken: Taken, passed: float, server_cpu: float, client_cpu: float) -> dict[str, Any]:
    reason = taken.failures[0] if taken.failures else ""
    if not taken.seconds:
        raise RuntimeError(f"not one request was answered; the first: {reason}")
    count = len(taken.seconds)
    quantiles = {f"p{100 * share:g} ms": 1e3 * quantile(taken.seconds, share) for share in (0.5, 0.99, 0.999)}
    figures = {
        "requests/s": count / passed,
        **quantiles,
        "cpu ms": 1e3 * server_cpu / count,
        "client cpu ms": 1e3 * client_cpu / count,
        "failures": len(taken.failures),
    }
    return {"figures": figures, "reason": reason}


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least a `share` of the values do not exceed.

    Example:

        >>> quantile([4, 1, 3, 2], 0.5), quantile([4, 1, 3, 2], 0.99)
        (2, 4)
    """
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


def _shown(data: bytes) -> str:
    return " ".join(data.decode(errors="replace").split())


def main() -> None:
    """Keep other output apart from the answers, then serve the parent."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with asyncio.Runner() as runner:
        serve(Session(runner), sys.stdin, answers)


if __name__ == "__main__":
    main()
