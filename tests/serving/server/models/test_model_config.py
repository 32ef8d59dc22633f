"""Several models: what the file of models says, labels and policies, and how the list changes."""

import shutil
import threading
import time
from pathlib import Path

import grpc
import numpy as np
import pytest
import tensorflow as tf
from grpc_health.v1 import health_pb2, health_pb2_grpc
from serving_models import HalfPlusTwo, Slow, save
from tensorflow_serving.apis import (
    model_management_pb2,
    model_service_pb2_grpc,
    prediction_log_pb2,
)
from tensorflow_serving.config import model_server_config_pb2

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import Client, Label, ModelConfig
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.server.models.model_config import listed_models
from keras_selfattn.serving.server.models.version_policy import Policy, selected
from keras_selfattn.serving.wire import messages_pb2 as pb

QUICK = 0.05  # seconds between looks


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with versions 1 and 2 of a model: x / 2 + version."""
    folder = tmp_path_factory.mktemp("saved")
    for version in (1, 2):
        save(HalfPlusTwo(b=float(version)), folder, version)
    return folder


@pytest.fixture
def bases(saved, tmp_path):
    """The base paths of two models like `saved`."""
    return {name: shutil.copytree(saved, tmp_path / name) for name in ("left", "right")}


def entry(name, base, more=""):
    return f"config {{ name: '{name}' base_path: '{base}' model_platform: 'tensorflow' {more} }}"


def write(file, *entries):
    file.write_text(f"model_config_list {{ {' '.join(entries)} }}")
    return file


@pytest.fixture
def serve(tmp_path):
    """Serves what a file of models lists; gives the server."""
    opened = []

    def start(*entries, **settings):
        file = write(tmp_path / "models.conf", *entries)
        settings = {"file_system_poll_wait_seconds": QUICK, **settings}
        server = Server(ServerConfig(model_config_file=file, port=0, **settings)).start()
        opened.append(server)
        return server

    yield start
    for server in opened:
        server.stop(grace=0)


@pytest.fixture
def ask():
    """Asks a server's model for x = 0, which it answers with its version."""
    clients = []

    def predict(server, model, **kwargs):
        client = Client(server.target, model)
        clients.append(client)
        return client.predict({"x": np.float32([0])}, **kwargs)["y"].item()

    yield predict
    for client in clients:
        client.close()


def break_version(path):
    (path / "saved_model.pb").write_bytes(b"\xff" * 100)


def state_of(server, model, version):
    with Client(server.target, model) as client:
        return {each.version: each.state for each in client.status()}[version]


def reload(server, *models, timeout=60):
    with Client(server.target) as client:
        client.reload(list(models), timeout=timeout)


def refused(call, *args):
    with pytest.raises(grpc.RpcError) as caught:
        call(*args, timeout=20)
    return caught.value.code().name, caught.value.details()


def test_each_model_of_the_file_is_served_by_its_name(bases, serve, ask):
    server = serve(entry("a", bases["left"]), entry("b", f"file://{bases['right']}"))
    assert (ask(server, "a"), ask(server, "b")) == (2.0, 2.0)
    with pytest.raises(errors.NotFoundError, match=r"Servable not found for request: Latest\(c\)"):
        ask(server, "c")


@pytest.mark.parametrize(
    ("policy", "served"),
    [
        ("", [2]),
        ("model_version_policy { latest { num_versions: 2 } }", [2, 1]),
        ("model_version_policy { all {} }", [2, 1]),
        ("model_version_policy { specific { versions: 1 versions: 7 } }", [1]),
    ],
)
def test_the_policy_says_which_versions_are_served(bases, serve, ask, policy, served):
    server = serve(entry("a", bases["left"], policy))
    assert ask(server, "a") == max(served)
    for version in (1, 2):
        if version in served:
            assert ask(server, "a", version=version) == version
        else:
            with pytest.raises(errors.NotFoundError, match=rf"Specific\(a, {version}\)"):
                ask(server, "a", version=version)


def test_a_policy_of_all_takes_new_versions_in_and_lets_removed_ones_go(bases, serve, ask, until):
    server = serve(entry("a", bases["left"], "model_version_policy { all {} }"))
    save(HalfPlusTwo(b=3.0), bases["left"], 3)
    shutil.rmtree(bases["left"] / "1")
    until(lambda: server.models.available() == {"a": [2, 3]})
    assert (ask(server, "a"), ask(server, "a", version=2)) == (3.0, 2.0)


def test_of_the_latest_two_a_broken_one_is_replaced_by_the_next(bases, serve, ask):
    break_version(bases["left"] / "2")
    server = serve(entry("a", bases["left"]))
    assert ask(server, "a") == 1.0
    with Client(server.target, "a") as client:
        broken = client.status()[0]
    assert (broken.version, broken.state, broken.code.name) == (2, "END", "UNKNOWN")
    assert str(bases["left"]) not in broken.message


def test_labels_name_versions(bases, serve, ask):
    labels = "version_labels { key: 'stable' value: 1 } version_labels { key: 'canary' value: 2 }"
    server = serve(entry("a", bases["left"], f"model_version_policy {{ all {{}} }} {labels}"))
    assert (ask(server, "a", version=Label("stable")), ask(server, "a", version=Label("canary"))) == (
        1.0,
        2.0,
    )
    with pytest.raises(errors.InvalidArgumentError, match="Unrecognized servable version label: new"):
        ask(server, "a", version=Label("new"))


def test_a_label_for_a_version_that_is_not_there_is_refused_and_the_old_one_kept(bases, serve, ask):
    server = serve(entry("a", bases["left"], "version_labels { key: 'stable' value: 2 }"))
    with pytest.raises(errors.FailedPreconditionError) as caught:
        reload(server, ModelConfig("a", str(bases["left"]), labels={"stable": 1}))
    assert caught.value.details == (
        "Request to assign label to version 1 of model a, which is not currently available for inference"
    )
    assert ask(server, "a", version=Label("stable")) == 2.0


def test_a_label_for_a_version_that_is_not_there_is_accepted_where_allowed(bases, serve, ask):
    server = serve(entry("a", bases["left"]), allow_version_labels_for_unavailable_models=True)
    reload(server, ModelConfig("a", str(bases["left"]), labels={"next": 3}))
    with pytest.raises(errors.NotFoundError, match=r"Specific\(a, 3\)"):
        ask(server, "a", version=Label("next"))


def test_a_label_and_its_new_version_come_in_one_reload(bases, serve, ask):
    server = serve(entry("a", bases["left"], "model_version_policy { specific { versions: 1 } }"))
    reload(server, ModelConfig("a", str(bases["left"]), versions=[1, 2], labels={"canary": 2, "stable": 1}))
    assert (ask(server, "a", version=Label("canary")), ask(server, "a", version=Label("stable"))) == (
        2.0,
        1.0,
    )


def test_a_reload_adds_changes_and_removes_models(bases, serve, ask, until):
    server = serve(entry("a", bases["left"]), entry("b", bases["right"]))
    save(HalfPlusTwo(b=30.0), bases["right"].parent / "other", 2)
    reload(
        server,
        ModelConfig("b", str(bases["right"].parent / "other")),  # the same version, from elsewhere
        ModelConfig("c", str(bases["left"]), versions=[1]),
    )
    assert (ask(server, "b"), ask(server, "c")) == (30.0, 1.0)
    with pytest.raises(errors.NotFoundError, match=r"Latest\(a\)"):
        ask(server, "a")
    until(lambda: state_of(server, "a", 2) == "END")
    assert state_of(server, "b", 2) == "AVAILABLE"
    reload(server, ModelConfig("a", str(bases["left"])))
    assert ask(server, "a") == 2.0


@pytest.mark.slow
def test_a_request_that_runs_outlives_the_removal_of_its_model(tmp_path, serve, in_background, until):
    save(Slow(), tmp_path / "slow")
    server = serve(entry("slow", tmp_path / "slow"))
    with Client(server.target, "slow") as client:
        running = in_background(client.predict, {"seconds": np.float32(2)})
        until(lambda: server.models._models["slow"].running == 1)
        reload(server)
        assert state_of(server, "slow", 1) == "UNLOADING"
        assert running.result()["rounds"] > 0
        until(lambda: state_of(server, "slow", 1) == "END")


def test_a_reload_tells_which_model_has_nothing_to_serve_and_serves_the_others(bases, serve, ask, tmp_path):
    server = serve(entry("a", bases["left"]))
    break_version(save(HalfPlusTwo(), tmp_path / "broken"))
    with pytest.raises(errors.UnknownError) as caught:
        reload(server, ModelConfig("b", str(bases["right"])), ModelConfig("bad", str(tmp_path / "broken")))
    assert caught.value.details.startswith(
        "1 model(s) did not become available: {{{name: bad} due to error: "
    )
    assert str(tmp_path) not in caught.value.details
    assert ask(server, "b") == 2.0


@pytest.mark.slow
def test_a_reload_whose_model_does_not_come_answers_before_its_deadline(bases, serve, ask, tmp_path):
    server = serve(entry("a", bases["left"]))
    (tmp_path / "none").mkdir()
    with pytest.raises(errors.UnknownError, match="none has no version"):
        reload(
            server, ModelConfig("a", str(bases["left"])), ModelConfig("n", str(tmp_path / "none")), timeout=2
        )
    assert ask(server, "a") == 2.0
    save(HalfPlusTwo(b=5.0), tmp_path / "none", 5)
    deadline = time.monotonic() + 20
    while not server.models.available()["n"]:
        assert time.monotonic() < deadline
        threading.Event().wait(QUICK)
    assert ask(server, "n") == 5.0


def test_reloads_that_are_wrong_change_nothing(bases, serve, ask):
    server = serve(entry("a", bases["left"]))
    with grpc.insecure_channel(server.target) as channel:
        call = model_service_pb2_grpc.ModelServiceStub(channel).HandleReloadConfigRequest

        def words(*models):
            request = model_management_pb2.ReloadConfigRequest()
            for fields in models:
                request.config.model_config_list.config.add(**fields)
            return refused(call, request)

        plain = {"name": "m", "base_path": "/m", "model_platform": "tensorflow"}
        assert words(plain, plain) == (
            "INVALID_ARGUMENT",
            "Illegal to list model m multiple times in config list",
        )
        assert words(plain | {"base_path": "m"}) == (
            "INVALID_ARGUMENT",
            "Expected model m to have an absolute path or URI; got base_path()=m",
        )
        code, message = words(plain | {"base_path": "cloud://bucket/m"})
        assert code == "INVALID_ARGUMENT"
        assert "base path of model m cannot be read: cloud://bucket/m" in message
        assert words(plain | {"model_platform": "caffe"}) == (
            "INVALID_ARGUMENT",
            "Model m requests unsupported platform caffe",
        )
        assert words(plain | {"model_platform": ""}) == (
            "INVALID_ARGUMENT",
            "Illegal setting neither ModelServerConfig::model_type (deprecated) nor "
            "ModelServerConfig::model_platform, model name is m",
        )
        request = model_management_pb2.ReloadConfigRequest()
        assert refused(call, request) == (
            "INVALID_ARGUMENT",
            "ServerModelConfig type not supported by HandleReloadConfigRequest. Only ModelConfigList is "
            "currently supported",
        )
    assert ask(server, "a") == 2.0


@pytest.mark.parametrize("base", ["cloud://bucket/m", Path("cloud://bucket/m")])
def test_a_base_path_on_a_file_system_that_nobody_knows_is_refused(base):
    with pytest.raises(
        errors.InvalidArgumentError, match="base path of model m cannot be read: cloud://bucket/m "
    ):
        Server(ServerConfig("m", base))


def test_a_base_path_may_be_a_file_uri(bases, ask):
    with Server(ServerConfig("m", f"file://{bases['left']}", port=0)) as server:
        assert ask(server, "m") == 2.0


def test_a_model_named_by_its_deprecated_type_is_served():
    model = pb.ModelConfig(name="m", base_path="/m", model_type=1)
    config = pb.ModelServerConfig(model_config_list=pb.ModelConfigList(config=[model]))
    assert listed_models(config)["m"].name == "m"
    stock = model_server_config_pb2.ModelServerConfig.FromString(config.SerializeToString())
    assert stock.model_config_list.config[0].model_type == model_server_config_pb2.TENSORFLOW


def test_the_file_of_models_is_followed(bases, serve, ask, until, tmp_path):
    server = serve(entry("a", bases["left"]), model_config_file_poll_wait_seconds=QUICK)
    write(tmp_path / "models.conf", entry("b", bases["right"]))
    until(lambda: server.models.available() == {"b": [2]})
    (tmp_path / "models.conf").write_text("model_config_list {")  # somebody is still writing
    threading.Event().wait(5 * QUICK)
    assert ask(server, "b") == 2.0
    write(tmp_path / "models.conf", entry("a", bases["left"]), entry("b", bases["right"]))
    until(lambda: server.models.available() == {"a": [2], "b": [2]})


def test_the_file_of_models_is_read_once_unless_told_otherwise(bases, serve, tmp_path):
    server = serve(entry("a", bases["left"]))
    write(tmp_path / "models.conf", entry("b", bases["right"]))
    threading.Event().wait(5 * QUICK)
    assert server.models.available() == {"a": [2]}


def test_a_broken_or_missing_model_does_not_hold_up_the_others(bases, serve, ask, until, tmp_path):
    break_version(save(HalfPlusTwo(), tmp_path / "broken"))
    server = serve(
        entry("broken", tmp_path / "broken"), entry("none", tmp_path / "none"), entry("a", bases["left"])
    )
    assert ask(server, "a") == 2.0
    save(HalfPlusTwo(b=3.0), bases["left"], 3)
    until(lambda: server.models.available()["a"] == [3])
    save(HalfPlusTwo(b=7.0), tmp_path / "none", 7)
    until(lambda: server.models.available()["none"] == [7])
    save(HalfPlusTwo(b=1.0), tmp_path / "broken", 1)
    until(lambda: server.models.available()["broken"] == [1])
    assert (ask(server, "none"), ask(server, "broken")) == (7.0, 1.0)


def test_health_is_told_for_each_model_and_overall(bases, serve, until, tmp_path):
    server = serve(entry("a", bases["left"]), entry("none", tmp_path / "none"))
    with grpc.insecure_channel(server.target) as channel:
        health = health_pb2_grpc.HealthStub(channel)

        def status(service):
            return health.Check(health_pb2.HealthCheckRequest(service=service), timeout=20).status

        assert [status(name) for name in ("", "a", "none", "tensorflow.serving.PredictionService")] == [
            1,
            1,
            2,
            1,
        ]
        assert refused(health.Check, health_pb2.HealthCheckRequest(service="other"))[0] == "NOT_FOUND"
        shutil.rmtree(bases["left"])
        (bases["left"]).mkdir()
        until(lambda: [status(name) for name in ("", "a")] == [2, 2])
        save(HalfPlusTwo(), tmp_path / "none")
        until(lambda: [status(name) for name in ("", "none")] == [1, 1])
        with pytest.raises(errors.UnknownError):
            reload(server, *(ModelConfig(name, str(tmp_path / name)) for name in ("none", "new")))
        until(lambda: [status(name) for name in ("", "none", "new")] == [1, 1, 2])
        assert status("a") == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


def test_a_server_with_an_empty_list_waits_for_a_reload(bases, serve, ask):
    server = serve()
    with (
        Client(server.target, "a") as client,
        pytest.raises(errors.NotFoundError, match="Could not find any versions of model a"),
    ):
        client.status()
    reload(server, ModelConfig("a", str(bases["left"])))
    assert ask(server, "a") == 2.0


def test_a_server_with_nothing_to_serve_yet_waits_as_long_as_it_is_told(tmp_path, in_background, ask):
    config = ServerConfig(
        "late", tmp_path, port=0, startup_wait_seconds=60, file_system_poll_wait_seconds=QUICK
    )
    server = Server(config)
    starting = in_background(server.start)
    threading.Event().wait(5 * QUICK)
    assert not starting.done()
    save(HalfPlusTwo(b=4.0), tmp_path, 4)
    try:
        assert ask(starting.result(40), "late") == 4.0
    finally:
        server.stop(grace=0)


def test_a_file_of_models_that_does_not_parse_is_told_where(tmp_path):
    file = tmp_path / "models.conf"
    file.write_text("model_config_list: {\n  config: { nothing: 3 } }")
    with pytest.raises(errors.InvalidArgumentError) as caught:
        Server(ServerConfig(model_config_file=file, port=0))
    assert str(caught.value) == f"Invalid protobuf file: '{file}'"
    assert caught.value.cause == (
        "Error parsing text-format tensorflow.serving.ModelServerConfig: 2:13: Message type "
        '"tensorflow.serving.ModelConfig" has no field named "nothing".'
    )
    with pytest.raises(errors.InvalidArgumentError, match="Invalid protobuf file"):
        Server(ServerConfig(model_config_file=tmp_path / "none", port=0))


def test_the_latest_policy_asks_for_as_many_as_it_says():
    policy = Policy(latest=Policy.Latest(num_versions=3))
    assert selected(policy, [5, 1, 9]) == ([9, 5, 1], 3)
    assert selected(Policy(), [5, 1]) == ([5, 1], 1)


def test_a_file_that_somebody_has_just_emptied_changes_nothing_and_an_empty_list_unloads(
    bases, serve, ask, until, tmp_path
):
    server = serve(entry("a", bases["left"]), model_config_file_poll_wait_seconds=QUICK)
    (tmp_path / "models.conf").write_text("")
    threading.Event().wait(5 * QUICK)
    assert ask(server, "a") == 2.0
    write(tmp_path / "models.conf")
    until(lambda: server.models.available() == {})


def test_labels_of_a_model_that_comes_late_are_there_when_it_is(bases, serve, ask, until, tmp_path):
    late, label = tmp_path / "late", "version_labels {{ key: 'stable' value: {} }}"
    server = serve(entry("a", bases["left"]), model_config_file_poll_wait_seconds=QUICK)
    write(
        tmp_path / "models.conf",
        entry("a", bases["left"], label.format(2)),
        entry("late", late, label.format(5)),
    )
    until(lambda: "late" in server.models.available())
    until(lambda: ask_or_none(ask, server, "a", "stable") == 2.0)
    save(HalfPlusTwo(b=5.0), late, 5)
    until(lambda: ask_or_none(ask, server, "late", "stable") == 5.0)


def ask_or_none(ask, server, model, label):
    try:
        return ask(server, model, version=Label(label))
    except errors.ServingError:
        return None


def test_a_reload_to_a_place_with_nothing_says_so_and_what_served_goes_on(bases, serve, ask, tmp_path):
    server = serve(entry("a", bases["left"]))
    with pytest.raises(errors.UnknownError, match="none does not exist"):
        reload(server, ModelConfig("a", str(tmp_path / "none")))
    assert ask(server, "a") == 2.0


def test_a_link_that_is_switched_over_leads_to_the_other_version_of_the_same_number(
    bases, serve, ask, until, tmp_path
):
    save(HalfPlusTwo(b=20.0), tmp_path / "other", 2)
    link = tmp_path / "link"
    link.symlink_to(bases["left"])
    server = serve(entry("a", link))
    assert ask(server, "a") == 2.0
    (tmp_path / "next").symlink_to(tmp_path / "other")
    (tmp_path / "next").rename(link)
    until(lambda: ask(server, "a") == 20.0)


def test_a_number_that_no_request_can_ask_for_is_no_version(bases, serve, ask):
    save(HalfPlusTwo(b=9.0), bases["left"], 20240101120000000000)
    assert ask(serve(entry("a", bases["left"])), "a") == 2.0


@pytest.fixture
def hanging(tmp_path):
    """A model whose warmup does not end."""
    version = save(Slow(), tmp_path / "hanging")
    log = prediction_log_pb2.PredictionLog()
    log.predict_log.request.model_spec.name = "hanging"
    log.predict_log.request.inputs["seconds"].CopyFrom(tf.make_tensor_proto(np.float32(1000)))
    (version / "assets.extra").mkdir()
    with tf.io.TFRecordWriter(str(version / "assets.extra" / "tf_serving_warmup_requests")) as writer:
        writer.write(log.SerializeToString())
    return tmp_path / "hanging"


@pytest.mark.slow
def test_a_warmup_that_hangs_holds_up_neither_other_models_nor_the_end(bases, serve, ask, until, hanging):
    server = serve(entry("a", bases["left"]), num_load_threads=1)
    with pytest.raises(errors.DeadlineExceededError):
        reload(server, ModelConfig("h", str(hanging)), ModelConfig("b", str(bases["right"])), timeout=2)
    until(lambda: server.models.available() == {"h": [], "b": [2]})
    assert state_of(server, "h", 1) == "LOADING"
    reload(server, ModelConfig("b", str(bases["right"])))
    until(lambda: state_of(server, "h", 1) == "END")
    assert ask(server, "b") == 2.0
    server.stop(grace=0)
    assert server.wait(0)


@pytest.mark.slow
def test_a_reload_without_a_deadline_does_not_hold_up_the_end(bases, serve, hanging):
    server = serve(entry("a", bases["left"]))
    with grpc.insecure_channel(server.target) as channel:
        call = channel.unary_unary("/tensorflow.serving.ModelService/HandleReloadConfigRequest")
        config = pb.ModelServerConfig()
        config.model_config_list.config.add(name="h", base_path=str(hanging), model_platform="tensorflow")
        waiting = call.future(pb.ReloadConfigRequest(config=config).SerializeToString())
        threading.Event().wait(1)
        server.stop(grace=0)
        assert server.wait(0)
        assert waiting.exception(20) is not None


def test_a_server_starts_once(bases, serve, ask):
    server = serve(entry("a", bases["left"]))
    with pytest.raises(RuntimeError, match="a Server starts once"):
        server.start()
    assert ask(server, "a") == 2.0
