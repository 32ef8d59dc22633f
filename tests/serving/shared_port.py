"""Servers in processes of their own that share one port, each connection staying with one of them."""

import contextlib
import signal
import subprocess
import sys
import threading
from concurrent import futures
from pathlib import Path

import grpc

from keras_selfattn.serving.wire import messages_pb2 as pb

PREDICT_RESPONSE = (Path(__file__).parent / "stock_messages" / "predict_response.bin").read_bytes()
_METHODS = {
    "Predict": pb.PredictResponse.FromString(PREDICT_RESPONSE),
    "GetModelStatus": pb.GetModelStatusResponse(),
    "HandleReloadConfigRequest": pb.ReloadConfigResponse(),
}


class Worker(grpc.GenericRpcHandler):
    """Answers each call but GetModelMetadata; writes the names of the models of each reload down.

    Args:
        number: its own, which it gives as the version of its answers.
        reloads: the file of the names.
    """

    def __init__(self, number, reloads):
        self._number, self._reloads = number, reloads

    def service(self, handler_call_details):
        name = handler_call_details.method.rpartition("/")[2]
        if name not in _METHODS:
            return None
        return grpc.unary_unary_rpc_method_handler(lambda data, context: self._answer(name, data))

    def _answer(self, name, data):
        response = _METHODS[name]
        if name == "Predict":
            response.model_spec.version.value = self._number
        if name == "HandleReloadConfigRequest":
            config = pb.ReloadConfigRequest.FromString(data).config.model_config_list.config[0]
            with self._reloads.open("a") as file:
                file.write(f"{config.name}\n")
        threading.Event().wait(0.002)  # as long as a model may take: some calls are under way at any time
        return response.SerializeToString()


class SharedPort:
    """The workers of a port.

    Args:
        count: how many.
        reloads: the file where they write reloads down.
    """

    def __init__(self, count, reloads):
        self._reloads, self.workers, port = reloads, [], 0
        for number in range(1, count + 1):
            worker = self._start(number, port)
            self.workers.append(worker)
            port = int(worker.stdout.readline())
        self.target = f"127.0.0.1:{port}"

    def kill(self, index):
        self.workers[index].send_signal(signal.SIGKILL)
        self.workers[index].wait()

    def close(self):
        for worker in self.workers:
            worker.kill()
            worker.communicate()

    def _start(self, number, port):
        command = [sys.executable, __file__, str(number), str(port), str(self._reloads)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


@contextlib.contextmanager
def shared_port(count, reloads):
    """A port with so many workers."""
    shared = SharedPort(count, reloads)
    try:
        yield shared
    finally:
        shared.close()


def main():
    number, port, reloads = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    executor = futures.ThreadPoolExecutor(16)
    options = [("grpc.so_reuseport", 1)]
    server = grpc.server(executor, handlers=[Worker(number, reloads)], options=options)
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    print(port, flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
