"""A request over REST that asks for another protocol is answered in HTTP/1.1, and its body is read once."""

import http.client
import re
import shutil
import socket
import ssl
import subprocess
import time

import certificates
import pytest
from test_bearer_tokens import encrypted, ssl_config

from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.server.rest.connection import HEAD_BYTES

# As Java's HTTP client and `curl --http2` send them.
H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk\r\n"
WEBSOCKET = b"Connection: keep-alive, upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
WITHOUT_SETTINGS = b"Upgrade: foo/1, h2c\r\nconnection: UPGRADE\r\n"
POST = b"POST /v1/models/half:predict HTTP/1.1\r\nHost: x\r\n"
BODY = b'{"instances": [2.0]}'
GET = b"GET /v1/models/half HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(scope="module")
def server(half_base):
    with Server(ServerConfig("half", half_base, port=0, rest_api_port=-1)) as server:
        yield server


@pytest.fixture
def connected(server):
    with socket.create_connection(("127.0.0.1", server.rest_port), timeout=20) as connected:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield connected


def request(asked=b"", body=BODY, head=POST):
    return head + b"Content-Length: %d\r\n" % len(body) + asked + b"\r\n" + body


def chunked(asked=b""):
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in (BODY[:7], BODY[7:], b""))
    return POST + b"Transfer-Encoding: chunked\r\n" + asked + b"\r\n" + chunks


def answers(connected, count):
    """The status and the body of each of `count` answers, after which the server says nothing more."""
    found, received = [], b""
    while len(found) < count:
        while not (head := re.match(rb"HTTP/1.1 (\d+).*?content-length: (\d+).*?\r\n\r\n", received, re.S)):
            chunk = connected.recv(2**16)
            assert chunk, f"hung up after {received!r}"
            received += chunk
        end = head.end() + int(head[2])
        while len(received) < end:
            received += connected.recv(2**16)
        found.append((int(head[1]), received[head.end() : end]))
        received = received[end:]
    connected.settimeout(0.1)
    with pytest.raises(TimeoutError):
        received += connected.recv(2**16)
    assert received == b""
    connected.settimeout(20)
    return found


ANSWERED = (200, b'{"predictions":[3.0]}')


@pytest.mark.parametrize("asked", [H2C, WEBSOCKET, WITHOUT_SETTINGS], ids=["h2c", "websocket", "bare"])
@pytest.mark.parametrize("made", [request, chunked])
def test_a_request_that_asks_for_an_upgrade_is_answered(connected, asked, made):
    connected.sendall(made(asked))
    assert answers(connected, 1) == [ANSWERED]
    connected.sendall(made())
    assert answers(connected, 1) == [ANSWERED], "the connection goes on in HTTP/1.1"


@pytest.mark.parametrize("pieces", [1, 3, 1000])
@pytest.mark.parametrize("made", [request, chunked])
def test_the_packets_of_a_request_do_not_matter(connected, made, pieces):
    data = made(H2C) + made(WEBSOCKET) + made()
    size = -(-len(data) // pieces)
    for start in range(0, len(data), size):
        connected.sendall(data[start : start + size])
        time.sleep(0.3 / pieces)
    assert answers(connected, 3) == [ANSWERED] * 3


def test_a_body_that_reads_like_a_request_is_a_body(connected):
    """In a packet of its own, too, which would begin where a next request begins."""
    like = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    whole = request(H2C, like)
    connected.sendall(whole + GET)
    connected.sendall(whole[: -len(like)])
    time.sleep(0.1)
    connected.sendall(like + GET)
    found = answers(connected, 4)
    assert [status for status, _ in found] == [400, 200, 400, 200]
    assert found[0][1].startswith(b'{"error":"JSON Parse error')
    assert found[0] == found[2]


def test_a_body_that_is_expected_comes_after_the_word_to_continue(connected):
    connected.sendall(POST + b"Content-Length: %d\r\nExpect: 100-continue\r\n%s\r\n" % (len(BODY), H2C))
    assert connected.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    connected.sendall(BODY)
    assert answers(connected, 1) == [ANSWERED]


def test_http_1_0_and_close_end_the_connection_as_without_an_upgrade(server):
    for data in (
        request(H2C, head=POST.replace(b"1.1", b"1.0")),
        request(H2C.replace(b"Upgrade,", b"Upgrade, close,")),
    ):
        with socket.create_connection(("127.0.0.1", server.rest_port), timeout=20) as connected:
            connected.sendall(data)
            received = b""
            while chunk := connected.recv(2**16):
                received += chunk
        assert received.startswith(b"HTTP/1.1 200 ")
        assert b"\r\nconnection: close\r\n" in received


def test_the_protocol_that_is_asked_for_counts_towards_the_size_of_a_head(connected):
    asked = b"Connection: Upgrade\r\nUpgrade: %s\r\n" % (b"a" * (HEAD_BYTES + 1))
    connected.sendall(GET.replace(b"\r\n\r\n", b"\r\n" + asked + b"\r\n"))
    received = b""
    while chunk := connected.recv(2**16):
        received += chunk
    assert received.startswith(b"HTTP/1.1 431 ")


def test_nothing_is_read_behind_a_request_for_a_tunnel(server):
    with socket.create_connection(("127.0.0.1", server.rest_port), timeout=20) as connected:
        connected.sendall(b"CONNECT /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n" + GET)
        received = b""
        while chunk := connected.recv(2**16):
            received += chunk
    assert received.startswith(b"HTTP/1.1 404 ")
    assert received.count(b"HTTP/1.1") == 1


def test_bytes_that_are_no_http_are_refused_after_the_answers_before_them(server):
    for before in (b"", request(), request(H2C)):
        with socket.create_connection(("127.0.0.1", server.rest_port), timeout=20) as connected:
            connected.sendall(before + b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            received = b""
            while chunk := connected.recv(2**16):
                received += chunk
        if before:
            assert received.startswith(b"HTTP/1.1 200 ")
            assert received.endswith(ANSWERED[1])
        else:
            assert received.startswith(b"HTTP/1.1 400 ")
            assert b"the bytes are no request of HTTP/1.1 (RFC 9112). This port speaks http " in received


def test_a_chunk_without_a_length_is_refused_at_once(server):
    with socket.create_connection(("127.0.0.1", server.rest_port), timeout=20) as connected:
        connected.sendall(POST + b"Transfer-Encoding: chunked\r\n" + H2C + b"\r\n5\r\n{    \r\n")
        time.sleep(0.1)
        connected.sendall(b"x\r\n")
        began = time.monotonic()
        received = b""
        while chunk := connected.recv(2**16):
            received += chunk
    assert received.startswith(b"HTTP/1.1 400 ")
    assert received.count(b"HTTP/1.1 ") == 2
    assert time.monotonic() - began < 4


def test_trailers_of_a_body_are_no_headers(connected):
    trailer = b"Content-Encoding: gzip\r\nInference-Header-Content-Length: 3\r\n\r\n"
    connected.sendall(chunked()[:-2] + trailer)
    assert answers(connected, 1) == [ANSWERED]


@pytest.mark.slow
def test_over_tls_an_upgrade_is_ignored_too(half_base, tmp_path):
    files = certificates.make(tmp_path)
    trusting = ssl.create_default_context(cafile=str(files / "ca.pem"))
    with encrypted(half_base, ssl_config(files, tmp_path / "ssl.conf")) as server:
        connection = http.client.HTTPSConnection("localhost", server.rest_port, timeout=20, context=trusting)
        headers = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAEAAEAA"}
        for _ in range(2):
            connection.request("POST", "/v1/models/half:predict", BODY, headers)
            assert connection.getresponse().read() == ANSWERED[1]
        connection.close()


# Clients of others


@pytest.mark.process
def test_curl_asks_for_http_2_and_is_answered(server):
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("needs the curl command")
    url = f"{server.rest_url}/v1/models/half:predict"
    asked = ["--http2", "--silent", "--show-error", "--max-time", "20", "--data", BODY.decode()]
    once = [*asked, "--write-out", " %{http_version} %{num_connects}\n", url]
    again = [each for _ in range(2) for each in ("--next", *once)][1:]
    for more in ([], ["--header", "Transfer-Encoding: chunked"], ["--header", "Expect: 100-continue"]):
        done = subprocess.run([curl, *more, *once], capture_output=True, text=True, check=True)
        assert done.stdout == f"{ANSWERED[1].decode()} 1.1 1\n"
    done = subprocess.run([curl, *again], capture_output=True, text=True, check=True)
    assert done.stdout == "".join(f"{ANSWERED[1].decode()} 1.1 {new}\n" for new in (1, 0))


JAVA = """
import java.net.URI;
import java.net.http.*;
import java.net.http.HttpRequest.BodyPublishers;

public class Ask {
    public static void main(String[] arguments) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        byte[] body = arguments[1].getBytes();
        var publishers = new HttpRequest.BodyPublisher[] {
            BodyPublishers.ofByteArray(body),
            BodyPublishers.ofInputStream(() -> new java.io.ByteArrayInputStream(body)),
            BodyPublishers.ofByteArray(body),
        };
        for (int i = 0; i < publishers.length; i++) {
            HttpRequest request = HttpRequest.newBuilder(URI.create(arguments[0]))
                .expectContinue(i == 2).POST(publishers[i]).build();
            HttpResponse<String> answer = client.send(request, HttpResponse.BodyHandlers.ofString());
            System.out.println(answer.version() + " " + answer.statusCode() + " " + answer.body());
        }
    }
}
"""


@pytest.mark.process
def test_javas_http_client_is_answered(server, tmp_path):
    """With a body of known length, one in chunks, and one that waits for the word to continue."""
    java = shutil.which("java")
    if java is None or shutil.which("javac") is None:
        pytest.skip("needs Java 11 or later with its compiler: Debian's openjdk-17-jdk-headless")
    (tmp_path / "Ask.java").write_text(JAVA)
    command = [java, str(tmp_path / "Ask.java"), f"{server.rest_url}/v1/models/half:predict", BODY.decode()]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.stdout == f"HTTP_1_1 200 {ANSWERED[1].decode()}\n" * 3, done.stderr
