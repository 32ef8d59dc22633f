"""OpenTelemetry's SDK by the environment: what cannot be is an error."""

import pytest

from keras_selfattn.serving import errors
from keras_selfattn.serving.server.runtime import opentelemetry_sdk


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        (
            {"OTEL_TRACES_EXPORTER": "none,zipkin"},
            r"needs the package of the exporter zipkin .*keras-selfattn\[tracing\]",
        ),
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "smoke"},
            "OTEL_EXPORTER_OTLP_PROTOCOL must be one of grpc, http/protobuf",
        ),
        ({"OTEL_PROPAGATORS": "tracecontext,b3"}, "OTEL_PROPAGATORS must be of tracecontext.*'b3'"),
        (
            {"OTEL_TRACES_EXPORTER": "console", "OTEL_BSP_MAX_QUEUE_SIZE": "10"},
            "needs other OTEL_.* variables: ValueError: max_export_batch_size",
        ),
    ],
)
def test_an_environment_that_cannot_be_is_an_error(monkeypatch, environment, words):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(errors.ServerStartError, match=words):
        opentelemetry_sdk.provider_from_environment()


def test_an_exporter_that_refuses_its_variables_is_an_error(monkeypatch):
    def exporter():
        raise TypeError("no compression zip")

    monkeypatch.setattr(opentelemetry_sdk, "_exporters", lambda: [exporter])
    with pytest.raises(errors.ServerStartError, match="OTEL_.* variables: TypeError: no compression zip"):
        opentelemetry_sdk.provider_from_environment()
