"""The clients of a soak: each asks again and again, on its own connection, and knows the right answer."""

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
# A client connects anew from time to time, so that workers that were replaced get some.
_CONNECTION_SECONDS = (5.0, 15.0)
# Else clients that cannot connect do nothing but try.
_PAUSE_AFTER_FAILURE_SECONDS = 0.1

# Whether a version may answer a request that began then.
Judge = Callable[[int, float], bool]


class Lost(Exception):  # noqa: N818  not every failure
    """The connection broke."""


class Unconnected(Lost):
    """No connection could be made."""


class Refused(Exception):  # noqa: N818
    """There was an answer, and it is an error."""


class Client(ABC):
    """One client, in a thread of its own.

    Args:
        number: which it is.
        port: the server's, of its API.
        tally: counts what it meets.
        judge: returns whether a version may answer.
    """

    api = ""

    def __init__(self, number: int, port: int, tally: Tally, judge: Judge) -> None:
        self._number, self._port, self._tally, self._judge = number, port, tally, judge
        self._random = random.Random(number)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """Have it end after the request that it waits for."""
        self._ending.set()

    def join(self) -> None:
        """Wait until it has ended."""
        self._thread.join()

    @abstractmethod
    def _connect(self) -> None: ...

    @abstractmethod
    def _disconnect(self) -> None: ...

    @abstractmethod
    def _ask(self, rows: Sequence[float]) -> tuple[list[int], list[float]]:
        """Return the version and y of each row, the version of the answer among them.

        Raises:
            Lost: there was no answer; Unconnected if nobody was asked.
            Refused: it is an error.
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
        except Exception as error:  # noqa: BLE001 - whatever cannot be read is no right answer
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
    """Asks over gRPC; the answer's own version must be the one that the model gives."""

    api = GRPC

    def _connect(self) -> None:
        # Else all channels of this process share one connection.
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
    """Asks over REST, on a connection that is kept."""

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
    """Return so many clients of each kind, not begun yet; `ports` are those of gRPC and of REST."""
    over_grpc = [GrpcClient(number, ports[0], tally, judge) for number in range(grpc_clients)]
    over_rest = [
        RestClient(number, ports[1], tally, judge)
        for number in range(grpc_clients, grpc_clients + rest_clients)
    ]
    return [*over_grpc, *over_rest]
