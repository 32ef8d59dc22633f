"""Versions that are swapped, and folders that are deleted, while requests come in all the time."""

import shutil
import time

import grpc
import numpy as np
import pytest
from load import clients
from served import predict_request, until
from serving_models import HalfPlusTwo, save

from keras_selfattn.serving.wire import codec
from keras_selfattn.serving.wire import messages_pb2 as pb

KINDS = 4  # of versions, which take turns: version v adds v % KINDS
OK = grpc.StatusCode.OK
NOT_FOUND = (grpc.StatusCode.NOT_FOUND, "Servable not found for request: Latest(doomed)")


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    """One model of each kind, to be copied from."""
    folder = tmp_path_factory.mktemp("kinds")
    return [save(HalfPlusTwo(b=float(kind)), folder, kind + 1) for kind in range(KINDS)]


@pytest.fixture(scope="module")
def place(kinds, tmp_path_factory):
    """Puts a version of a model into its place at once."""
    staging = tmp_path_factory.mktemp("staging")

    def put(base, version):
        base.mkdir(exist_ok=True)
        shutil.copytree(kinds[version % KINDS], staging / "new")
        (staging / "new").rename(base / str(version))

    return put


@pytest.fixture(scope="module")
def server(serve, place, half_base, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name in ("swapped", "doomed"):
        place(folder / name, 1)
    models = {"half": half_base, "swapped": folder / "swapped", "doomed": folder / "doomed"}
    return serve(models, "--file_system_poll_wait_seconds=0.1").wait()


@pytest.fixture(autouse=True)
def _unharmed(server):
    yield
    server.assert_answers()
    assert server.unexpected() == []


def asks(server, model):
    """A function that asks for x = 2: the code, and the version and what it added or the words."""
    request = predict_request(model, x=np.float32([2]))

    def ask(channel):
        code, data = server.call(request, channel=channel)
        if code is not OK:
            return code, data
        response = pb.PredictResponse.FromString(data)
        return code, (response.model_spec.version.value, codec.decode(response.outputs["y"]).item() - 1)

    return ask


def newest(server, model):
    request = pb.GetModelStatusRequest(model_spec=pb.ModelSpec(name=model)).SerializeToString()
    _, data = server.call(request, "ModelService/GetModelStatus")
    states = pb.GetModelStatusResponse.FromString(data).model_version_status
    return max(
        (each.version for each in states if each.state == pb.ModelVersionStatus.AVAILABLE), default=None
    )


@pytest.mark.shortened
def test_a_version_a_second_under_load_costs_not_one_request(server, place, whole):
    base = server.models["swapped"]
    seconds = 60 if whole else 5
    with clients(server, 32, asks(server, "swapped")) as answers:
        started = time.monotonic()
        for version in range(2, seconds + 2):
            place(base, version)
            until(lambda version=version: newest(server, "swapped") == version)
            shutil.rmtree(base / str(version - 1))
            until(lambda ends=started + version - 1: time.monotonic() >= ends)
    assert [answer for answer in answers if answer[0] is not OK] == []
    found = {answer for _, answer in answers}
    assert found == {(version, version % KINDS) for version in range(1, seconds + 2)}
    print(f"{len(answers)} requests, {len(found)} versions, none failed")


def test_a_model_whose_folder_is_deleted_is_not_found_and_comes_back(server, place):
    base = server.models["doomed"]
    with (
        clients(server, 4, asks(server, "doomed")) as doomed,
        clients(server, 4, asks(server, "half")) as others,
    ):
        until(lambda: len(doomed) > 10)
        shutil.rmtree(base / "1")
        until(lambda: NOT_FOUND in doomed[-10:])
        shutil.rmtree(base)
        seen = len(others)
        until(lambda: len(others) > seen + 10)
        place(base, 2)
        until(lambda: (OK, (2, 2)) in doomed[-10:])
    assert {*doomed} == {(OK, (1, 1)), NOT_FOUND, (OK, (2, 2))}
    assert {*others} == {(OK, (3, 2))}


def test_a_base_path_deleted_at_once_changes_nothing_until_it_is_back(server, place):
    """A file system that is away for a moment is no reason to stop answering."""
    base = server.models["doomed"]
    until(lambda: newest(server, "doomed") is not None)
    before = newest(server, "doomed")
    with clients(server, 4, asks(server, "doomed")) as answers:
        base.rename(base.with_name("away"))
        shutil.rmtree(base.with_name("away"))
        until(lambda: f"{base} does not exist" in server.log())
        place(base, before + 1)
        until(lambda: (OK, (before + 1, before + 1)) in answers[-10:])
    assert {*answers} == {(OK, (before, before)), (OK, (before + 1, before + 1))}
