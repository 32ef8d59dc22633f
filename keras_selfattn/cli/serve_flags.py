"""The flags of `serve`: the server's settings as options, and what TensorFlow Serving knows besides."""

import math
from dataclasses import fields
from typing import Any

import click

from keras_selfattn.serving.server.config import SETTINGS, ServerConfig

WITHOUT_EFFECT = {
    "use_alts_credentials": "ALTS is Google Cloud's; --ssl_config_file encrypts",
    "platform_config_file": "there is one platform, tensorflow",
    "remove_unused_fields_from_bundle_metagraph": "nothing that is unused is kept",
    "flush_filesystem_caches": "files are read once, and not kept in memory",
    "rest_api_num_threads": "REST needs no threads of its own; --grpc_max_threads bounds all runs",
    "num_tflite_pools": "interpreters are made as they are needed",
    "num_tflite_interpreters_per_pool": "interpreters are made as they are needed",
    "xla_cpu_compilation_enabled": "compile the model itself (jit_compile=True)",
    "xla_gpu_compilation_enabled": "compile the model itself (jit_compile=True)",
    "thread_pool_factory_config_file": "TensorFlow's own pools are used",
    "mixed_precision": "export the model in the precision wanted",
    "skip_initialize_tpu": "TPUs are not supported",
    "enable_grpc_healthcheck_service": "health is always served",
    "use_saved_model": "all models are SavedModels",
}
"""What TensorFlow Serving's binary takes and this server does not need, and why."""

# What a flag of TensorFlow Serving was called before.
_OTHER_NAMES = {"prefer_tflite_model": ("--use_tflite_model",)}
# A person who waits sees what is missing, and Ctrl-C is near; a container's model may come after its server.
_DEFAULTS = {"startup_wait_seconds": math.inf}


def options() -> list[click.Parameter]:
    """The options of `serve`, in the order of its help."""
    settings = [_option(each.name, _DEFAULTS.get(each.name, each.default)) for each in fields(ServerConfig)]
    others = [
        click.Option(["--structured_logs"], is_flag=True, help="Log one JSON object a line."),
        click.Option(["--version"], is_flag=True, help="Print the versions and stop."),
    ]
    ignored = [
        click.Option([f"--{name}"], is_flag=False, flag_value="", hidden=True) for name in WITHOUT_EFFECT
    ]
    return [*settings, *others, *ignored]


def _option(name: str, default: Any) -> click.Option:
    kind = type(default)
    names = [f"--{name}", *_OTHER_NAMES.get(name, ())]
    settings: dict[str, Any] = {"type": kind, "default": default, "show_default": default != ""}
    if kind is bool:
        # TensorFlow's flags take no value, or one after an equals sign.
        settings |= {"type": click.BOOL, "is_flag": False, "flag_value": True}
    return click.Option(names, help=SETTINGS[name].help, **settings)
