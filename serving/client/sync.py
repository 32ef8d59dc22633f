"""The synchronous client: the documented methods, each of which runs one operation over a `Transport`."""

# Annotations stay unevaluated, so help() shows `Inputs` and not its expansion.
from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, Self, TypeVar

import grpc
import numpy as np

from keras_selfattn.rows.text_spans import Span

from ..errors import InvalidInputError
from ..wire.signature_names import DEFAULT_SIGNATURE
from . import management
from .answers import (
    Classification,
    Contributions,
    Explanation,
    Generated,
    Labelling,
    Prediction,
    Ranked,
    VersionStatus,
)
from .inputs import Inputs
from .management import ModelConfig
from .model_metadata import ModelMetadata, Signature
from .operations import Operations, Row, check_rows, numbered_batches, open_stream, rows_in_a_call
from .search_settings import SearchSettings
from .server_ref import ServerRef, Version, check_version
from .steps import SyncRunner, at_least_one, seconds
from .task_calls import TaskCalls
from .transport.addresses import Targets, proxy_advice
from .transport.base import AsyncTransport, Transport
from .transport.connection_settings import TLS, ConnectionSettings, MetadataSource
from .transport.sync_transport import SyncTransport, TransportSettings

AnyTransport = TypeVar("AnyTransport", Transport, AsyncTransport)


class BaseClient(Generic[AnyTransport]):
    """Base of the clients; see Client for the arguments."""

    def __init__(
        self,
        target: str | Sequence[str] | None = None,
        model: str = "default",
        *,
        timeout: float = 10.0,
        max_batch_size: int | None = None,
        concurrency: int = 4,
        connections: int = 1,
        wait_for_ready: bool = False,
        tls: TLS | grpc.ChannelCredentials | None = None,
        insecure: bool = False,
        metadata: MetadataSource | None = None,
        credentials: grpc.CallCredentials | None = None,
        interceptors: Sequence[Any] = (),
        transport: AnyTransport | None = None,
    ):
        count = at_least_one("connections", connections)
        if transport is None:
            connection = ConnectionSettings(
                Targets.of(target), tls, insecure, metadata, credentials, interceptors, count
            )
            encrypted, proxy = tls is not None, proxy_advice(connection.targets)
            server = ServerRef(str(connection.targets), model, encrypted, proxy)
            over = self._over_grpc(TransportSettings(server, connection, bool(wait_for_ready)))
        else:
            if any((count > 1, wait_for_ready, tls, insecure, metadata, credentials, interceptors)):
                raise InvalidInputError(
                    "transport= carries the calls itself. Leave out what is for connections with gRPC: "
                    "connections=, wait_for_ready=, tls=, insecure=, metadata=, credentials=, interceptors="
                )
            server = ServerRef(type(transport).__name__ if target is None else str(Targets.of(target)), model)
            over = transport
        size = None if max_batch_size is None else at_least_one("max_batch_size", max_batch_size)
        self._operations = Operations(server, size)
        self._tasks = TaskCalls(self._operations)
        self._connections, self._timeout = count, timeout
        self._run_over(over, timeout, concurrency)

    def __repr__(self) -> str:
        server = self._operations.server
        return f"{type(self).__name__}({server.target!r}, {server.model!r}, timeout={self._timeout:g})"

    def _over_grpc(self, settings: TransportSettings) -> AnyTransport:
        """Return the transport of connections with gRPC; nothing is sent yet."""
        raise NotImplementedError

    def _run_over(self, transport: AnyTransport, timeout: float, concurrency: int) -> None:
        """Keep what runs operations."""
        raise NotImplementedError


class Client(BaseClient[Transport]):
    """Query a model on servers with TensorFlow Serving's gRPC API: this project's, or TensorFlow Serving.

    It needs grpcio, protobuf and NumPy, not TensorFlow. Several threads can use it at once, and after a fork
    both parent and child. Inputs are checked against the served signature before they are sent; the signature
    is requested once and cached until the version changes.

    Args:
        target: the server's address, "host:port" or "unix:/path"; or a list of "host:port". Calls are spread
            over the list, without servers that are down or not healthy. Only `transport` can replace it.
        model: the name the model is served under.
        timeout: seconds each call may take, retries included, unless the call says otherwise. The default,
            10, suits a model that answers people. There is always a limit.
        max_batch_size: the most rows to send at once. Larger batches are sent as several calls and returned
            as one answer of one version. None sends every batch whole.
        concurrency: the number of simultaneous calls of one large batch. Four keep two servers busy.
        connections: the number of connections to each target. Calls use them in turns, and a retry uses
            another one. One connection carries any number of calls at once; more are for a server whose
            processes share a port, where each connection stays with one process.
        wait_for_ready: True makes calls wait, until their deadline, for a server that is not there. Otherwise
            they are retried for about 1.5 seconds.
        tls: the encryption, a TLS or gRPC's ChannelCredentials. Required for servers on other machines,
            unless `insecure`.
        insecure: True to send in clear text to other machines.
        metadata: a dict sent with every call, such as an API key, or a function that returns it for each
            call.
        credentials: gRPC's CallCredentials, such as a refreshed token; they need `tls`.
        interceptors: gRPC's client interceptors; they see messages as bytes.
        transport: carries the calls instead of gRPC, such as a FunctionTransport in tests; see Transport.

    Raises:
        InvalidInputError: an argument is of the wrong kind, or would use clear text without `insecure`.

    Example:
        with Client("localhost:8500") as client:
            client.wait_until_ready(30)
            client.classify(["what a film"])[0].label  # "pos"
    """

    def predict(
        self,
        inputs: Inputs,
        signature: str = DEFAULT_SIGNATURE,
        outputs: Sequence[str] | None = None,
        version: Version = None,
        timeout: float | None = None,
    ) -> Prediction:
        """The model's outputs for a batch of inputs.

        Args:
            inputs: a mapping from input names to arrays, pandas Series, numbers, strings or nested lists of
                them; or one such value alone if the signature has exactly one input; or a list of pairs,
                `(text, text_pair)`, if these are its inputs. A value is converted to
                the served dtype if nothing is lost, and floats are rounded to narrower ones; anything else
                is an error.
            signature: the signature to call.
            outputs: names of the outputs to return; None for all.
            version: a version's number, or a label of one, such as `Label("stable")`; None for the latest.
            timeout: seconds for the whole call, retries included; None for the client's own.

        Returns:
            A Prediction: each output's array by name, and the version that answered. A string output is an
            object array of `str` if all of it is valid UTF-8, else of `bytes`. Arrays may be read-only views
            of the answer: copy one to write to it.

        Raises:
            InvalidInputError: inputs or outputs do not fit the signature; nothing was sent.
            ServingError: the subclass for the failure; see `keras_selfattn.serving.errors`.

        Example:
            client.predict({"x": np.float32([1, 2])})["y"]  # array([2.5, 3. ], dtype=float32)
        """
        return self._runner.run(self._operations.predict(inputs, signature, outputs, version), timeout)

    def predict_iter(
        self,
        rows: Iterable[Row],
        signature: str = DEFAULT_SIGNATURE,
        outputs: Sequence[str] | None = None,
        *,
        version: Version = None,
        batch_size: int | None = None,
        known: Signature | None = None,
        timeout: float | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yield the outputs for any number of rows, one by one, with a few batches in memory.

        Args:
            rows: single rows, not batches: each a value of the only input, or a mapping from input names to
                values. The client's `concurrency` is the number of batches read ahead of the answers: use 1
                for rows that depend on earlier answers.
            signature: as for `predict`.
            outputs: as for `predict`.
            version: as for `predict`.
            batch_size: rows in a call, at most the client's max_batch_size, if it has one. None for that
                maximum, or for 64.
            known: the signature as `metadata()` has just described it, if the rows were read by it; it is
                then not requested again. None requests it.
            timeout: seconds for each call; None for the client's own.

        Returns:
            An iterator over each row's outputs by name, in order.

        Raises:
            ServingError: as for `predict`, while iterating; its `rows` are those of the failed call.

        Example:
            for outputs in client.predict_iter(open("texts.txt")):
                print(outputs["label"])
        """
        check_rows(rows)
        check_version(version)
        limit = self._runner.limit(timeout)
        size = rows_in_a_call(self._operations, batch_size)
        stream = self._runner.run(open_stream(self._operations, signature, outputs, version, known), timeout)
        requests = map(stream.request, numbered_batches(rows, size))

        def answers() -> Iterator[dict[str, Any]]:
            for request, data in self._runner.stream(requests, lambda: time.monotonic() + limit):
                yield from stream.answers(request, data)

        return answers()

    def classify(
        self,
        values: Inputs,
        *,
        version: Version = None,
        timeout: float | None = None,
    ) -> list[Classification]:
        """The label of each row, its score, and the scores of all labels.

        Args:
            values: a list of texts, of pairs `(text, text_pair)` for a model of pairs, or other inputs of
                the model, as for `predict`.
            version: as for `predict`.
            timeout: as for `predict`.

        Returns:
            One Classification for each row, in order.

        Raises:
            FailedPreconditionError: the model has no outputs `label` and `score`.
            ServingError: as for `predict`.

        Example:
            client.classify(["what a film"])[0].scores  # {"neg": 0.02, "pos": 0.98}
        """
        return self._runner.run(self._tasks.classify(values, version), timeout)

    def generate(
        self,
        texts: Iterable[str],
        *,
        beams: int | None = None,
        max_new_tokens: int | None = None,
        length_penalty: float | None = None,
        prefix: str | Sequence[str] | None = None,
        version: Version = None,
        timeout: float | None = None,
    ) -> list[Generated]:
        """The text that a model writes for each text, such as its translation.

        The texts are sent in calls of 64 rows, or the client's max_batch_size, and of about 1 MiB, side by
        side. All are answered by one version. `predict_iter` asks any number of rows, in bounded memory.

        Args:
            texts: a list of str, or of bytes in UTF-8.
            beams: candidates that the search follows, at most the model's own number; None for that, as of
                the next two.
            max_new_tokens: the most symbols of an answer, its end included, at most the model's own.
            length_penalty: a candidate's score is divided by its length to the power of this, from 0 to 5.
            prefix: the beginning of the answers: a text for all, or a list with one for each, "" for none.
            version: as for `predict`.
            timeout: as for `predict`: for all calls together. The time grows with the answers' lengths.

        Returns:
            One Generated for each text, in order.

        Raises:
            FailedPreconditionError: the model writes no texts; the message names the call for what it does.
                Or it is an export of an earlier version, which takes no settings.
            InvalidArgumentError: a setting is out of the model's range, or no answer can begin with a prefix.
            ServingError: as for `predict`.

        Example:
            client.generate(["3 March 2021"])[0].text  # "2021-03-03"
            client.generate(["3 March"], prefix="1999-")[0].text  # "1999-03-03"
        """
        settings = SearchSettings(beams, max_new_tokens, length_penalty, prefix)
        return self._runner.run(self._tasks.generate(texts, settings, version), timeout)

    def rank(
        self,
        query: str,
        documents: Iterable[str],
        k: int | None = None,
        *,
        label: str | None = None,
        version: Version = None,
        timeout: float | None = None,
    ) -> list[Ranked]:
        """The documents in the order of their scores with a query, the best first: of a model of pairs.

        The pairs (query, document) are sent in calls of 64 rows, or the client's max_batch_size, and of about
        1 MiB, side by side. All are answered by one version.

        Args:
            query: the first text of each pair.
            documents: the second ones, str each, in any order. None of them is an empty answer.
            k: the most documents to return; None for all.
            label: of a classifier, the label whose probability is the score; None for a model that answers
                with one number.
            version: as for `predict`.
            timeout: as for `predict`: for all calls together.

        Returns:
            A Ranked for each document: its place among those given, its text, its score. Documents of equal
            score stay in their order.

        Raises:
            InvalidInputError: query, documents or k are none; the model takes no pairs; it is a classifier,
                and `label` is none of its labels, which the message lists; its rows have several labels.
            FailedPreconditionError: the model answers with neither a label nor one number.
            ServingError: as for `predict`.

        Example:
            client.rank("when does it open?", ["It opens at nine.", "It is red."], k=1)[0].index  # 0
        """
        return self._runner.run(self._tasks.rank(query, documents, k, label, version), timeout)

    def label(
        self,
        values: Inputs,
        *,
        version: Version = None,
        timeout: float | None = None,
    ) -> list[Labelling]:
        """The label of each position of each row.

        Args:
            values: a list of rows of tokens, which may differ in length, or other inputs of the model, as for
                `predict`.
            version: as for `predict`.
            timeout: as for `predict`.

        Returns:
            One Labelling for each row, in order, without its padding.

        Raises:
            FailedPreconditionError: the model has no outputs `label` and `score` with positions.
            ServingError: as for `predict`.

        Example:
            client.label([["the", "film"], ["yes"]])[0].labels  # ["DET", "NOUN"]
        """
        return self._runner.run(self._tasks.label(values, version), timeout)

    def score(
        self,
        values: Inputs,
        *,
        version: Version = None,
        timeout: float | None = None,
    ) -> np.ndarray:
        """The score of each text, of a served `TextRegressor`, or the number of another row.

        Args:
            values: a list of str, or other inputs of a model of numbers, as for `predict`.
            version: as for `predict`.
            timeout: as for `predict`.

        Returns:
            float32 `[rows]`, in the order of the rows; `[rows, numbers]` of a model with several a row. If
            these have names, such as those of the columns of its training, it is an array `[rows]` with a
            field for each: `scores["style"]`, float32 `[rows]`, and `scores.dtype.names`.

        Raises:
            FailedPreconditionError: the model has no output `predictions`, such as a classifier.
            ServingError: as for `predict`.

        Example:
            client.score(["what a film", "a bore"])  # array([4.6, 1.2], dtype=float32)
        """
        return self._runner.run(self._tasks.score(values, version), timeout)

    def spans(
        self,
        texts: Iterable[str],
        *,
        version: Version = None,
        timeout: float | None = None,
    ) -> list[list[Span]]:
        """The spans that a labeller of tokens finds in raw texts, such as names, by their characters.

        Args:
            texts: a list of str, as they are: the model splits them into tokens.
            version: as for `predict`.
            timeout: as for `predict`.

        Returns:
            For each text a list of its Spans, in order; `text[span.start : span.end] == span.text`.

        Raises:
            FailedPreconditionError: the model has no signature `spans`.
            ServingError: as for `predict`.

        Example:
            client.spans(["Ada wrote."])[0]  # [Span(text="Ada", label="PER", start=0, end=3, score=0.98)]
        """
        return self._runner.run(self._tasks.spans(texts, version), timeout)

    def explain(
        self,
        texts: Sequence[str] | Sequence[tuple[str, str]],
        *,
        version: Version = None,
        timeout: float | None = None,
    ) -> list[Explanation]:
        """The tokens of each text, and the attention weights between them.

        Args:
            texts: a list of str; of a model of pairs, of pairs `(text, text_pair)`.
            version: as for `predict`.
            timeout: as for `predict`.

        Returns:
            One Explanation for each text, in order. Of a model that writes texts it is the attention from the
            pieces of its answer, `target_tokens`, to those of the text.

        Raises:
            FailedPreconditionError: the model has no signature `explain`.
            ServingError: as for `predict`.

        Example:
            client.explain(["what a film"])[0].weights.shape  # (layers, heads, 3, 3)
        """
        return self._runner.run(self._tasks.explain(texts, version), timeout)

    def contributions(
        self,
        texts: Sequence[str] | Sequence[tuple[str, str]],
        *,
        version: Version = None,
        timeout: float | None = None,
    ) -> list[Contributions]:
        """The n-grams of each text that count most, and what they add to the logits: the exact wide path.

        Args:
            texts: a list of str; of a model of pairs, of pairs `(text, text_pair)`.
            version: as for `predict`.
            timeout: as for `predict`.

        Returns:
            One Contributions for each text, in order.

        Raises:
            FailedPreconditionError: the model has no signature `contributions`: no wide path.
            ServingError: as for `predict`.

        Example:
            client.contributions(["what a film"])[0].ngrams  # ["what a", "film", ...]
        """
        return self._runner.run(self._tasks.contributions(texts, version), timeout)

    def embed(
        self,
        texts: Sequence[str],
        *,
        version: Version = None,
        timeout: float | None = None,
    ) -> np.ndarray:
        """The vector of each text, of a served `TextEncoder`.

        Args:
            texts: a list of str.
            version: as for `predict`.
            timeout: as for `predict`.

        Returns:
            float32 `[rows, width]`, in the order of the texts.

        Raises:
            FailedPreconditionError: the model has no signature `embed`.
            ServingError: as for `predict`.

        Example:
            client.embed(["what a film", "a good book"]).shape  # (2, 384)
        """
        return self._runner.run(self._tasks.embed(texts, version), timeout)

    def metadata(self, version: Version = None, *, timeout: float | None = None) -> ModelMetadata:
        """The signatures of a version: names, dtypes and shapes of inputs and outputs.

        Args:
            version: as for `predict`.
            timeout: as for `predict`.

        Returns:
            A ModelMetadata; its repr is a readable listing.

        Raises:
            ServingError: as for `predict`.

        Example:
            client.metadata().signatures["serving_default"].inputs  # {"text": string [None]}
        """
        return self._runner.run(self._operations.metadata_cache.ask(version), timeout)

    def status(self, version: int | None = None, *, timeout: float | None = None) -> list[VersionStatus]:
        """The state of every version of the model that the server knows, newest first.

        Args:
            version: a version's number for only that one; None for all.
            timeout: as for `predict`.

        Returns:
            One VersionStatus for each.

        Raises:
            NotFoundError: the server knows no such model.
            ServingError: as for `predict`.

        Example:
            client.status()[0].state  # "AVAILABLE"
        """
        return self._runner.run(management.status(self._operations, version), timeout)

    def versions(self, *, timeout: float | None = None) -> list[int]:
        """The numbers of the versions that answer, newest first.

        Args:
            timeout: as for `predict`.

        Returns:
            The numbers; empty while none is available.

        Raises:
            ServingError: as for `status`.

        Example:
            client.versions()  # [3]
        """
        return [version.version for version in self.status(timeout=timeout) if version.available]

    def reload(self, config: str | Sequence[ModelConfig], timeout: float = 60.0) -> None:
        """Make the server serve the listed models and no others. Return once they are available.

        Args:
            config: the models; or the text of a --model_config_file, a ModelServerConfig.
            timeout: seconds for all of them to load. The default, 60, allows for reading them from disk.

        Raises:
            InvalidInputError: the configuration is invalid; nothing was sent.
            ServingError: as for `predict`.

        Example:
            client.reload([ModelConfig("film", "/models/film"), ModelConfig("names", "/models/names")])
        """
        self._runner.run(management.reload(self._operations, config), timeout)

    def wait_until_ready(self, timeout: float, version: int | None = None) -> list[VersionStatus]:
        """Wait until the server is there and a version of the model is available, on each connection.

        Args:
            timeout: seconds to wait at most.
            version: the version to wait for; None for any.

        Returns:
            The state of every version, or of the given one.

        Raises:
            DeadlineExceededError: none was available in time; the message has the last reason.
            ServingError: waiting will not help, for example because the server does not know the call.

        Example:
            client.wait_until_ready(30)
        """
        limit = seconds("timeout", timeout)
        steps = management.wait_until_ready(self._operations, version, limit, self._connections)
        return self._runner.run(steps, limit)

    def close(self) -> None:
        """Close all connections. Calls in other threads end with CancelledError; closing twice is fine."""
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _over_grpc(self, settings: TransportSettings) -> Transport:
        return SyncTransport(settings)

    def _run_over(self, transport: Transport, timeout: float, concurrency: int) -> None:
        self._runner = SyncRunner(transport, self._operations.server, timeout, concurrency)
