"""A small server of the Hugging Face hub's HTTP protocol on loopback, whose answers a test can refuse or cut.

Reference: huggingface.co/docs/hub/api, and the requests of `huggingface_hub`.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

_MODEL = r"(?P<model>[\w.-]+(?:/[\w.-]+)??)"
_API = re.compile(rf"/api/models/{_MODEL}(?:/(?P<what>revision|tree)/(?P<revision>[^/]+))?")
_FILE = re.compile(rf"/{_MODEL}/resolve/(?P<revision>[^/]+)/(?P<file>.+)")
_STORED = re.compile(rf"/store/{_MODEL}/(?P<sha>[0-9a-f]{{40}})/(?P<file>.+)")
_LARGE = (".safetensors", ".bin", ".onnx")


@dataclass
class Commit:
    """The files of a model at one time.

    Attributes:
        files: the content of each by its name.
        names: of the commit: its own of 40 digits, and those of branches and tags.
    """

    files: dict[str, bytes]
    names: set[str]

    @property
    def sha(self):
        return next(name for name in self.names if len(name) == 40)


@dataclass
class LoopbackHub:
    """The models of a hub.

    Attributes:
        url: for HF_ENDPOINT.
        models: the commits of each model by its name.
        refused: a status, and a code of the hub such as "GatedRepo", for a model.
        token: what requests for those models must bear to be answered nevertheless.
        held: large files end after half of their bytes, until it is set; None for whole files.
        cut: after so many bytes the connection of a download ends, so many times.
        size, sha256: of large files, other than they are.
        requests: each request, as "METHOD path".
        downloads: the names of the files that were asked for, in this order.
        ranges: the first byte that each request asked for, of those that asked for a part.
    """

    url: str = ""
    models: dict[str, list[Commit]] = field(default_factory=dict)
    refused: dict[str, tuple[int, str]] = field(default_factory=dict)
    token: str = "a-token"
    held: threading.Event | None = None
    cut: list[int] = field(default_factory=list)
    size: int | None = None
    sha256: str | None = None
    requests: list[str] = field(default_factory=list)
    downloads: list[str] = field(default_factory=list)
    ranges: list[int] = field(default_factory=list)

    def add(self, name, folder, *tags, **more):
        """Add the files of a folder, and more by their names, as the newest commit; return its SHA-1."""
        files = {
            file.relative_to(folder).as_posix(): file.read_bytes()
            for file in Path(folder).rglob("*")
            if file.is_file()
        }
        files |= more.get("files", {})
        commits = self.models.setdefault(name, [])
        sha = hashlib.sha1(f"{name} {len(commits)}".encode()).hexdigest()
        for commit in commits:
            commit.names.discard("main")
        commits.append(Commit(files, {sha, "main", *tags}))
        return sha


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self._answer()

    def do_GET(self):
        self._answer()

    def _answer(self):
        hub, path = self.server.hub, unquote(self.path)
        hub.requests.append(f"{self.command} {path}")
        path = urlsplit(path).path
        if found := _STORED.fullmatch(path):
            commit = next(each for each in hub.models[found["model"]] if each.sha == found["sha"])
            self._content(found["file"], commit.files[found["file"]], {"ETag": '"of the store"'})
        elif (found := _API.fullmatch(path)) or (found := _FILE.fullmatch(path)):
            self._of_model(hub, **found.groupdict())
        else:
            self._refuse(404, "")

    def _of_model(self, hub, model, revision=None, what=None, file=None):
        if model in hub.refused and self.headers.get("authorization") != f"Bearer {hub.token}":
            self._refuse(*hub.refused[model])
        elif model not in hub.models:
            # As the hub tells strangers, who may not know of private ones.
            self._refuse(401, "RepoNotFound")
        else:
            known = [each for each in hub.models[model] if (revision or "main") in each.names]
            if not known:
                self._refuse(404, "RevisionNotFound")
            elif file is None:
                self._describe(model, known[0], what)
            elif file not in known[0].files:
                self._refuse(404, "EntryNotFound")
            else:
                self._file(model, known[0], file)

    def _describe(self, model, commit, what):
        if what == "tree":
            found = [self._listed(*each) for each in commit.files.items()]
        else:
            siblings = [{"rfilename": name} for name in commit.files]
            found = {"id": model, "sha": commit.sha, "private": False, "gated": False, "siblings": siblings}
        self._send(200, json.dumps(found).encode(), {"Content-Type": "application/json"})

    def _listed(self, name, content):
        git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        size = self.server.hub.size if name.endswith(_LARGE) else None
        entry = {"type": "file", "path": name, "size": len(content) if size is None else size, "oid": git}
        if name.endswith(_LARGE):
            sha256 = self.server.hub.sha256 or hashlib.sha256(content).hexdigest()
            entry["lfs"] = {"oid": sha256, "size": entry["size"], "pointerSize": 134}
        return entry

    def _file(self, model, commit, file):
        """Send a small file, or the place of a large one: in a store, which is another host."""
        entry = self._listed(file, commit.files[file])
        headers = {"X-Repo-Commit": commit.sha, "ETag": f'"{entry["oid"]}"'}
        if "lfs" not in entry:
            self._content(file, commit.files[file], headers)
            return
        headers |= {
            "X-Linked-Etag": f'"{entry["lfs"]["oid"]}"',
            "X-Linked-Size": str(entry["size"]),
            "Location": f"http://localhost:{self.server.server_address[1]}/store/{model}/{commit.sha}/{file}",
        }
        self._send(302, b"", headers)

    def _content(self, file, content, headers):
        """Send a file, or its end; of a large one as much as a cut leaves."""
        hub, asked = self.server.hub, re.fullmatch(r"bytes=(\d+)-", self.headers.get("range", ""))
        if self.command == "GET":
            hub.downloads.append(file)
        first = int(asked[1]) if asked else 0
        if asked:
            hub.ranges.append(first)
            headers["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
        most = hub.cut.pop(0) if hub.cut and file.endswith(_LARGE) else None
        self._send(206 if asked else 200, content[first:], headers, most)

    def _refuse(self, status, code):
        self._send(status, b"{}", {"X-Error-Code": code} if code else {})

    def _send(self, status, body, headers, most=None):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self._write(body[:most])
        if most is not None:
            self.close_connection = True

    def _write(self, body):
        held, half = self.server.hub.held, len(body) // 2
        if held is None or not self.path.startswith("/store/"):
            half = 0
        self.wfile.write(body[:half])
        if half:
            held.wait(60)
        with suppress(ConnectionError):  # of who did not wait
            self.wfile.write(body[half:])


@contextmanager
def loopback_hub():
    """Yield a hub that answers on a port of its own until the end of the block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.hub = hub = LoopbackHub(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def variables(hub, home, **more):
    """Return the environment of a process that asks a hub, with its cache in a folder."""
    own = {"HF_ENDPOINT": hub.url, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0", **more}
    return {**{name: each for name, each in os.environ.items() if name != "HF_TOKEN"}, **own}


def fetching(hub, home, name, **more):
    """Start a process that locates a name and fetches its weights; it prints the folder, or the error."""
    program = (
        "import signal, sys\n"
        # A shell that starts tests in the background lets them ignore Ctrl-C, and so their children.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from keras_selfattn.errors import SelfAttentionError\n"
        "from keras_selfattn.files.hub_folders import located\n"
        "try:\n"
        "    place = located(sys.argv[1])\n"
        "    place.fetch_weights()\n"
        "    print(place.path)\n"
        "except SelfAttentionError as error:\n"
        "    sys.exit(f'{type(error).__name__}: {error}')\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program, name],
        env=variables(hub, home, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def use_hub(monkeypatch, hub, home):
    """Let this process ask a hub, whatever `huggingface_hub` read in the environment when it was imported."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(constants, "HF_URL_HOSTS", frozenset({"127.0.0.1"}))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(home / "token"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_TOKEN", raising=False)
