"""The asyncio client: tasks, loops, cancelled calls and forks."""

import asyncio
import os
import threading

import blocking
import grpc
import numpy as np
import pytest
from stock_serving import StockServing

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import AsyncClient

X = np.float32([[1, 2]])


@pytest.mark.slow
def test_1000_tasks_share_one_client(stock_server):
    serving = StockServing()
    target = stock_server(serving)

    async def ask():
        async with AsyncClient(target, timeout=60) as client:
            calls = (client.predict(np.full((1, 2), n)) for n in range(1000))
            return [answer["y"][0, 0] for answer in await asyncio.gather(*calls)]

    assert asyncio.run(ask()) == [2 * n for n in range(1000)]
    assert len(serving.received("GetModelMetadata")) <= 2


def test_an_asyncio_client_in_a_forked_process_says_what_to_do(stock_server):
    target = stock_server(StockServing())

    async def ask():
        async with AsyncClient(target, timeout=20) as client:
            await client.predict(X)

    asyncio.run(ask())
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(ask())
        except errors.ClientClosedError as error:
            os._exit(0 if "forked" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_an_asyncio_client_serves_one_event_loop_after_the_other(stock_server):
    client = AsyncClient(stock_server(StockServing()))
    for _ in range(2):
        assert asyncio.run(client.predict(X))["y"].tolist() == [[2, 4]]
    loop = blocking.Loop()
    loop.run(client.predict(X))
    with pytest.raises(errors.ClientClosedError, match="belongs to another event loop, which still runs"):
        asyncio.run(client.predict(X))
    loop.run(client.close())
    loop.stop()


def test_a_call_that_was_to_ask_for_all_and_is_cancelled_leaves_it_to_the_next(stock_server):
    asked, release = threading.Event(), threading.Event()

    def hold(rpc, request, context):
        if rpc == "GetModelMetadata" and not asked.is_set():
            asked.set()
            release.wait(60)

    target = stock_server(StockServing(before=hold))

    async def ask():
        async with AsyncClient(target, timeout=30) as client:
            first = asyncio.ensure_future(client.predict(X))
            await asyncio.to_thread(asked.wait, 20)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            return (await client.predict(X))["y"].tolist()

    try:
        assert asyncio.run(ask()) == [[2, 4]]
    finally:
        release.set()


def test_a_cancelled_task_is_cancelled(raw_server):
    arrived, release = threading.Event(), threading.Event()
    target = raw_server(lambda data, context: (arrived.set(), release.wait(60), b"")[-1])

    async def ask():
        async with AsyncClient(target) as client:
            task = asyncio.ensure_future(client.predict(X))
            await asyncio.to_thread(arrived.wait, 20)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    try:
        asyncio.run(ask())
    finally:
        release.set()


def test_rows_may_be_awaited(stock_server):
    target = stock_server(StockServing())

    async def rows():
        for number in range(5):
            await asyncio.sleep(0)
            yield [number, 1]

    async def ask():
        async with AsyncClient(target) as client:
            return [answer["y"][0] async for answer in client.predict_iter(rows(), batch_size=2)]

    assert asyncio.run(ask()) == [0, 2, 4, 6, 8]


def test_a_stream_that_is_left_cancels_what_is_under_way(stock_server):
    serving = StockServing()
    target = stock_server(serving)

    async def ask():
        async with AsyncClient(target) as client:
            stream = client.predict_iter(([n, n] for n in range(10**9)), batch_size=1)
            await anext(stream)
            await stream.aclose()

    asyncio.run(ask())
    assert len(serving.received("Predict")) <= 5


class AsyncCounting(grpc.aio.UnaryUnaryClientInterceptor):
    def __init__(self):
        self.seen = []

    async def intercept_unary_unary(self, continuation, details, request):
        self.seen.append((details.method.decode().rpartition("/")[2], type(request)))
        metadata = grpc.aio.Metadata(*(details.metadata or ()), ("x-seen", str(len(self.seen))))
        return await continuation(details._replace(metadata=metadata), request)


EXPECTED = [("GetModelMetadata", bytes), ("Predict", bytes), ("Predict", bytes)]


def test_interceptors_of_asyncio_see_every_call(stock_server):
    serving, interceptor = StockServing(), AsyncCounting()

    async def ask(target):
        async with AsyncClient(target, interceptors=[interceptor], max_batch_size=1) as client:
            return (await client.predict([[1, 2], [3, 4]]))["y"].tolist()

    assert asyncio.run(ask(stock_server(serving))) == [[2, 4], [6, 8]]
    assert interceptor.seen == EXPECTED
    assert sorted(call["x-seen"] for call in serving.metadata_of_calls) == ["1", "2", "3"]
