"""Interceptors and OpenTelemetry see the calls."""

import collections
import contextlib

import blocking
import grpc
import pytest
from opentelemetry.instrumentation.grpc import GrpcAioInstrumentorClient, GrpcInstrumentorClient
from stock_serving import StockServing

from keras_selfattn.serving.client import Client


class Details(
    collections.namedtuple("Details", "method timeout metadata credentials wait_for_ready compression"),
    grpc.ClientCallDetails,
):
    pass


class Counting(grpc.UnaryUnaryClientInterceptor):
    """Notes each call, and adds a header."""

    def __init__(self):
        self.seen = []

    def intercept_unary_unary(self, continuation, details, request):
        self.seen.append((details.method.rpartition("/")[2], type(request)))
        metadata = [*(details.metadata or ()), ("x-seen", str(len(self.seen)))]
        found = Details(details.method, details.timeout, metadata, None, details.wait_for_ready, None)
        return continuation(found, request)


EXPECTED = [("GetModelMetadata", bytes), ("Predict", bytes), ("Predict", bytes)]


def test_interceptors_see_every_call(stock_server):
    serving, interceptor = StockServing(), Counting()
    with Client(stock_server(serving), interceptors=[interceptor], max_batch_size=1) as client:
        assert client.predict([[1, 2], [3, 4]])["y"].tolist() == [[2, 4], [6, 8]]
    assert interceptor.seen == EXPECTED
    assert sorted(call["x-seen"] for call in serving.metadata_of_calls) == ["1", "2", "3"]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_opentelemetry_traces_every_call(stock_server, all_spans, kind):
    """With opentelemetry-instrumentation-grpc, which the extra `tracing` brings."""
    all_spans.clear()
    instrumentor = {"sync": GrpcInstrumentorClient, "async": GrpcAioInstrumentorClient}[kind]()
    instrumentor.instrument()
    serving = StockServing()
    try:
        with contextlib.ExitStack() as stack:
            client = blocking.maker(kind, stack)(stock_server(serving), max_batch_size=1)
            assert client.predict([[1, 2], [3, 4]])["y"].tolist() == [[2, 4], [6, 8]]
    finally:
        instrumentor.uninstrument()
    names = [span.name.rpartition("/")[2] for span in all_spans.get_finished_spans()]
    assert names == ["GetModelMetadata", "Predict", "Predict"]
    assert all("traceparent" in call for call in serving.metadata_of_calls)
