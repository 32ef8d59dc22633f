"""The clients of a soak: each sends requests on its own connection, and knows the right answers."""

import http.client
import json
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import grpc
import numpy as np

from benchmarks.serving_servers import HOST
from benchmarks.soak.tally import GRPC, REST, Failure, Tally
from benchmarks.soak.template import NAME
from keras_selfattn.serving.wire import codec
from keras_selfattn.serving.wire import messages_pb2 as pb

_PREDICT = "/tensorflow.serving.PredictionService/Predict"
_PATH = f"/v1/models/{NAME}:predict"
_MOST_ROWS = 8
_DEADLINE_SECONDS = 30.0
# A client reconnects from time to time, so that replacement workers get connections.
_CONNECTION_SECONDS = (5.0, 15.0)
# Without a pause, clients that cannot connect would only try to.
_PAUSE_AFTER_FAILURE_SECONDS = 0.1

# Returns True if a version may answer a request that began at a given time.
Judge = Callable[[int, float], bool]


class Lost(Exception):  # noqa: N818  not every failure
    """The connection broke."""


class Unconnected(Lost):
    """No connection could be made."""


class Refused(Exception):  # noqa: N818
    """The answer is an error."""


class Client(ABC):
    """One client, in its own thread.

    Args:
        number: the client's number.
        port: the server's port for the client's API.
        tally: counts its answers and failures.
        judge: returns True if a version may answer.
    """

    api = ""

    def __init__(self, number: int, port: int, tally: Tally, judge: Judge) -> None:
        self._number, self._port, self._tally, self._judge = number, port, tally, judge
        self._random = random.Random(number)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to send requests."""
        self._thread.start()

    def stop(self) -> None:
        """Make the client end after its current request."""
        self._ending.set()

    def join(self) -> None:
        """Wait until the client has ended."""
        self._thread.join()

    @abstractmethod
    def _connect(self) -> None: ...

    @abstractmethod
    def _disconnect(self) -> None: ...

    @abstractmethod
    def _ask(self, rows: Sequence[float]) -> tuple[list[int], list[float]]:
        """Return the versions, with that of the answer among them, and the y of each row.

        Raises:
            Lost: there was no answer; Unconnected if no request was sent.
            Refused: the answer is an error.
        """

    def _run(self) -> None:
        self._connect()
        renew = self._renewal()
        while not self._ending.is_set():
            if time.monotonic() >= renew:
                self._disconnect()
                self._connect()
                renew = self._renewal()
            self._ask_once()
        self._disconnect()

    def _renewal(self) -> float:
        return time.monotonic() + self._random.uniform(*_CONNECTION_SECONDS)

    def _ask_once(self) -> None:
        rows = [float(self._random.randrange(2**40)) for _ in range(self._random.randint(1, _MOST_ROWS))]
        began = time.monotonic()
        try:
            versions, values = self._ask(rows)
        except (Lost, Refused) as error:
            is_lost, is_unconnected = isinstance(error, Lost), isinstance(error, Unconnected)
            ended = time.monotonic()
            self._tally.failed(
                Failure(self.api, self._number, began, ended, is_lost, str(error), is_unconnected)
            )
            self._ending.wait(_PAUSE_AFTER_FAILURE_SECONDS)
            return
        except Exception as error:  # noqa: BLE001 - an unreadable answer is a wrong answer
            self._tally.was_wrong(f"{self.api}: {rows} was answered with what cannot be read: {error!r}")
            return
        version = versions[0]
        if {*versions} != {version} or values != [row + version for row in rows]:
            self._tally.was_wrong(f"{self.api}: {rows} was answered with {values} by versions {versions}")
        elif not self._judge(version, began):
            self._tally.was_wrong(f"{self.api}: version {version} answered, which is not there")
        else:
            self._tally.answered(self.api, time.monotonic() - began)


class GrpcClient(Client):
    """Send requests over gRPC; the answer's version must be the one that the model returns."""

    api = GRPC

    def _connect(self) -> None:
        # Otherwise all channels of this process would share one connection.
        own_connection = [("grpc.use_local_subchannel_pool", 1)]
        self._channel = grpc.insecure_channel(f"{HOST}:{self._port}", own_connection)
        self._predict = self._channel.unary_unary(_PREDICT)

    def _disconnect(self) -> None:
        self._channel.close()

    def _ask(self, rows: Sequence[float]) -> tuple[list[int], list[float]]:
        inputs = {"x": codec.encode(np.array(rows))}
        request = pb.PredictRequest(model_spec=pb.ModelSpec(name=NAME), inputs=inputs)
        try:
            data = self._predict(request.SerializeToString(), timeout=_DEADLINE_SECONDS)
        except grpc.RpcError as error:
            status: grpc.Call = error  # pyright: ignore[reportAssignmentType]
            words = f"{status.code().name}: {status.details()}"
            raise _kind(status.code(), words)(words) from None
        response = pb.PredictResponse.FromString(data)
        told = codec.decode(response.outputs["version"]).tolist()
        return [response.model_spec.version.value, *told], codec.decode(response.outputs["y"]).tolist()


def _kind(code: grpc.StatusCode, words: str) -> type[Exception]:
    if code is not grpc.StatusCode.UNAVAILABLE:
        return Refused
    return Unconnected if "failed to connect" in words else Lost


class RestClient(Client):
    """Send requests over REST, on a kept connection."""

    api = REST

    def _connect(self) -> None:
        self._connection = http.client.HTTPConnection(HOST, self._port, timeout=_DEADLINE_SECONDS)

    def _disconnect(self) -> None:
        self._connection.close()

    def _ask(self, rows: Sequence[float]) -> tuple[list[int], list[float]]:
        try:
            self._connection.request("POST", _PATH, json.dumps({"instances": rows}))
            response = self._connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            kinds = {TimeoutError: Refused, ConnectionRefusedError: Unconnected}
            raise kinds.get(type(error), Lost)(f"{type(error).__name__}: {error}") from None
        if response.status != http.client.OK:
            raise Refused(f"{response.status}: {body.decode(errors='replace')}")
        answers = json.loads(body)["predictions"]
        return [each["version"] for each in answers], [each["y"] for each in answers]


def clients(
    grpc_clients: int, rest_clients: int, ports: tuple[int, int], tally: Tally, judge: Judge
) -> list[Client]:
    """Return clients of each kind, not started yet; `ports` are those of gRPC and of REST."""
    over_grpc = [GrpcClient(number, ports[0], tally, judge) for number in range(grpc_clients)]
    over_rest = [
        RestClient(number, ports[1], tally, judge)
        for number in range(grpc_clients, grpc_clients + rest_clients)
    ]
    return [*over_grpc, *over_rest]
