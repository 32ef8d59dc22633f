"""A tracer provider made of OpenTelemetry's environment variables.

Reference: opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables.
"""

import os
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

from ...errors import ServerStartError

_SERVICE = "keras-selfattn"
_UNNAMED = "unknown_service"
_PROPAGATORS = ("tracecontext", "baggage", "none")
# What OTEL_EXPORTER_OTLP_PROTOCOL says, the exporter's name, and its package.
_PROTOCOLS = {
    "grpc": ("otlp_proto_grpc", "opentelemetry-exporter-otlp-proto-grpc"),
    "http/protobuf": ("otlp_proto_http", "opentelemetry-exporter-otlp-proto-http"),
}


def provider_from_environment() -> Any:
    """Make a tracer provider, and set it as the process's own.

    The SDK itself reads OTEL_TRACES_SAMPLER, OTEL_RESOURCE_ATTRIBUTES, OTEL_BSP_..., OTEL_EXPORTER_OTLP_...

    Raises:
        ServerStartError: the SDK or the exporter that OTEL_TRACES_EXPORTER names is not installed, or a
            variable is wrong.
    """
    _check_propagators()
    try:
        return _provider()
    except ServerStartError:
        raise
    except Exception as error:  # the SDK and each exporter have errors of their own
        raise ServerStartError(
            f"enable_tracing needs other OTEL_... environment variables: {type(error).__name__}: {error}"
        ) from error


def _check_propagators() -> None:
    for name in os.environ.get("OTEL_PROPAGATORS", "").split(","):
        if name.strip() not in ("", *_PROPAGATORS):
            raise ServerStartError(
                f"OTEL_PROPAGATORS must be of {', '.join(_PROPAGATORS)}: the server reads no other headers. "
                f"Received {name.strip()!r}"
            )


def _provider() -> Any:
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ServerStartError(
            "enable_tracing needs OpenTelemetry's SDK: pip install 'keras-selfattn[tracing]'"
        ) from error
    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME, _UNNAMED)).startswith(_UNNAMED):
        resource = resource.merge(Resource({SERVICE_NAME: _SERVICE}))
    exporters = list(_exporters())
    # At the exit of the process, the SDK would wait half a minute for a collector that does not answer.
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter()))
    trace.set_tracer_provider(provider)
    return provider


def _exporters() -> Iterator[Any]:
    for name in os.environ.get("OTEL_TRACES_EXPORTER", "otlp").split(","):
        asked, package = name.strip(), f"the package of the exporter {name.strip()}"
        if asked in ("", "none"):
            continue
        if asked == "otlp":
            asked, package = _otlp()
        found = entry_points(group="opentelemetry_traces_exporter", name=asked)
        try:
            yield next(iter(found)).load()
        except (StopIteration, ImportError) as error:
            raise ServerStartError(
                f"enable_tracing needs {package} for OTEL_TRACES_EXPORTER={name}: pip install "
                f"'keras-selfattn[tracing]' brings that of otlp over gRPC"
            ) from error


def _otlp() -> tuple[str, str]:
    protocol = (
        os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
        or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        or "grpc"
    )
    if protocol not in _PROTOCOLS:
        raise ServerStartError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL must be one of {', '.join(_PROTOCOLS)}. Received {protocol!r}"
        )
    return _PROTOCOLS[protocol]
