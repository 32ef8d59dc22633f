import contextlib
import logging
import shutil
import subprocess
import sys
import threading
import time
from concurrent import futures
from pathlib import Path

import blocking
import grpc
import page_models
import pytest
import serving_models as models

from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig


@pytest.fixture(scope="session", autouse=True)
def _quick_leaving():
    """Servers leave without the quarter of a second in which clients move to another one."""
    from keras_selfattn.serving.server import server

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "_LEAVING_SECONDS", 0.01)
        yield


@pytest.fixture(scope="session")
def half_base(tmp_path_factory):
    base = tmp_path_factory.mktemp("half")
    module = models.HalfPlusTwo()
    models.save(module, base, 3, serving_default=module.serve, matmul=module.matmul)
    return base


@pytest.fixture(scope="session")
def tf1_base(tmp_path_factory):
    """A model as TensorFlow 1 saved them, with signatures for all of TensorFlow Serving's calls."""
    base = tmp_path_factory.mktemp("tf1")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # TensorFlow 1's functions are all deprecated
    models.save_tf1(base, 123)
    return base


@pytest.fixture(scope="session")
def slow_base(tmp_path_factory):
    base = tmp_path_factory.mktemp("slow")
    models.save(models.Slow(), base)
    return base


@pytest.fixture(scope="session")
def half_server(half_base):
    with Server(ServerConfig("half", half_base, port=0)) as server:
        yield server


@pytest.fixture(scope="session")
def text_server(tmp_path_factory):
    base = tmp_path_factory.mktemp("text")
    module = models.Sentiment()
    models.save(module, base, serving_default=module.serve, echo=module.echo)
    with Server(ServerConfig("default", base, port=0)) as server:
        yield server


@pytest.fixture(scope="session")
def types_server(tmp_path_factory):
    base = tmp_path_factory.mktemp("types")
    models.save(models.Types(), base)
    with Server(ServerConfig("types", base, port=0)) as server:
        yield server


@pytest.fixture(scope="session")
def slow_server(slow_base):
    with Server(ServerConfig("slow", slow_base, port=0)) as server:
        yield server


@pytest.fixture(scope="session")
def all_spans():
    """OpenTelemetry's spans of this process that have ended."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    provider, spans = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)  # once in a process; the instrumentation of Client takes no other
    return spans


@pytest.fixture
def half(half_server):
    with Client(half_server.target, "half") as client:
        yield client


@pytest.fixture
def text(text_server):
    with Client(text_server.target) as client:
        yield client


@pytest.fixture(scope="session")
def page_folder(tmp_path_factory):
    """The models of the page's tests."""
    folder = tmp_path_factory.mktemp("page")
    page_models.save_all(folder)
    return folder


@pytest.fixture(scope="module")
def page_served(page_folder):
    from page_browser import Served  # here: it needs Playwright

    served = Served(page_folder)
    yield served
    served.stop()


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("needs the chromium command")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(browser, page_served):
    """A page of the browser; the test fails if it asks another origin, or has an error nobody expects."""
    from page_browser import Opened

    opened = Opened(browser, page_served)
    yield opened
    opened.close()


@pytest.fixture
def stock_server():
    """Starts a StockServing; gives its target."""
    with contextlib.ExitStack() as stack:

        def start(serving):
            server, port = serving.serve()
            stack.callback(lambda: server.stop(None).wait())
            return f"127.0.0.1:{port}"

        yield start


@pytest.fixture(params=["sync", "async"])
def connect(request):
    """Makes a client of both kinds, the asyncio one behind the same methods."""
    with contextlib.ExitStack() as stack:
        yield blocking.maker(request.param, stack)


@pytest.fixture
def raw_server():
    """Starts a server that answers each call but `without` with `answer(request bytes, context)`."""
    with contextlib.ExitStack() as stack:

        def start(answer, without=None):
            class Handler(grpc.GenericRpcHandler):
                def service(self, handler_call_details):
                    if handler_call_details.method.endswith(f"/{without}"):
                        return None
                    return grpc.unary_unary_rpc_method_handler(answer)

            server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[Handler()])
            return _started(server, stack)

        yield start


def _started(server, stack):
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    stack.callback(lambda: server.stop(None).wait())
    return f"127.0.0.1:{port}"


@pytest.fixture
def spawn_server():
    """Starts a server in a process of its own; gives the process and its target."""
    processes = []

    def spawn(base, *settings, before=""):
        script = Path(models.__file__)
        run = f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
        command = [sys.executable, "-c", f"{before}\n{run}", str(base), *settings]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        target = process.stdout.readline().strip()
        if not target:
            raise AssertionError(process.communicate()[1])
        return process, target

    yield spawn
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def in_background():
    """Runs functions in threads; gives a future of each."""
    with futures.ThreadPoolExecutor(16) as executor:
        yield executor.submit


@pytest.fixture
def until():
    """Waits until a condition holds, and fails after a generous while."""

    def wait(condition, seconds=20.0):
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "the condition did not come true"
            threading.Event().wait(0.02)

    return wait
