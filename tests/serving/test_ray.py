"""Ray Serve runs the server: on several nodes, under a changing load, while replicas and nodes are killed."""

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import threading
import time

import grpc
import numpy as np
import pytest
import serving_models as models
from ports import free_port
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from keras_selfattn.serving.client import Client, ModelConfig
from keras_selfattn.serving.errors import InvalidInputError, UnimplementedError
from keras_selfattn.serving.ray import app, application
from keras_selfattn.serving.server import ServerConfig

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.filterwarnings("ignore")]

SCALING = {
    "upscale_delay_s": 0.5,
    "downscale_delay_s": 2.0,
    "look_back_period_s": 2.0,
    "metrics_interval_s": 0.5,
}
BUSY_SECONDS = 0.05


@pytest.fixture(scope="module")
def cluster():
    """A cluster whose replicas run on two nodes of two CPUs."""
    ray = pytest.importorskip("ray")
    from ray import serve
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # its sockets' names have at most 107 bytes
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", folder)
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        for _ in range(2):
            cluster.add_node(num_cpus=2)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        serve.start(proxy_location="Disabled")
        yield cluster
        serve.shutdown()
        ray.shutdown()
        cluster.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def base(tmp_path):
    """Answers after a while, and y = x / 2 + version."""
    save(tmp_path, 1)
    return tmp_path


def save(base, version):
    module, slow = models.HalfPlusTwo(b=float(version)), models.Slow()
    module.slow = slow
    models.save(module, base, version, serving_default=module.serve, slow=slow.serve)


@pytest.fixture
def serve(cluster, base):
    """Runs an application of that model; gives its target."""
    from ray import serve

    port = free_port()

    def run(**options):
        config = ServerConfig("half", base, port=port, shutdown_grace_seconds=10.0)
        options = {"ray_actor_options": {"num_cpus": 1}, "autoscaling": SCALING, **options}
        serve.run(application(config, **options), name="half", route_prefix=None)
        return f"127.0.0.1:{port}"

    yield run
    serve.delete("half")


def running():
    """The replicas, as (process, node), if all of them run."""
    from ray.serve.context import _get_global_client

    details = _get_global_client().get_serve_details()["applications"]["half"]["deployments"]["Replica"]
    replicas = details["replicas"]
    all_run = all(replica["state"] == "RUNNING" for replica in replicas)
    return [(replica["pid"], replica["node_id"]) for replica in replicas] if all_run else []


def request(**inputs):
    """A stock PredictRequest of one number."""
    ((name, value),) = inputs.items()
    made = predict_pb2.PredictRequest()
    made.model_spec.name = "half"
    made.inputs[name].dtype = 1
    if name == "x":
        made.inputs[name].tensor_shape.dim.add(size=1)
    else:
        made.model_spec.signature_name = "slow"
        made.inputs[name].tensor_shape.SetInParent()
    made.inputs[name].float_val.append(value)
    return made


@contextlib.contextmanager
def stock_load(target):
    """Asks with stock stubs, for a short run and a long one; gives answers and errors."""
    answers, errors, stop = [], [], threading.Event()

    def ask(seconds):
        # A connection of its own, as a process of its own would have.
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(target, options) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            while not stop.is_set():
                try:
                    # Without waiting, one refused connection would fail all calls of the next second.
                    answers.append(stub.Predict(request(seconds=seconds), timeout=60, wait_for_ready=True))
                except grpc.RpcError as error:
                    errors.append(error)

    asking = [threading.Thread(target=ask, args=(seconds,)) for seconds in (0.01, 2.0)]
    for thread in asking:
        thread.start()
    try:
        yield answers, errors
    finally:
        stop.set()
        for thread in asking:
            thread.join()


@contextlib.contextmanager
def load(target, threads=12):
    """Asks without pause; gives the times of the answers, and the errors."""
    answers, errors, stop = [], [], threading.Event()

    def ask():
        with Client(target, "half", connections=4) as client:
            while not stop.is_set():
                try:
                    client.predict({"seconds": np.float32(BUSY_SECONDS)}, signature="slow", timeout=30)
                    answers.append(time.monotonic())
                except Exception as error:  # noqa: BLE001 - the test counts them
                    errors.append(error)

    asking = [threading.Thread(target=ask) for _ in range(threads)]
    for thread in asking:
        thread.start()
    try:
        yield answers, errors
    finally:
        stop.set()
        for thread in asking:
            thread.join()


def test_stock_stubs_and_our_client_are_answered_by_a_replica(serve):
    target = serve()
    with grpc.insecure_channel(target) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        assert stub.Predict(request(x=4.0), timeout=10).outputs["y"].float_val == [3.0]
    with Client(target, "half") as client:
        assert client.predict({"x": np.float32([4.0])})["y"] == [3.0]


def test_replicas_come_and_go_with_the_load_and_no_request_fails(serve, until):
    target = serve(max_replicas=3, target_ongoing_requests=3)
    with load(target) as (answers, errors):
        until(lambda: len(running()) == 3, seconds=90)
        processes = {process for process, _ in running()}
    with load(target, threads=1) as (answers, few_errors), stock_load(target) as (few_answers, stock_errors):
        until(lambda: len(running()) == 1, seconds=90)
        assert answers
        assert few_answers
    assert len(processes) == 3
    # gRPC ends a call that arrives in the very moment in which a replica closes. One that refused calls while
    # it drains would fail hundreds.
    late = [*few_errors, *stock_errors]
    assert len(late) <= 3, late
    assert all("CANCELLED" in str(error) or "UNAVAILABLE" in str(error) for error in late)
    assert errors == []


def test_a_replica_that_is_killed_loses_nothing_that_a_retry_does_not_save(serve, until):
    target = serve(min_replicas=2, max_replicas=2)
    with load(target) as (answers, errors):
        until(lambda: len(answers) > 20)
        killed = running()[0][0]
        os.kill(killed, signal.SIGKILL)
        count = len(answers)
        until(lambda: len(answers) > count + 50)
        until(lambda: len(running()) == 2 and killed not in dict(running()), seconds=90)
    assert errors == []


def test_a_node_that_is_killed_loses_nothing_that_a_retry_does_not_save(cluster, serve, until):
    target = serve(min_replicas=2, max_replicas=2, max_replicas_per_node=1)
    with load(target) as (answers, errors):
        until(lambda: len(answers) > 20)
        assert len({node for _, node in running()}) == 2
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
        count = len(answers)
        until(lambda: len(answers) > count + 50)
    assert errors == []
    cluster.add_node(num_cpus=2)  # without calls: Ray forks, and a process that forks within them can die
    with load(target) as (answers, errors):
        until(lambda: len({node for _, node in running()}) == 2, seconds=90)
        count = len(answers)
        until(lambda: len(answers) > count + 50)
    assert errors == []


def test_a_second_application_on_the_port_of_the_first_does_not_start(serve, base):
    from ray import serve as ray_serve

    target = serve()
    config = ServerConfig("half", base, port=int(target.rpartition(":")[2]))
    with pytest.raises(RuntimeError):
        ray_serve.run(application(config), name="other", route_prefix=None)
    told = str(ray_serve.status().applications["other"].deployments["Replica"].message)
    ray_serve.delete("other")
    assert "is used by the replicas of application 'half'" in told
    with Client(target, "half") as client:
        assert client.predict({"x": np.float32([4.0])})["y"] == [3.0]


def test_a_reload_that_would_reach_one_replica_of_several_is_refused(serve, base):
    with Client(serve(), "half") as client, pytest.raises(UnimplementedError, match="one server of several"):
        client.reload([ModelConfig("half", base)])


def test_a_new_version_replaces_the_old_one_without_a_failed_request(serve, base, until):
    target = serve(min_replicas=2, max_replicas=2)
    with load(target) as (_, errors):
        save(base, 2)

        def all_new():
            seen = set()
            for _ in range(10):  # a connection each, so that both replicas are asked
                with Client(target, "half") as client:
                    seen.add(float(client.predict({"x": np.float32([0.0])})["y"][0]))
            return seen == {2.0}

        until(all_new, seconds=60)
    assert errors == []


def test_settings_that_do_not_fit_are_refused():
    with pytest.raises(InvalidInputError, match="port must be fixed.* Received port=0"):
        application(ServerConfig("half", "/models", port=0))
    with pytest.raises(InvalidInputError, match="workers must be 1: Ray starts"):
        application(ServerConfig("half", "/models", workers=2))
    with pytest.raises(InvalidInputError, match="another one.* rest_api_port=8500"):
        application(ServerConfig("half", "/models", rest_api_port=8500))
    with pytest.raises(InvalidInputError, match="grpc_socket_path must be empty"):
        application(ServerConfig("half", "/models", grpc_socket_path="/tmp/socket"))
    for low, high in ((0, 1), (2, 1), (1, 1.5), (True, True)):
        with pytest.raises(InvalidInputError, match="min_replicas must be an integer from 1 to max_replicas"):
            application(ServerConfig("half", "/models"), min_replicas=low, max_replicas=high)
    for target in (0, float("inf"), float("nan"), "16"):
        with pytest.raises(InvalidInputError, match="target_ongoing_requests must be a positive number"):
            application(ServerConfig("half", "/models"), target_ongoing_requests=target)
    with pytest.raises(InvalidInputError, match="Received replicas"):
        app({"replicas": "2"})
    with pytest.raises(InvalidInputError, match="port must be of type int. Received 'x'"):
        app({"model_base_path": "/models", "port": "x"})


def test_a_missing_ray_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray.serve", None)
    with pytest.raises(InvalidInputError, match=r"pip install 'keras-selfattn\[ray\]'"):
        application(ServerConfig("half", "/models"))


def test_the_command_lines_texts_become_settings():
    pytest.importorskip("ray")
    arguments = {"model_base_path": "/models", "port": "9000", "enable_batching": "true", "max_replicas": "3"}
    made = app(arguments)
    deployment = made._bound_deployment
    (config,) = deployment.init_args
    assert (config.port, config.enable_batching, config.model_base_path) == (9000, True, "/models")
    assert deployment._deployment_config.autoscaling_config.max_replicas == 3
