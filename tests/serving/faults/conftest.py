import contextlib
import resource

import pytest
import serving_models as models
from served import Served, until

_SPARE_FILES = 8  # of gRPC's own, which come and go
_FEW_LINES = 30  # a log that a client could fill would fill a disk


def pytest_itemcollected(item):
    item.add_marker(pytest.mark.process)


@pytest.fixture(scope="session", autouse=True)
def _many_files():
    """A thousand connections have two ends, one of them here; the server inherits the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))


@pytest.fixture(scope="session")
def bases(half_base, tf1_base, slow_base, tmp_path_factory):
    types = tmp_path_factory.mktemp("types")
    models.save(models.Types(), types)
    return {"half": half_base, "tf1": tf1_base, "slow": slow_base, "types": types}


@pytest.fixture(scope="session")
def shared(bases, tmp_path_factory):
    """A server that many tests do their worst to."""
    served = Served(tmp_path_factory.mktemp("shared"), bases, "--rest_api_timeout_in_ms=2000")
    yield served.wait()
    served.kill()


@pytest.fixture
def server(shared):
    """The same; it must be unharmed afterwards, all connections closed, and every error looked after."""
    shared.assert_answers()  # which opens what it opens once
    known, opened, logged = len(shared.unexpected()), shared.open_files(), len(shared.log().splitlines())
    yield shared
    shared.assert_answers()
    until(lambda: shared.open_files() <= opened + _SPARE_FILES)
    assert shared.unexpected()[known:] == []
    assert len(shared.log().splitlines()) < logged + _FEW_LINES


@pytest.fixture(scope="module")
def serve(tmp_path_factory):
    """Starts a server of one's own: models and flags to a Served."""
    with contextlib.ExitStack() as stack:

        def start(models, *flags, **pipes):
            served = Served(tmp_path_factory.mktemp("served"), models, *flags, **pipes)
            stack.callback(served.kill)
            return served

        yield start
