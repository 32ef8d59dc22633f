"""The page on the REST port as HTTP: its files, what it is told of the models, and who is refused."""

import http.client
import json
import shutil
from pathlib import Path

import pytest

from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.server.page import static_files

STATIC = Path(static_files.__file__).parent / "static"
POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' blob: data:",
    "media-src": "blob:",
    "connect-src": "'self'",
    "form-action": "'none'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
}


@pytest.fixture(scope="module")
def server(half_base):
    with Server(ServerConfig("half", half_base, port=0, rest_api_port=-1, page=True)) as server:
        yield server


@pytest.fixture(scope="module")
def guarded(half_base, tmp_path_factory):
    file = tmp_path_factory.mktemp("tokens") / "tokens"
    file.write_text("right\n")
    settings = {"port": 0, "rest_api_port": -1, "auth_token_file": file}
    with Server(ServerConfig("half", half_base, page=True, **settings)) as server:
        yield server


def ask(server, path, method="GET", body=None, host=None, **headers):
    """The status, the headers and the body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=20)
    try:
        connection.putrequest(method, path, skip_host=host is not None)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        sent |= {} if host is None else {"Host": host}
        sent |= {} if body is None else {"Content-Length": str(len(body))}
        for name, value in sent.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def files():
    return sorted(path for path in STATIC.rglob("*") if path.is_file())


def test_each_file_is_served_as_it_is_with_its_type_and_a_strict_policy(server):
    types = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
    assert len(files()) > 10
    for path in files():
        name = path.relative_to(STATIC).as_posix()
        status, headers, body = ask(server, "/" if name == "index.html" else f"/page/static/{name}")
        assert (status, body) == (200, path.read_bytes()), name
        assert headers["content-type"].partition(";")[0] == types[path.suffix], name
        parts = [part.strip().partition(" ") for part in headers["content-security-policy"].split(";")]
        assert {key: value for key, _, value in parts} == POLICY
        assert headers["cache-control"] == "no-cache"
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_a_file_that_has_not_changed_is_not_sent_again(server):
    _, headers, body = ask(server, "/")
    tag = headers["etag"]
    assert ask(server, "/", if_none_match=f'"other", W/{tag}')[::2] == (304, b"")
    assert ask(server, "/", if_none_match='"other"')[::2] == (200, body)
    status, head, nothing = ask(server, "/", "HEAD")
    assert (status, head["content-length"], nothing) == (200, str(len(body)), b"")


@pytest.mark.parametrize("path", ["/", "/page/static/main.js", "/page/models"])
def test_the_page_is_only_read(server, path):
    for method in ("POST", "PUT", "DELETE"):
        status, _, body = ask(server, path, method, b"{}")
        assert status == 405, method
        assert "GET it" in json.loads(body)["error"]


@pytest.mark.parametrize(
    "path",
    ["/page/static/../served_models.py", "/page/static/%2e%2e/served_models.py", "/page/", "/page/none"],
)
def test_nothing_else_is_under_its_paths(server, path):
    assert ask(server, path)[0] == 404


def test_there_is_no_page_unless_asked_for(half_base):
    with Server(ServerConfig("half", half_base, port=0, rest_api_port=-1)) as server:
        assert [ask(server, path)[0] for path in ("/", "/page/models", "/page/static/main.js")] == [404] * 3
        assert ask(server, "/v1/models", host="evil.example")[0] == 200, "REST is as it was"


def test_it_is_told_the_models_their_versions_and_how_else_to_ask(server):
    status, headers, body = ask(server, "/page/models")
    assert (status, headers["cache-control"]) == (200, "no-store")
    told = json.loads(body)
    assert told["models"] == [
        {"name": "half", "labels": {}, "versions": [{"version": "3", "state": "AVAILABLE", "error": ""}]}
    ]
    assert told["grpc_port"] == server.port
    assert told["metrics_path"] == "/monitoring/prometheus/metrics"
    assert (told["needs_token"], told["grpc_tls"], told["rest_tls"]) == (False, False, False)


def test_a_version_has_its_card_without_numbers_that_json_lacks(half_base, tmp_path):
    version = shutil.copytree(half_base / "3", tmp_path / f"{2**63 - 1}")  # nanoseconds have as many digits
    card = '{"format": 1, "files": {"digest": "", "bytes": 1}, "metrics": {"loss": NaN}, "labels": ["ü"]}'
    (version / "assets.extra").mkdir()
    (version / "assets.extra" / "model_card.json").write_text(card, encoding="utf-8")
    with Server(ServerConfig("käse", tmp_path, port=0, rest_api_port=-1, page=True)) as server:
        status, _, body = ask(server, f"/page/models/k%C3%A4se/versions/{2**63 - 1}/card")
        assert status == 200
        assert json.loads(body)["card"] == {**json.loads(card), "metrics": {"loss": None}}
        for other in (6, 2**63):
            assert ask(server, f"/page/models/k%C3%A4se/versions/{other}/card")[0] == 404


@pytest.mark.parametrize(
    "host", ["localhost:1", "LOCALHOST", "127.0.0.1:8501", "[::1]:8501", "a.localhost", "10.1.2.3"]
)
def test_names_and_addresses_of_no_web_site_are_answered(server, host):
    assert ask(server, "/page/models", host=host)[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8501", "localhost.evil.example", "127.0.0.1.evil.example", "["]
)
def test_a_site_that_points_its_name_at_this_machine_reads_nothing(server, host):
    for path in ("/", "/page/models", "/v1/models", "/v2/models/half", "/monitoring/prometheus/metrics"):
        status, _, body = ask(server, path, host=host)
        assert status == 421, path
        assert "localhost" in json.loads(body)["error"]
    assert ask(server, "/readyz", host=host)[0] == 200, "health checks are for all"


ASKED = b'{"instances": [2.0]}'
PREDICT = "/v1/models/half:predict"


def test_a_page_of_another_origin_cannot_have_the_models_compute(server):
    host = f"127.0.0.1:{server.rest_port}"
    for headers in (
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site", "origin": f"http://{host}"},
    ):
        assert ask(server, PREDICT, "POST", ASKED, **headers)[0] == 403, headers
    for headers in (
        {},
        {"origin": f"http://{host}"},
        {"sec_fetch_site": "same-origin", "origin": "https://proxy.example"},
    ):
        assert ask(server, PREDICT, "POST", ASKED, **headers)[::2] == (200, b'{"predictions":[3.0]}'), headers


def test_with_cors_pages_of_other_origins_are_answered(half_base):
    settings = {"port": 0, "rest_api_port": -1, "page": True, "rest_api_enable_cors_support": True}
    with Server(ServerConfig("half", half_base, **settings)) as server:
        assert ask(server, PREDICT, "POST", ASKED, origin="http://other.example")[0] == 200


def test_files_are_for_all_and_what_is_known_of_models_for_those_with_a_token(guarded):
    assert [ask(guarded, path)[0] for path in ("/", "/page/static/main.js")] == [200, 200]
    for path in ("/page/models", "/page/models/half/versions/3/card"):
        assert ask(guarded, path)[0] == 401
        assert ask(guarded, path, authorization="Bearer right")[0] == 200
    assert json.loads(ask(guarded, "/page/models", authorization="Bearer right")[2])["needs_token"] is True
