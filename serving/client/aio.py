"""The asyncio client: the methods of `Client`, each a coroutine, over an `AsyncTransport`."""

# Annotations stay unevaluated, so help() shows `Inputs` and not its expansion.
from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from typing import Any, Self, TypeVar

import numpy as np

from keras_selfattn.rows.text_spans import Span

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
from .operations import Row, check_rows, numbered_batches_async, open_stream, rows_in_a_call
from .search_settings import SearchSettings
from .server_ref import Version, check_version
from .steps import AsyncRunner, seconds
from .sync import BaseClient, Client
from .transport.aio_transport import AioTransport
from .transport.base import AsyncTransport
from .transport.sync_transport import TransportSettings

_F = TypeVar("_F", bound=Callable[..., Any])


def _documented_as(method: Callable[..., Any]) -> Callable[[_F], _F]:
    """Give a coroutine the docstring of the blocking method: they differ only in how they wait."""

    def documented(coroutine: _F) -> _F:
        coroutine.__doc__ = method.__doc__
        return coroutine

    return documented


class AsyncClient(BaseClient[AsyncTransport]):
    """Query a model from asyncio: the arguments and methods of `Client`, as coroutines.

    Any number of tasks may share a client. It belongs to the event loop that first uses it; once that loop
    has ended, another loop may use it. In a notebook `await` works at the top level.

    Args:
        target: as for `Client`, like all other arguments; `transport` is an AsyncTransport.

    Raises:
        InvalidInputError: as for `Client`.

    Example:
        async with AsyncClient("localhost:8500") as client:
            await client.wait_until_ready(30)
            print(await client.classify(["what a film"]))
            async for outputs in client.predict_iter(texts):
                print(outputs["label"])
    """

    @_documented_as(Client.predict)
    async def predict(
        self,
        inputs: Inputs,
        signature: str = DEFAULT_SIGNATURE,
        outputs: Sequence[str] | None = None,
        version: Version = None,
        timeout: float | None = None,
    ) -> Prediction:
        steps = self._operations.predict(inputs, signature, outputs, version)
        return await self._runner.run(steps, timeout)

    @_documented_as(Client.predict_iter)
    def predict_iter(
        self,
        rows: Iterable[Row] | AsyncIterable[Row],
        signature: str = DEFAULT_SIGNATURE,
        outputs: Sequence[str] | None = None,
        *,
        version: Version = None,
        batch_size: int | None = None,
        known: Signature | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[dict[str, Any]]:
        check_rows(rows)
        check_version(version)
        limit = self._runner.limit(timeout)
        size = rows_in_a_call(self._operations, batch_size)
        opening = open_stream(self._operations, signature, outputs, version, known)

        async def answers() -> AsyncIterator[dict[str, Any]]:
            stream = await self._runner.run(opening, timeout)
            batches = numbered_batches_async(rows, size)
            requests = (stream.request(batch) async for batch in batches)
            calls = self._runner.stream(requests, lambda: time.monotonic() + limit)
            # Closing this generator also closes `calls`; otherwise the event loop would do so later.
            async with contextlib.aclosing(calls):
                async for request, data in calls:
                    for outputs_of_row in stream.answers(request, data):
                        yield outputs_of_row

        return answers()

    @_documented_as(Client.classify)
    async def classify(
        self,
        values: Inputs,
        *,
        version: Version = None,
        timeout: float | None = None,
    ) -> list[Classification]:
        return await self._runner.run(self._tasks.classify(values, version), timeout)

    @_documented_as(Client.generate)
    async def generate(
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
        settings = SearchSettings(beams, max_new_tokens, length_penalty, prefix)
        return await self._runner.run(self._tasks.generate(texts, settings, version), timeout)

    @_documented_as(Client.rank)
    async def rank(
        self,
        query: str,
        documents: Iterable[str],
        k: int | None = None,
        *,
        label: str | None = None,
        version: Version = None,
        timeout: float | None = None,
    ) -> list[Ranked]:
        return await self._runner.run(self._tasks.rank(query, documents, k, label, version), timeout)

    @_documented_as(Client.label)
    async def label(
        self,
        values: Inputs,
        *,
        version: Version = None,
        timeout: float | None = None,
    ) -> list[Labelling]:
        return await self._runner.run(self._tasks.label(values, version), timeout)

    @_documented_as(Client.score)
    async def score(
        self,
        values: Inputs,
        *,
        version: Version = None,
        timeout: float | None = None,
    ) -> np.ndarray:
        return await self._runner.run(self._tasks.score(values, version), timeout)

    @_documented_as(Client.spans)
    async def spans(
        self,
        texts: Iterable[str],
        *,
        version: Version = None,
        timeout: float | None = None,
    ) -> list[list[Span]]:
        return await self._runner.run(self._tasks.spans(texts, version), timeout)

    @_documented_as(Client.explain)
    async def explain(
        self,
        texts: Sequence[str] | Sequence[tuple[str, str]],
        *,
        version: Version = None,
        timeout: float | None = None,
    ) -> list[Explanation]:
        return await self._runner.run(self._tasks.explain(texts, version), timeout)

    @_documented_as(Client.contributions)
    async def contributions(
        self,
        texts: Sequence[str] | Sequence[tuple[str, str]],
        *,
        version: Version = None,
        timeout: float | None = None,
    ) -> list[Contributions]:
        return await self._runner.run(self._tasks.contributions(texts, version), timeout)

    @_documented_as(Client.embed)
    async def embed(
        self,
        texts: Sequence[str],
        *,
        version: Version = None,
        timeout: float | None = None,
    ) -> np.ndarray:
        return await self._runner.run(self._tasks.embed(texts, version), timeout)

    @_documented_as(Client.metadata)
    async def metadata(self, version: Version = None, *, timeout: float | None = None) -> ModelMetadata:
        return await self._runner.run(self._operations.metadata_cache.ask(version), timeout)

    @_documented_as(Client.status)
    async def status(
        self, version: int | None = None, *, timeout: float | None = None
    ) -> list[VersionStatus]:
        return await self._runner.run(management.status(self._operations, version), timeout)

    @_documented_as(Client.versions)
    async def versions(self, *, timeout: float | None = None) -> list[int]:
        statuses = await self.status(timeout=timeout)
        return [version.version for version in statuses if version.available]

    @_documented_as(Client.reload)
    async def reload(self, config: str | Sequence[ModelConfig], timeout: float = 60.0) -> None:
        await self._runner.run(management.reload(self._operations, config), timeout)

    @_documented_as(Client.wait_until_ready)
    async def wait_until_ready(self, timeout: float, version: int | None = None) -> list[VersionStatus]:
        limit = seconds("timeout", timeout)
        steps = management.wait_until_ready(self._operations, version, limit, self._connections)
        return await self._runner.run(steps, limit)

    @_documented_as(Client.close)
    async def close(self) -> None:
        await self._runner.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _over_grpc(self, settings: TransportSettings) -> AsyncTransport:
        return AioTransport(settings)

    def _run_over(self, transport: AsyncTransport, timeout: float, concurrency: int) -> None:
        self._runner = AsyncRunner(transport, self._operations.server, timeout, concurrency)
