"""A real S3 server, moto's, whose answers a test can delay, refuse or cut."""

import threading
import time
from contextlib import contextmanager

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

BUCKET = "models"
_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


class FaultyStore:
    """moto's S3, as a WSGI application.

    Attributes:
        requests: each request, as "METHOD path?query".
        fault: called with such a text; returns "refused" (503), "denied" (403), "truncated", a number of
            seconds to wait, or None.
    """

    def __init__(self):
        self._moto = DomainDispatcherApplication(create_backend_app)
        self.requests = []
        self.fault = lambda request: None

    def __call__(self, environ, start_response):
        request = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}?{environ['QUERY_STRING']}"
        self.requests.append(request)
        fault = self.fault(request)
        if isinstance(fault, float):
            time.sleep(fault)
        if fault in ("refused", "denied"):
            status = "503 Slow Down" if fault == "refused" else "403 Forbidden"
            body = _SLOW_DOWN if fault == "refused" else _SLOW_DOWN.replace(b"SlowDown", b"AccessDenied")
            start_response(status, [("Content-Length", str(len(body)))])
            return [body]
        body = b"".join(self._moto(environ, start_response))
        # The headers name the whole length.
        return [body[: len(body) // 2] if fault == "truncated" else body]

    def count(self, start):
        return sum(request.startswith(start) for request in self.requests)


class _Quiet(WSGIRequestHandler):
    def log(self, *_):
        """Print nothing."""


@contextmanager
def faulty_store():
    """Yields a FaultyStore, and its URL."""
    store = FaultyStore()
    server = make_server("127.0.0.1", 0, store, threaded=True, request_handler=_Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield store, f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
