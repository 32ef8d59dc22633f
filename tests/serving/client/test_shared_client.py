"""One client for many: threads, tasks, forks, event loops, ten thousand calls."""

import asyncio
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from stock_serving import StockServing

from keras_selfattn.serving.client import AsyncClient, Client
from keras_selfattn.serving.client.transport import aio_transport

X = np.float32([[1, 2]])


@pytest.mark.slow
def test_64_threads_share_one_client(stock_server, connect):
    serving = StockServing()
    client = connect(stock_server(serving), timeout=60)
    with ThreadPoolExecutor(64) as executor:
        answers = list(executor.map(lambda n: client.predict(np.full((1, 2), n))["y"][0, 0], range(1000)))
    assert answers == [2 * n for n in range(1000)]
    assert len(serving.received("GetModelMetadata")) <= 2


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_ten_thousand_calls_leave_nothing_behind(raw_server, kind):
    # In a process of its own, so that nothing but the client is measured; the server is in this one.
    answer = (Path(__file__).parents[1] / "stock_messages" / "predict_response.bin").read_bytes()
    target = raw_server(lambda data, context: answer, without="GetModelMetadata")
    script = f"""
import contextlib, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import blocking, numpy as np
from usage import usage
with contextlib.ExitStack() as stack:
    client = blocking.maker({kind!r}, stack)({target!r})
    def ask(times):
        for number in range(times):
            client.predict({{"x": np.float32([number])}})
    ask(1000)
    before = usage()
    ask(10_000)
    print(*before, *usage())
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    before, threads, files, after, threads_after, files_after = map(int, result.stdout.split())
    assert (threads_after, files_after) == (threads, files)
    assert after - before < 1024  # KiB; a leak of 200 bytes a call would be twice that


def test_a_client_works_on_in_a_forked_process(stock_server):
    client = Client(stock_server(StockServing()))
    assert client.predict(X)["y"].tolist() == [[2, 4]]
    child = os.fork()
    if child == 0:
        good = client.predict(X, timeout=20)["y"].tolist() == [[2, 4]]
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert client.predict(X)["y"].tolist() == [[2, 4]]
    client.close()


def test_a_client_that_blocks_may_be_used_where_a_loop_runs(stock_server):
    target = stock_server(StockServing())

    async def cell():  # as in a notebook
        with Client(target) as client:
            return client.predict(X)["y"].tolist()

    assert asyncio.run(cell()) == [[2, 4]]


def test_tasks_that_come_first_together_make_one_channel(stock_server):
    made = []
    original = aio_transport._async_channel

    async def ask(target):
        async with AsyncClient(target, timeout=30) as client:
            await asyncio.gather(*(client.predict(X) for _ in range(50)))

    try:
        aio_transport._async_channel = lambda *args: made.append(args) or original(*args)
        asyncio.run(ask(stock_server(StockServing())))
    finally:
        aio_transport._async_channel = original
    assert len(made) == 1


def test_both_clients_have_the_same_methods_with_the_same_arguments_and_words():
    import inspect

    public = [name for name in vars(Client) if not name.startswith("_")]
    assert public == [name for name in vars(AsyncClient) if not name.startswith("_")]
    for name in public:
        ours, theirs = getattr(Client, name), getattr(AsyncClient, name)
        assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)
        assert ours.__doc__ == theirs.__doc__
        assert inspect.iscoroutinefunction(theirs) == (name != "predict_iter"), name
