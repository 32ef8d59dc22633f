"""OpenTelemetry's spans of requests, their waits and runs, and of batches.

OpenTelemetry is imported when tracing is turned on. A request that is not sampled has no trace, and costs no
more than this decision.

Reference: opentelemetry.io/docs/specs/semconv/{rpc,http}.
"""

import contextlib
import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any
from weakref import WeakSet

from ...errors import ServerStartError
from .opentelemetry_sdk import provider_from_environment

_log = logging.getLogger(__name__)

MISSING = "enable_tracing needs OpenTelemetry: pip install 'keras-selfattn[tracing]'"

# Time to export the last spans when the server stops.
_FLUSH_SECONDS = 2.0
# OpenTelemetry logs longer ones, so that strangers could fill the log.
_HEADER_BYTES = 512

# OpenTelemetry keeps one provider for a process, and several servers may use it in turn.
_own_providers: WeakSet[Any] = WeakSet()


@functools.cache
def _log_failure(kind: type[Exception]) -> None:
    _log.exception("OpenTelemetry failed with %s, which is logged once; requests go on", kind.__name__)


@contextlib.contextmanager
def _harmless() -> Iterator[None]:
    """Log failures: samplers and span processors are the program's, and must not fail a request."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - they may raise anything
        _log_failure(type(error))


class Tracing:
    """Start the traces of requests, with the tracer provider of the program.

    If the program has set none, one is made as OpenTelemetry's environment variables say.

    Raises:
        ServerStartError: OpenTelemetry or an exporter is not installed.

    Example:
        tracing = Tracing("1.0")
        trace = tracing.request("Predict", {"rpc.system": "grpc"}, [("traceparent", "00-0af7...-01")])
    """

    def __init__(self, version: str):
        try:
            from opentelemetry import trace
            from opentelemetry.context import Context
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as error:
            raise ServerStartError(MISSING) from error
        provider: Any = trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider):
            provider = provider_from_environment()
            _own_providers.add(provider)
        self._own: Any = provider if provider in _own_providers else None
        self._api = trace
        self._root = Context()
        # Baggage is not used here, and takes long to read.
        propagator = TraceContextTextMapPropagator()
        self._extract = propagator.extract
        self._headers = frozenset(propagator.fields) if _reads_trace_context() else frozenset[str]()
        # It warns of each wrong tracestate, which any client can send.
        logging.getLogger("opentelemetry.trace.span").setLevel(logging.ERROR)
        self._tracer = trace.get_tracer("keras_selfattn.serving.server", version)

    def request(
        self, name: str, attributes: Mapping[str, str], headers: Iterable[tuple[str, str | bytes]]
    ) -> "RequestTrace | None":
        """Start the trace of a request; return None if it is not sampled, or OpenTelemetry fails.

        If an instrumentation has begun a span for the request, that one is the request's: a call has one span
        of kind server.

        Args:
            name: the span's.
            attributes: the span's.
            headers: those of the request, with names in lower case; they may name the caller's span.
        """
        with _harmless():
            around = self._api.get_current_span()
            if around.get_span_context().is_valid:
                if not around.is_recording():
                    return None
                around.set_attributes(attributes)
                return RequestTrace(self._api, self._tracer, around, is_ours=False)
            carrier = self._carrier(headers)
            context = self._extract(carrier, self._root) if carrier else self._root
            kind = self._api.SpanKind.SERVER
            span = self._tracer.start_span(name, context=context, kind=kind, attributes=attributes)
            if span.is_recording():
                return RequestTrace(self._api, self._tracer, span)
        return None

    def _carrier(self, headers: Iterable[tuple[str, str | bytes]]) -> dict[str, str]:
        return {
            key: value
            for key, value in headers
            if key in self._headers and isinstance(value, str) and len(value) <= _HEADER_BYTES
        }

    def flush(self) -> None:
        """Export the spans that have ended, once, if the provider is this server's own."""
        own, self._own = self._own, None
        if own is not None:
            # The SDK does not keep to a time limit of its own.
            flushing = threading.Thread(target=own.force_flush, name="flush-spans", daemon=True)
            flushing.start()
            flushing.join(_FLUSH_SECONDS)


def _reads_trace_context() -> bool:
    """Return True if OTEL_PROPAGATORS has W3C's trace context, as by default."""
    names = os.environ.get("OTEL_PROPAGATORS", "tracecontext")
    return "tracecontext" in [name.strip() for name in names.split(",")]


class RequestTrace:
    """The trace of a sampled request.

    Args:
        api: the module opentelemetry.trace.
        tracer: makes the spans.
        span: the request's.
        is_ours: False if the span is that of an instrumentation, which ends it.
    """

    def __init__(self, api: Any, tracer: Any, span: Any, is_ours: bool = True):
        self.span = span
        self._is_ours = is_ours
        self._api = api
        self._tracer = tracer
        self._context = api.set_span_in_context(span)
        self._batches: list[Any] = []

    @contextlib.contextmanager
    def run(
        self, model: str, version: int, signature: str, rows: int, begin: Callable[[], None]
    ) -> Iterator[Callable[[], None]]:
        """Record a wait, and then a run, until the block ends.

        Args:
            model: the model's name.
            version: the version that runs.
            signature: the signature that is called.
            rows: the rows of the request.
            begin: called when the run begins.

        Yields:
            A function that does what `begin` does, and ends the wait.
        """
        called = {"serving.model.name": model, "serving.model.version": version}
        with _harmless():
            self.span.set_attributes({**called, "serving.signature": signature, "serving.rows": rows})
        queued, begun = time.time_ns(), list[int]()

        def begin_run() -> None:
            begun.append(time.time_ns())
            begin()

        failure: BaseException | None = None
        try:
            yield begin_run
        except BaseException as error:
            failure = error
            raise
        finally:
            ended = time.time_ns()
            started = begun[0] if begun else ended
            self._child("wait", queued, started, failure=None if begun else failure)
            if begun:
                self._child("run", started, ended, self._batches, failure)

    @staticmethod
    @contextlib.contextmanager
    def batch(
        traces: Sequence["RequestTrace"], model: str, version: int, rows: int, size: int
    ) -> Iterator[None]:
        """Record the run of a batch in a span that is linked with its requests, until the block ends.

        Args:
            traces: those of the sampled requests. The span is in the first one, so that it is sampled, too.
            model: the model's name.
            version: the version that runs.
            rows: the rows of all requests of the batch.
            size: the rows of the run, including the copies that fill it up.
        """
        first, span = traces[0], None
        with _harmless():
            span = first._tracer.start_span(
                "batch",
                context=first._context,
                links=[first._api.Link(each.span.get_span_context()) for each in traces],
                attributes={
                    "serving.model.name": model,
                    "serving.model.version": version,
                    "serving.batch.rows": rows,
                    "serving.batch.size": size,
                },
            )
            for each in traces:
                each._batches.append(span.get_span_context())
        failure: BaseException | None = None
        try:
            yield
        except BaseException as error:
            failure = error
            raise
        finally:
            if span is not None:
                first._end(span, failure)

    def tell(
        self,
        attributes: Mapping[str, str | int],
        failed: str = "",
        text: str = "",
        is_own_fault: bool = False,
    ) -> None:
        """Complete the request's span.

        Args:
            attributes: more of the span's.
            failed: the status of a request that failed; empty for one that was answered.
            text: the error's text.
            is_own_fault: True if the server, not the caller, is to blame: the span's status is an error.
        """
        with _harmless():
            self.span.set_attributes(attributes)
            if failed:
                self.span.add_event("exception", {"exception.type": failed, "exception.message": text})
            if is_own_fault:
                self.span.set_attribute("error.type", failed)
                self.span.set_status(self._api.StatusCode.ERROR, text)

    def end(self) -> None:
        """End the request's span, unless an instrumentation does."""
        if self._is_ours:
            with _harmless():
                self.span.end()

    def _child(
        self,
        name: str,
        started: int,
        ended: int,
        linked: Sequence[Any] = (),
        failure: BaseException | None = None,
    ) -> None:
        with _harmless():
            links = [self._api.Link(each) for each in linked]
            span = self._tracer.start_span(name, context=self._context, links=links, start_time=started)
            self._end(span, failure, ended)

    def _end(self, span: Any, failure: BaseException | None, ended: int | None = None) -> None:
        with _harmless():
            if failure is not None:
                span.set_attribute("error.type", type(failure).__name__)
                span.set_status(self._api.StatusCode.ERROR, str(failure))
        with _harmless():
            span.end(ended)


current: ContextVar[RequestTrace | None] = ContextVar("request trace", default=None)
"""The trace of the request that is being answered; None if it has none."""
