"""A process that only serves leaves out TensorFlow's API, and shares arenas."""

import platform
import subprocess
import sys
from types import SimpleNamespace

import pytest
from serving_models import save_tf1

from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.server import server as server_module

SERVE = """
import sys
from keras_selfattn.serving.server.runtime.lean_tensorflow import import_runtime
import_runtime()
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig
half, tf1 = sys.argv[1:]
with Server(ServerConfig("half", half, port=0, rest_api_port=-1)) as server:
    print(Client(server.target, "half").predict([2.0])["y"])
with Server(ServerConfig("tf1", tf1, port=0)) as server:
    print(Client(server.target, "tf1").predict({"x": [[2.0]]})["y"])
print([name for name in ("tensorflow._api.v2.v2", "keras") if name in sys.modules])
"""


def run(program, *arguments):
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.process
def test_a_process_that_serves_leaves_tensorflows_api_and_keras_out(half_base, tf1_base):
    assert run(SERVE, half_base, tf1_base) == ["[3.]", "[[3.]]", "[]"]


@pytest.mark.process
def test_the_api_is_loaded_when_somebody_uses_it():
    program = (
        "from keras_selfattn.serving.server.runtime.lean_tensorflow import import_runtime\n"
        "import_runtime()\n"
        "import tensorflow as tf\n"
        "print(hasattr(tf, '__all__'))\n"
        "print(tf.constant(2.0).numpy(), tf.__version__ != '', tf.compat.v1.Session is not None)\n"
        "import keras\n"
        "print(keras.backend.backend())\n"
    )
    assert run(program) == ["False", "2.0 True True", "tensorflow"]


@pytest.mark.process
def test_the_api_is_loaded_once_for_all_threads_that_use_it_and_for_its_version():
    program = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from keras_selfattn.serving.server.runtime.lean_tensorflow import import_runtime\n"
        "import_runtime()\n"
        "import tensorflow as tf\n"
        "with ThreadPoolExecutor(4) as executor:\n"
        "    versions = list(executor.map(lambda _: tf.__version__, range(4)))\n"
        "print(len({*versions}), tf.constant(2.0).numpy())\n"
        "print(hasattr(tf, 'nothing'), hasattr(tf, '__nothing__'))\n"
    )
    assert run(program) == ["1 2.0", "False False"]


@pytest.mark.process
def test_all_operations_are_there_without_the_api():
    program = (
        "import sys\n"
        "from keras_selfattn.serving.server.runtime.lean_tensorflow import import_runtime\n"
        "if sys.argv[1] == 'whole': import tensorflow\n"
        "import_runtime()\n"
        "from tensorflow.core.framework import op_def_pb2\n"
        "from tensorflow.python.client import pywrap_tf_session as api\n"
        "operations = op_def_pb2.OpList.FromString(api.TF_GetBuffer(api.TF_GetAllOpList()))\n"
        "print(sorted(operation.name for operation in operations.op))\n"
    )
    assert run(program, "lean") == run(program, "whole")


@pytest.mark.parametrize("own_process", [True, False])
def test_only_in_a_process_of_its_own_does_a_server_keep_what_it_loads_from_collections(
    tmp_path, own_process, monkeypatch, until
):
    kept = []
    arenas = []
    monkeypatch.setattr(
        server_module, "LoadedObjects", lambda: SimpleNamespace(keep=lambda: kept.append(True))
    )
    monkeypatch.setattr(server_module, "limit_arenas", arenas.append)
    save_tf1(tmp_path, 1)
    config = ServerConfig("m", tmp_path, port=0, file_system_poll_wait_seconds=0.05)
    with Server(config, own_process=own_process) as server:
        assert len(kept) == own_process
        save_tf1(tmp_path, 2)
        until(lambda: server.models.available() == {"m": [2]})
        assert len(kept) == 2 * own_process
    assert arenas == ([2 * config.cpus] if own_process else [])


ARENAS = """
import ctypes, threading
from keras_selfattn.serving.server.models.freed_memory import limit_arenas
limit_arenas(3)
together = threading.Barrier(12)
def allocate():
    together.wait()
    ctypes.CDLL(None).malloc(100)
    together.wait()
threads = [threading.Thread(target=allocate) for _ in range(12)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
ctypes.CDLL(None).malloc_info(0, ctypes.c_void_p.in_dll(ctypes.CDLL(None), "stdout"))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="arenas are glibc's")
def test_threads_share_as_many_arenas_as_they_are_given():
    def arenas(program):
        told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        return told.stdout.count("<heap ")

    assert arenas(ARENAS) == 3
    assert arenas(ARENAS.replace("\nlimit_arenas(3)", "")) > 3
