"""The asyncio client behind the synchronous one's methods, so that the same tests run on both."""

import asyncio
import contextlib
import threading

from keras_selfattn.serving.client import AsyncClient, Client


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)

    def stop(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


class Blocking:
    """An AsyncClient, waited for."""

    def __init__(self, loop, *args, **settings):
        self._loop = loop
        self._client = AsyncClient(*args, **settings)

    def __getattr__(self, name):
        method = getattr(self._client, name)
        return lambda *args, **options: self._loop.run(method(*args, **options))

    def predict_iter(self, *args, **options):
        rows = self._client.predict_iter(*args, **options)
        try:
            with contextlib.suppress(StopAsyncIteration):
                while True:
                    yield self._loop.run(anext(rows))
        finally:
            self._loop.run(rows.aclose())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._loop.run(self._client.close())

    def __repr__(self):
        return repr(self._client)


def maker(kind, stack):
    """A function that makes clients of a kind, "sync" or "async", closed with the stack."""
    if kind == "sync":
        return lambda *args, **settings: stack.enter_context(Client(*args, **settings))
    loop = Loop()
    stack.callback(loop.stop)
    return lambda *args, **settings: stack.enter_context(Blocking(loop, *args, **settings))
