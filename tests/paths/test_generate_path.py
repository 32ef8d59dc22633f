"""Settings of a search by request: of an exported model on our server, over gRPC and REST."""

import json
import threading
import urllib.error
import urllib.request

import pytest
from small_writer import ASKED, made

from keras_selfattn.export import export_saved_model, read_card
from keras_selfattn.serving import errors
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig

pytestmark = [pytest.mark.slow, pytest.mark.process]


@pytest.fixture(scope="module")
def model():
    return made(3)


@pytest.fixture(scope="module")
def base(model, tmp_path_factory):
    found = tmp_path_factory.mktemp("writer")
    export_saved_model(model, found)
    return found


@pytest.fixture(scope="module")
def server(base):
    with Server(ServerConfig("writer", str(base), port=0, rest_api_port=-1)) as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    with Client(server.target, "writer", timeout=60) as client:
        client.wait_until_ready(60)
        yield client


def check(found, wanted):
    """Answers of a client are those of a model."""
    for answer, other in zip(found, wanted, strict=True):
        assert (answer.text, answer.ended) == (other.text, other.ended)
        assert answer.score == pytest.approx(other.score, abs=1e-5)
        assert tuple(each.text for each in answer.candidates) == other.candidates


@pytest.mark.parametrize(
    "settings",
    [{}, {"beams": 1}, {"beams": 2, "length_penalty": 0.0}, {"max_new_tokens": 4, "prefix": "cb"}],
)
def test_the_client_has_the_answers_of_the_model_with_the_same_settings(model, client, settings):
    check(client.generate(ASKED, **settings), model.generate(ASKED, **settings))


def test_callers_with_different_settings_have_their_own_answers_at_once(model, client):
    asked = [{"beams": 1}, {"prefix": "c"}, {"max_new_tokens": 2}, {"beams": 2}] * 4
    found: list = [None] * len(asked)

    def ask(place):
        found[place] = client.generate([ASKED[place % 8]], **asked[place])

    callers = [threading.Thread(target=ask, args=(place,)) for place in range(len(asked))]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for place, settings in enumerate(asked):
        check(found[place], model.generate([ASKED[place % 8]], **settings))


def ask_rest(server, **body):
    body = json.dumps({"signature_name": "generate", **body}).encode()
    with urllib.request.urlopen(f"{server.rest_url}/v1/models/writer:predict", body, timeout=60) as answer:
        return json.loads(answer.read())


def test_rest_takes_any_of_the_settings_and_the_rest_by_default(model, server, client):
    rows = [{"text": "abc", "prefix": "c"}, {"text": "b", "prefix": ""}]
    found = ask_rest(server, instances=rows)["predictions"]
    wanted = model.generate(["abc", "b"], prefix=["c", ""])
    assert [each["text"] for each in found] == [answer.text for answer in wanted]
    columns = ask_rest(server, inputs={"text": ["abc", "b", "two"], "beams": [1]})["outputs"]
    assert columns["text"] == [answer.text for answer in model.generate(["abc", "b", "two"], beams=1)]
    # In the client, too, what has a default may be left out.
    left_out = client.predict({"text": ["abc"]}, signature="generate")
    assert left_out["text"].tolist() == [model.generate(["abc"])[0].text]


def test_values_out_of_the_export_s_range_are_refused_over_both_protocols(server, client):
    with pytest.raises(
        errors.InvalidArgumentError, match=r"beams must be from 1 to the 3 of the export.*\[4\]"
    ):
        client.generate(["a"], beams=4)
    with pytest.raises(errors.InvalidArgumentError, match=r"prefix must be of symbols that .*\[☃\]"):
        client.generate(["a"], prefix="☃")
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask_rest(server, inputs={"text": ["abc"], "max_new_tokens": [10]})
    assert refused.value.code == 400
    assert "max_new_tokens must be from 1 to the 9 of the export" in refused.value.read().decode()


def test_the_card_tells_the_defaults_and_servers_count_the_beams_of_a_request(base):
    card = read_card(base / "1")
    inputs = card["signatures"]["generate"]["inputs"]
    assert {name: each["default"] for name, each in inputs.items() if "default" in each} == {
        "max_new_tokens": 0,
        "beams": 0,
        "length_penalty": -1,
        "prefix": "",
    }
    row, beam = card["decoding"]["row_bytes"], card["decoding"]["beam_bytes"]
    assert 0 < 3 * beam < row
    config = ServerConfig("writer", str(base), port=0, rest_api_port=-1, max_request_search_bytes=2 * row)
    with Server(config) as server, Client(server.target, "writer", timeout=60) as client:
        client.wait_until_ready(60)
        texts = ["a"] * 3
        assert len(client.generate(texts, beams=1)) == 3
        for settings in ({}, {"beams": 3}, {"max_new_tokens": 2}):
            with pytest.raises(errors.InvalidArgumentError, match="Send 2 or fewer at a time"):
                client.generate(texts, **settings)
