"""`keras-selfattn serve` as a process of its own, and what it must do whatever has been done to it."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import grpc
import numpy as np
from ports import free_port

from keras_selfattn.serving.client import Client
from keras_selfattn.serving.errors import DeadlineExceededError, UnavailableError
from keras_selfattn.serving.wire import codec
from keras_selfattn.serving.wire import messages_pb2 as pb
from keras_selfattn.serving.wire import open_inference_pb2 as oip
from keras_selfattn.serving.wire import open_inference_tensors as tensors

COMMAND = [sys.executable, "-c", "from keras_selfattn.cli.main import main; main()", "serve"]
SECONDS = 30  # against hanging; nothing here takes as long on an idle machine
# Channels to one address share a connection unless told not to.
OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]
# What the log has when nobody looked after an error.
_UNEXPECTED = re.compile(r"Traceback|never retrieved|a request failed|the server ended", re.IGNORECASE)


def model_config(models):
    """A ModelServerConfig of models, as text."""
    entries = [
        f"config {{ name: '{name}' base_path: '{base}' model_platform: 'tensorflow' }}"
        for name, base in models.items()
    ]
    return f"model_config_list {{ {' '.join(entries)} }}"


def predict_request(model, signature="", **inputs):
    """A serialized PredictRequest."""
    encoded = {name: codec.encode(np.asarray(value)) for name, value in inputs.items()}
    spec = pb.ModelSpec(name=model, signature_name=signature)
    return pb.PredictRequest(model_spec=spec, inputs=encoded).SerializeToString()


def infer_request(model, signature="", in_contents=False, **inputs):
    """A serialized ModelInferRequest, with raw bytes or contents."""
    request = oip.ModelInferRequest(model_name=model)
    request.parameters["signature_name"].string_param = signature
    for name, array in inputs.items():
        sent = request.inputs.add(name=name, datatype=tensors.datatype_of_array(array), shape=array.shape)
        if in_contents:
            sent.contents.CopyFrom(tensors.to_contents(array))
        else:
            request.raw_input_contents.append(tensors.to_raw(array))
    return request.SerializeToString()


class Served:
    """A server process, started as the command line starts it.

    Args:
        folder: for its files.
        models: base paths by name.
        *flags: more of the command line.
        **pipes: `stdout` and `stderr`, without which they are files in the folder, and more of Popen's.
    """

    def __init__(self, folder, models, *flags, **pipes):
        self.folder, self.models = folder, models
        self.port, self.rest_port = free_port(), free_port()
        self.target = f"127.0.0.1:{self.port}"
        config = folder / "models.conf"
        config.write_text(model_config(models))
        self._log = folder / "stderr"
        outputs = {name: (folder / name).open("wb") for name in ("stdout", "stderr") if name not in pipes}
        command = [*COMMAND, f"--port={self.port}", f"--rest_api_port={self.rest_port}"]
        command += [f"--model_config_file={config}", *flags]
        self.process = subprocess.Popen(command, **outputs, **pipes)
        for output in outputs.values():
            output.close()

    def wait(self):
        """Waits until it answers."""
        with Client(self.target, next(iter(self.models))) as client:
            until(lambda: self.process.poll() is not None or _is_ready(client), 3 * SECONDS)
        assert self.process.poll() is None, self.log()
        return self

    def log(self):
        return self._log.read_text(errors="replace")

    def unexpected(self):
        """Lines of the log that tell of an error nobody looked after."""
        return [line for line in self.log().splitlines() if _UNEXPECTED.search(line)]

    def connect(self, port=None):
        return socket.create_connection(("127.0.0.1", port or self.port), timeout=SECONDS)

    def call(self, data, method="PredictionService/Predict", channel=None, timeout=SECONDS):
        """The code and the bytes or the words that a call of TensorFlow Serving's, or of a path, gets."""
        if channel is None:
            with grpc.insecure_channel(self.target, OWN_CONNECTION) as fresh:
                return self.call(data, method, fresh, timeout)
        path = method if method.startswith("/") else f"/tensorflow.serving.{method}"
        try:
            return grpc.StatusCode.OK, channel.unary_unary(path)(data, timeout=timeout)
        except grpc.RpcError as error:
            return error.code(), error.details()

    def post(self, path, body, connection=None, headers=None, method="POST"):
        """The status and the body that a request over REST is answered with."""
        fresh = connection or http.client.HTTPConnection("127.0.0.1", self.rest_port, timeout=SECONDS)
        fresh.request(method, path, body, headers or {})
        response = fresh.getresponse()
        data = response.read()
        if connection is None:
            fresh.close()
        return response.status, data

    def assert_answers(self):
        """Over gRPC and REST, on connections of their own."""
        assert self.process.poll() is None, self.log()
        code, data = self.call(predict_request("half", x=np.float32([2])))
        assert code is grpc.StatusCode.OK, data
        assert codec.decode(pb.PredictResponse.FromString(data).outputs["y"]).tolist() == [3.0]
        status, data = self.post("/v1/models/half:predict", b'{"instances": [2]}')
        assert (status, json.loads(data)) == (200, {"predictions": [3.0]})

    def open_files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def status(self, field):
        """A number of /proc/PID/status: Threads, or RssAnon in KiB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"^{field}:\s+(\d+)", text, re.MULTILINE)[1])

    def end(self, seconds=SECONDS):
        """The exit status after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def kill(self):
        self.process.kill()
        self.process.communicate()


def _is_ready(client):
    with contextlib.suppress(DeadlineExceededError, UnavailableError):
        client.wait_until_ready(0.5)
        return True
    return False


def until(condition, seconds=SECONDS):
    """Waits until a condition holds."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "the condition did not come true"
        time.sleep(0.02)
