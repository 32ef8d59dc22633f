"""The batcher by itself: who runs when, and that whatever happens to a run is told and counted."""

import asyncio
from concurrent.futures import Executor

import numpy as np
import pytest

from keras_selfattn.serving import errors
from keras_selfattn.serving.server.api.predict import ArraysCall
from keras_selfattn.serving.server.batching.batcher import Batcher
from keras_selfattn.serving.server.runtime.batching_parameters import BatchingParameters
from keras_selfattn.serving.server.runtime.metrics import Metrics
from keras_selfattn.serving.server.runtime.search_cost import SearchCost
from keras_selfattn.serving.wire import messages_pb2 as pb

ECHO = pb.SignatureDef(
    inputs={"inputs": pb.TensorInfo(name="x")}, outputs={"outputs": pb.TensorInfo(name="y")}
)


class ByHand(Executor):
    """Runs what it is given when it is told to."""

    def __init__(self):
        self.waiting = []

    def submit(self, function):
        self.waiting.append(function)

    async def run_one(self):
        """Run the task that waits longest; then the loop handles its end."""
        self.waiting.pop(0)()
        for _ in range(5):
            await asyncio.sleep(0)


class Model:
    """Notes what it is fed, and answers with it."""

    def __init__(self, error=None):
        self.batching = None
        self.row_tensors = frozenset()
        self.search = None
        self.signatures = {"serving_default": ECHO}
        self.fed = []
        self._error = error

    def run(self, feeds, fetches, timeout):
        self.fed.append(feeds["x"].tolist())
        if self._error is not None:
            raise self._error
        return [feeds["x"]]


class Writer(Model):
    """Writes texts: notes what it is fed, as strings, and answers with it."""

    def __init__(self):
        super().__init__()
        self.search = SearchCost(row_bytes=1)
        self.signatures["generate"] = pb.SignatureDef(
            inputs={"text": pb.TensorInfo(name="x"), "max_new_tokens": pb.TensorInfo(name="most")},
            outputs=ECHO.outputs,
        )


class Asking:
    """A batcher, and what has been asked of it."""

    def __init__(self, executor=None, **parameters):
        self.executor = executor or ByHand()
        self.batcher = Batcher(self.executor, BatchingParameters(**parameters), Metrics())
        self.asked = []

    async def ask(self, model, *rows, deadline=None):
        await self.ask_call(model, ArraysCall(model, "", {"inputs": np.array(rows)}), deadline)

    async def write(self, model, *texts, most=None):
        """Ask for answers to texts, of so many symbols at most."""
        sources = np.array(texts, object)
        if most is None:
            call = ArraysCall(model, "", {"inputs": sources})
        else:
            asked = {"text": sources, "max_new_tokens": np.array(most, np.int32)}
            call = ArraysCall(model, "generate", asked)
        await self.ask_call(model, call)

    async def ask_call(self, model, call, deadline=None):
        self.asked.append(asyncio.ensure_future(self.batcher.run(model, call, deadline)))
        for _ in range(3):
            await asyncio.sleep(0)

    async def run_all(self):
        """Run what waits, and return the outcomes; nothing is left."""
        while self.executor.waiting:
            await self.executor.run_one()
        found = await self.outcomes()
        assert self.is_idle()
        return found

    async def outcomes(self):
        return await asyncio.wait_for(asyncio.gather(*self.asked, return_exceptions=True), 10)

    def is_idle(self):
        batcher = self.batcher
        return (
            not batcher._queues and not batcher._busy and all(not s._rows for s in batcher._sizers.values())
        )


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("arrivals", [1, 2, 3, 4])
def test_a_kind_that_waits_is_next_however_much_of_another_arrives(arrivals):
    async def run():
        model, asking = Model(), Asking(num_batch_threads=1)
        await asking.ask(model, [1, 1])
        await asking.ask(model, [2, 2, 2])
        for _ in range(3):
            for _ in range(arrivals):
                await asking.ask(model, [1, 1])
            await asking.executor.run_one()
        assert model.fed[1] == [[2, 2, 2]]
        while asking.executor.waiting:
            await asking.executor.run_one()
        await asking.outcomes()
        assert asking.is_idle()

    asyncio.run(run())


def test_models_have_shares_of_their_own():
    async def run():
        busy, other, asking = Model(), Model(), Asking(num_batch_threads=3)
        for model in (busy, other):  # from here on it is known how long a row takes
            await asking.ask(model, [0])
            await asking.executor.run_one()
        await asking.ask(busy, *[[1]] * 60)
        await asking.ask(other, [1])
        asking.batcher._sizers[other]._row_seconds = 0.01
        await asking.ask(other, [2])
        assert len(asking.executor.waiting) == 3
        while asking.executor.waiting:
            await asking.executor.run_one()
        assert other.fed[1:] == [[[1]], [[2]]]
        await asking.outcomes()
        assert asking.is_idle()

    asyncio.run(run())


@pytest.mark.parametrize("kinds", [1, 5])
def test_a_queue_has_one_timer_however_many_requests_wait(monkeypatch, kinds):
    async def run():
        loop = asyncio.get_running_loop()
        timers = []
        call_later = loop.call_later
        monkeypatch.setattr(loop, "call_later", lambda *call: timers.append(call_later(*call)) or timers[-1])
        asking = Asking(num_batch_threads=2, evenly=False, timeout_seconds=60, max_execution_batch_size=64)
        model = Model()
        for _ in range(10):
            for width in range(1, kinds + 1):
                await asking.ask(model, [0] * width)
        assert len(timers) == kinds
        assert not asking.executor.waiting
        for asked in asking.asked:
            asked.cancel()
        await asking.outcomes()

    asyncio.run(run())


def test_a_timer_starts_what_waits_and_leaves_nothing():
    async def run():
        model = Model()
        asking = Asking(num_batch_threads=2, evenly=False, timeout_seconds=0.05, max_execution_batch_size=64)
        await asking.ask(model, [1])
        await until(lambda: asking.executor.waiting)
        await asking.executor.run_one()
        await asking.outcomes()
        assert asking.is_idle()

    asyncio.run(run())


def test_a_batch_that_is_exactly_full_waits_for_no_timer():
    async def run():
        asking = Asking(num_batch_threads=2, evenly=False, timeout_seconds=60.0, max_execution_batch_size=3)
        model = Model()
        await asking.ask(model, [1], [2])
        assert not asking.executor.waiting
        await asking.ask(model, [3])
        await asking.executor.run_one()
        assert model.fed == [[[1], [2], [3]]]
        await asking.outcomes()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (SystemExit(3), RuntimeError),
        (StopIteration(), RuntimeError),
        (ValueError("broken"), ValueError),
        (errors.InternalError("broken"), errors.InternalError),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_whatever_a_run_ends_with_is_told_and_counted(error, found):
    async def run():
        model, asking = Model(error), Asking(num_batch_threads=1)
        for _ in range(3):
            await asking.ask(model, [1])
        while asking.executor.waiting:
            await asking.executor.run_one()
        assert [type(outcome) for outcome in await asking.outcomes()] == [found] * 3
        assert asking.is_idle()

    asyncio.run(run())


class Refusing(ByHand):
    """Takes nothing more."""

    def submit(self, function):
        raise RuntimeError("cannot schedule new futures after shutdown")


class WithoutThreads(ByHand):
    """Has no thread for what it has taken, as concurrent.futures does at the limit of threads."""

    def submit(self, function):
        super().submit(function)
        raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("executor", [Refusing, WithoutThreads])
def test_what_no_thread_takes_is_told_and_counted_once(executor):
    async def run():
        model, asking = Model(), Asking(executor(), num_batch_threads=1)
        for _ in range(5):
            await asking.ask(model, [1])
        assert [type(outcome) for outcome in await asking.outcomes()] == [RuntimeError] * 5
        while asking.executor.waiting:
            await asking.executor.run_one()
        assert asking.is_idle()

    asyncio.run(run())


@pytest.mark.slow
def test_rows_held_back_for_a_share_are_asked_for_again(monkeypatch):
    monkeypatch.setattr("keras_selfattn.serving.server.batching.batcher.HALF_LIFE_SECONDS", 0.2)
    monkeypatch.setattr("keras_selfattn.serving.server.batching.batch_queue.HALF_LIFE_SECONDS", 0.2)

    async def run():
        model, asking = Model(), Asking(num_batch_threads=2)
        await asking.ask(model, *[[0]] * 64)
        await asking.executor.run_one()
        asking.batcher._sizers[model]._row_seconds = 0.001
        await asking.ask(model, [1])
        await asking.ask(model, [2])
        assert len(asking.executor.waiting) == 1
        await until(lambda: len(asking.executor.waiting) == 2)
        while asking.executor.waiting:
            await asking.executor.run_one()
        await asking.outcomes()
        assert asking.is_idle()

    asyncio.run(run())


def test_a_version_that_is_gone_is_forgotten():
    async def run():
        model, asking = Model(), Asking(num_batch_threads=1)
        await asking.ask(model, [1])
        await asking.executor.run_one()
        await asking.outcomes()
        assert len(asking.batcher._sizers) == 1
        asking.asked.clear()
        del model
        assert not asking.batcher._sizers

    asyncio.run(run())


SHORT, LONG = b"abc", b"abc " * 20


def test_texts_are_written_together_with_texts_of_about_their_length():
    async def run():
        model, asking = Writer(), Asking(num_batch_threads=1)
        await asking.write(model, b"the first")
        for text in (SHORT, LONG, b"", LONG + b"d", SHORT + b"d"):
            await asking.write(model, text)
        assert [len(each[0]) for each in await asking.run_all()] == [1] * 6
        assert model.fed[1:] == [[SHORT, b"", SHORT + b"d"], [LONG, LONG + b"d"]]

    asyncio.run(run())


def test_the_longest_text_of_a_request_counts_and_none_of_no_text():
    async def run():
        model, asking = Writer(), Asking(num_batch_threads=1)
        await asking.write(model, b"the first")
        await asking.write(model, SHORT, LONG)
        await asking.write(model)
        await asking.write(model, LONG)
        await asking.write(model, SHORT)
        await asking.run_all()
        assert model.fed[1:] == [[SHORT, LONG, LONG], [SHORT]]

    asyncio.run(run())


def test_other_models_share_a_batch_whatever_the_length_of_their_texts():
    async def run():
        model, asking = Writer(), Asking(num_batch_threads=1)
        model.search = None
        await asking.write(model, b"the first")
        for text in (SHORT, LONG, SHORT):
            await asking.write(model, text)
        await asking.run_all()
        assert model.fed[1:] == [[SHORT, LONG, SHORT]]

    asyncio.run(run())


def test_answers_that_are_asked_to_be_short_wait_for_no_long_ones():
    async def run():
        model, asking = Writer(), Asking(num_batch_threads=1)
        await asking.write(model, b"the first")
        for most in ([0], [2], [200], [3]):  # 0 is the export's own
            await asking.write(model, LONG, most=most)
        await asking.write(model, LONG, LONG, most=[2, 0])
        await asking.write(model, SHORT, most=[2])
        await asking.run_all()
        assert model.fed[1:] == [[LONG] * 4, [LONG] * 2, [SHORT]]

    asyncio.run(run())


def test_what_waits_longest_is_written_next_whatever_its_length():
    async def run():
        model, asking = Writer(), Asking(num_batch_threads=1)
        await asking.write(model, SHORT)
        await asking.write(model, LONG)
        for _ in range(3):
            await asking.write(model, SHORT)
            await asking.executor.run_one()
        await asking.run_all()
        assert model.fed[1] == [LONG]

    asyncio.run(run())


@pytest.mark.parametrize("own", [True, False])
def test_the_bound_of_waiting_rows_counts_those_of_all_lengths(own):
    async def run():
        model = Writer()
        bound = {"max_execution_batch_size": 2, "max_enqueued_batches": 2, "evenly": own}
        asking = Asking(num_batch_threads=1, **bound)
        for text in (SHORT, SHORT, LONG, LONG * 2, LONG * 4, LONG * 8):
            await asking.write(model, text)
        *good, full = await asking.run_all()
        assert [type(each) for each in good] == [list] * 5
        assert isinstance(full, errors.UnavailableError)

    asyncio.run(run())
