"""Objects of a process that serves are kept from collections."""

import gc
import weakref
from types import SimpleNamespace

import pytest

from keras_selfattn.serving.server.models import freed_memory as memory


def test_what_is_kept_from_collections_is_all_that_there_is(monkeypatch):
    calls = []
    fake = SimpleNamespace(collect=lambda: calls.append("collect"), freeze=lambda: calls.append("freeze"))
    monkeypatch.setattr(memory, "gc", fake)
    monkeypatch.setattr(memory, "give_memory_back", lambda: calls.append("give back"))
    memory.LoadedObjects().keep()
    assert calls == ["collect", "freeze", "give back"]
    assert gc.isenabled()


class Cycle:
    """As a request's task and its coroutine are: only a collection frees it."""

    def __init__(self):
        self.itself = self


@pytest.mark.process
def test_what_was_in_use_during_a_load_is_collected_some_loads_later():
    """A version a minute, each loaded while requests run: their garbage must not stay for ever."""
    loaded, seen = memory.LoadedObjects(), []
    try:
        for _ in range(200):
            running = Cycle()
            loaded.keep()
            seen.append(weakref.ref(running))
            del running
        assert sum(each() is not None for each in seen) < 100
    finally:
        gc.unfreeze()
