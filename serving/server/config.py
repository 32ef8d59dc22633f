"""The server's settings, each with its default, its rule and its help text, checked once.

A setting has the name of TensorFlow Serving's flag if there is one. The command line is built from this list.

Reference: tensorflow_serving/model_servers/main.cc.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InvalidInputError
from .runtime.cpus import available_cpus

LOOPBACK = "127.0.0.1"
ALL_ADDRESSES = "0.0.0.0"

# Headings of the help: TensorFlow Serving's flags, by subject, and then the flags that it does not have.
MOST_USED = "Most used"
MODELS = "Models"
REQUESTS = "Requests"
BATCHING = "Batching"
LOADING = "Loading"
TENSORFLOW = "TensorFlow"
OWN_PROCESSES = "Address, access and processes, not in TensorFlow Serving"
OWN_STORES = "Object stores, not in TensorFlow Serving"
OWN_LIMITS = "Limits, not in TensorFlow Serving"
OWN_LIFE = "Start, end, logs, metrics and traces, not in TensorFlow Serving"


class Rule(NamedTuple):
    """A rule for a setting's value: a test, and a text that follows "must be"."""

    holds: Callable[[Any], bool]
    words: str


class About(NamedTuple):
    """The purpose of a setting."""

    group: str
    help: str
    rule: Rule


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_path(value: object) -> bool:
    return isinstance(value, str | Path)


_NAME = Rule(
    lambda value: isinstance(value, str) and re.fullmatch(r"[^/:\s]+", value) is not None,
    "a name without '/', ':' and spaces",
)
_FLAG = Rule(lambda value: isinstance(value, bool), "True or False")
_FILE = Rule(_is_path, "a path, or empty for none")
_PORT = Rule(lambda value: _is_int(value) and 0 <= value < 2**16, "an integer from 0 (any free one) to 65535")
_COUNT = Rule(lambda value: _is_int(value) and value >= 0, "an integer, at least 0")
_POSITIVE = Rule(lambda value: _is_int(value) and value > 0, "a positive integer")
_SECONDS = Rule(lambda value: _is_number(value) and value >= 0, "a number of seconds, at least 0")


def _setting(default: Any, group: str, rule: Rule, words: str) -> Any:
    return field(default=default, metadata={"about": About(group, words, rule)})


@dataclass(frozen=True)
class ServerConfig:
    """Settings of a server: models, addresses, limits.

    `SETTINGS` has the purpose of each setting; `keras-selfattn serve --help` prints it.

    Raises:
        InvalidInputError: a setting is out of its range, or there is nothing to serve.

    Example:
        >>> ServerConfig(model_name="default", model_base_path="models/sentiment").port
        8500
    """

    model_name: str = _setting("default", MOST_USED, _NAME, "Name that clients ask for.")
    model_base_path: str | Path = _setting(
        "",
        MOST_USED,
        Rule(_is_path, "the folder that holds the model's versions"),
        "Folder with one numbered folder for each version, or its URI in an object store: s3://, gs://, "
        "abfs://. --model_config_file is the alternative.",
    )
    port: int = _setting(8500, MOST_USED, _PORT, "gRPC port; 0 takes a free one.")
    rest_api_port: int = _setting(
        0,
        MOST_USED,
        Rule(lambda value: _is_int(value) and -1 <= value < 2**16, "an integer from -1 to 65535"),
        "REST port; 0 for none, -1 takes a free one.",
    )

    model_config_file: str | Path = _setting(
        "", MODELS, _FILE, "File with a list of models: a ModelServerConfig as protobuf text."
    )
    model_config_file_poll_wait_seconds: float = _setting(
        0.0, MODELS, _SECONDS, "Seconds between two looks at that file; 0 reads it once."
    )
    file_system_poll_wait_seconds: float = _setting(
        1.0,
        MODELS,
        _SECONDS,
        "Seconds between two looks for new versions; 0 looks at start and reloads only.",
    )
    saved_model_tags: str = _setting(
        "serve",
        MODELS,
        Rule(lambda value: isinstance(value, str) and bool(value), "tags, comma-separated"),
        "Tags of the graph to load, comma-separated.",
    )
    prefer_tflite_model: bool = _setting(
        False, MODELS, _FLAG, "Load a version's model.tflite, if it has one, instead of its SavedModel."
    )
    allow_version_labels_for_unavailable_models: bool = _setting(
        False, MODELS, _FLAG, "Accept labels for versions that are not loaded."
    )

    grpc_socket_path: str | Path = _setting("", REQUESTS, _FILE, "Unix socket for gRPC, besides the port.")
    ssl_config_file: str | Path = _setting(
        "", REQUESTS, _FILE, "Key and certificates for gRPC: an SSLConfig as protobuf text."
    )
    grpc_channel_arguments: str = _setting(
        "",
        REQUESTS,
        Rule(lambda value: isinstance(value, str), "name=value, comma-separated"),
        "Options of gRPC's core, such as grpc.max_connection_age_ms=2000, comma-separated.",
    )
    grpc_max_threads: int = _setting(
        4 * available_cpus(), REQUESTS, _POSITIVE, "Graphs that run at the same time."
    )
    rest_api_timeout_in_ms: int = _setting(
        30_000, REQUESTS, _POSITIVE, "Milliseconds that a request over REST may take."
    )
    rest_api_enable_cors_support: bool = _setting(
        False, REQUESTS, _FLAG, "Allow web pages of all origins to call REST (CORS)."
    )
    enable_profiler: bool = _setting(
        True, REQUESTS, _FLAG, "Answer TensorFlow's profiler, for which the server writes traces."
    )
    monitoring_config_file: str | Path = _setting(
        "", REQUESTS, _FILE, "Metrics over REST, and their path: a MonitoringConfig as protobuf text."
    )
    enable_serialization_as_tensor_content: bool = _setting(
        False, REQUESTS, _FLAG, "Answer numbers as raw bytes (tensor_content) instead of typed fields."
    )
    enable_signature_method_name_check: bool = _setting(
        False, REQUESTS, _FLAG, "Classify and Regress accept only signatures that were saved for them."
    )

    enable_batching: bool = _setting(
        False,
        BATCHING,
        _FLAG,
        "Batch waiting requests, for every model. This project's models are batched without it, as soon "
        "as more requests wait than can run.",
    )
    batching_parameters_file: str | Path = _setting(
        "", BATCHING, _FILE, "Sizes, queues and waits of batches: BatchingParameters as protobuf text."
    )
    enable_per_model_batching_parameters: bool = _setting(
        False,
        BATCHING,
        _FLAG,
        "Batch the versions that hold a batching_params.pbtxt, as that file says. All share the threads of "
        "--batching_parameters_file. Needs --enable_batching.",
    )

    num_load_threads: int = _setting(
        0, LOADING, _COUNT, "Models that load at the same time; 0 for as many as there are CPUs."
    )
    num_unload_threads: int = _setting(
        0, LOADING, _COUNT, "Versions that unload at the same time; 0 for one after the other."
    )
    max_num_load_retries: int = _setting(
        5, LOADING, _COUNT, "Retries of a version that failed to load and has not changed since."
    )
    load_retry_interval_micros: int = _setting(
        60_000_000, LOADING, _COUNT, "Microseconds between two such retries."
    )
    enable_model_warmup: bool = _setting(
        True, LOADING, _FLAG, "Run a version's own warmup requests before it answers."
    )
    num_request_iterations_for_warmup: int = _setting(
        0, LOADING, _COUNT, "Runs of each warmup request; 0 for one."
    )

    tensorflow_intra_op_parallelism: int = _setting(
        1,
        TENSORFLOW,
        _COUNT,
        "Threads for one operation; 0 for all CPUs. Requests already run in parallel, and with 1 thread "
        "a small one costs half the CPU time.",
    )
    tensorflow_inter_op_parallelism: int = _setting(
        0, TENSORFLOW, _COUNT, "Threads for operations that can run side by side; 0 for all CPUs."
    )
    tensorflow_session_parallelism: int = _setting(
        0, TENSORFLOW, _COUNT, "Sets both of the above; 0 leaves them as they are."
    )
    tensorflow_session_config_file: str | Path = _setting(
        "", TENSORFLOW, _FILE, "Settings of TensorFlow's sessions: a ConfigProto as protobuf text."
    )
    per_process_gpu_memory_fraction: float = _setting(
        0.0,
        TENSORFLOW,
        Rule(lambda value: _is_number(value) and 0 <= value <= 1, "a number from 0 to 1"),
        "Share of a GPU's memory to take; 0 leaves it to TensorFlow.",
    )

    host: str = _setting(
        "",
        OWN_PROCESSES,
        Rule(lambda value: isinstance(value, str), "an address, such as 127.0.0.1 or 0.0.0.0 for all"),
        "Address to listen on. By default only this machine, or all addresses if gRPC is encrypted. "
        "--host=0.0.0.0 is all, as in TensorFlow Serving.",
    )
    object_store_poll_wait_seconds: float = _setting(
        10.0,
        OWN_STORES,
        _SECONDS,
        "Seconds between two listings of a base path in an object store, each of which costs money; 0 lists "
        "at start and reloads only.",
    )
    model_cache_path: str | Path = _setting(
        "",
        OWN_STORES,
        Rule(_is_path, "a folder, or empty for ~/.cache/keras-selfattn/models"),
        "Folder of this machine for the versions that were fetched; several servers can share it. Empty is "
        "~/.cache/keras-selfattn/models.",
    )
    model_cache_max_bytes: int = _setting(
        2**34, OWN_STORES, _COUNT, "Bytes of that folder, beyond which the least recently loaded versions go."
    )

    rest_tls: bool = _setting(
        False, OWN_PROCESSES, _FLAG, "Encrypt REST, too, with the key and certificates of --ssl_config_file."
    )
    page: bool = _setting(
        False,
        OWN_PROCESSES,
        _FLAG,
        "Serve a web page at / of the REST port, on which a person tries the models and looks at the server. "
        "Nothing can be changed there.",
    )
    auth_token_file: str | Path = _setting(
        "",
        OWN_PROCESSES,
        _FILE,
        "Tokens, one a line, of which each request must bear one (authorization: Bearer TOKEN); health "
        "checks need none. The file is read again when it changes.",
    )
    workers: int = _setting(
        1,
        OWN_PROCESSES,
        _POSITIVE,
        "Processes that share the ports, each with all models. A connection stays with one process, so "
        "clients should open several.",
    )

    max_concurrent_requests: int = _setting(
        2000,
        OWN_LIMITS,
        _POSITIVE,
        "Requests waiting or running; one more is refused with RESOURCE_EXHAUSTED.",
    )
    max_concurrent_streams: int = _setting(
        1000, OWN_LIMITS, _POSITIVE, "Open requests on one connection; further ones wait there."
    )
    max_request_tensor_bytes: int = _setting(
        2**28,
        OWN_LIMITS,
        _POSITIVE,
        "Bytes of memory for a request's tensors beyond its own size, because a message of 40 bytes can "
        "name gigabytes. More is refused with INVALID_ARGUMENT.",
    )
    max_request_search_bytes: int = _setting(
        2**34,
        OWN_LIMITS,
        _POSITIVE,
        "Bytes that the searches for the answers to a request's rows may fill, at the bounds of a model that "
        "writes texts: rows times candidates times symbols times bytes of a cache. More is refused with "
        "INVALID_ARGUMENT.",
    )
    rest_api_max_body_bytes: int = _setting(
        2**28, OWN_LIMITS, _POSITIVE, "Bytes of a REST request's body, decompressed; more is refused."
    )

    startup_wait_seconds: float = _setting(
        0.0,
        OWN_LIFE,
        Rule(lambda value: value == math.inf or _SECONDS.holds(value), _SECONDS.words),
        "Seconds to wait for a first version if there is nothing to serve; inf waits for ever.",
    )
    shutdown_grace_seconds: float = _setting(
        30.0, OWN_LIFE, _SECONDS, "Seconds that running requests have after SIGTERM or Ctrl-C."
    )
    metrics_by_version_and_signature: bool = _setting(
        False, OWN_LIFE, _FLAG, "Metrics of requests also tell the version and the signature."
    )
    enable_tracing: bool = _setting(
        False,
        OWN_LIFE,
        _FLAG,
        "OpenTelemetry's spans of requests, as its environment variables say. Needs keras-selfattn[tracing].",
    )

    def __post_init__(self) -> None:
        for name, about in SETTINGS.items():
            value = getattr(self, name)
            if not about.rule.holds(value):
                raise InvalidInputError(f"{name} must be {about.rule.words}. Received {value!r}")
        if not str(self.model_base_path) and not str(self.model_config_file):
            raise InvalidInputError(
                f"model_base_path must be the folder that holds the model's versions, unless "
                f"model_config_file lists models. Received {self.model_base_path!r}"
            )

        if self.page and not self.rest_api_port:
            raise InvalidInputError(
                "rest_api_port must be a port, such as 8501, or -1 for any free one, with page, which is "
                "served there. Received 0: add --rest_api_port=8501"
            )
        if self.rest_tls and not str(self.ssl_config_file):
            raise InvalidInputError(
                "ssl_config_file must have a key and a certificate with rest_tls. Received none"
            )
        if self.workers > 1 and str(self.grpc_socket_path):
            raise InvalidInputError(
                f"workers must be 1 with grpc_socket_path, which no two processes can share. Received "
                f"{self.workers}"
            )

    @property
    def cpus(self) -> int:
        """The CPUs that each worker can count on."""
        return max(1, available_cpus() // self.workers)

    @property
    def grpc_host(self) -> str:
        """The address of the gRPC port: without encryption this machine's only, unless `host` is set."""
        return self.host or (ALL_ADDRESSES if str(self.ssl_config_file) else LOOPBACK)

    @property
    def rest_host(self) -> str:
        """The address of the REST port: without encryption this machine's only, unless `host` is set."""
        return self.host or (ALL_ADDRESSES if self.rest_tls else LOOPBACK)


SETTINGS: dict[str, About] = {each.name: each.metadata["about"] for each in fields(ServerConfig)}
"""The purpose of each setting, by name and in the order of the groups."""
