"""A page with the attention views alone, in a real browser, over explanations with known numbers.

The page comes from no server: the browser's requests are answered here, under a policy as strict as the
server's.
"""

import contextlib
import json
from pathlib import Path

import numpy as np

from keras_selfattn.serving import server

STATIC = Path(server.__file__).parent / "page" / "static"
CHROMIUM = Path("/usr/bin/chromium")
ORIGIN = "http://attention.test"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_TYPES = {".js": "text/javascript", ".css": "text/css"}
_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Attention</title>
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<link rel="stylesheet" href="/static/style.css"><link rel="stylesheet" href="/static/attention/attention.css">
</head><body><main><div class="panel" id="here"></div></main></body></html>"""

# Turns the JSON of a case into an explanation: weights come by layer and head, as from a server.
_MOUNT = """async ({ weights, random, ...given }) => {
  const { mountAttention } = await import("/static/attention/view.js");
  const [queries, keys] = given.shape;
  const floats = ["values", "poolings", "patches"].filter((name) => Array.isArray(given[name]));
  for (const name of floats) given[name] = Float32Array.from(given[name], (value) => value ?? NaN);
  if (given.frames) given.frames = Int32Array.from(given.frames);
  const head = (layer, place) => {
    const found = new Float32Array(queries * keys);
    if (weights) found.set(weights[layer][place].flat());
    else for (let at = 0; at < found.length; at += 1) found[at] = Math.exp((at * (place + 3)) % 11) / 1e5;
    return found;
  };
  window.asked = [];
  given.weights = async (layer, place) => (window.asked.push([layer, place]), head(layer, place));
  window.mounted = mountAttention(document.getElementById("here"), given);
}"""


class Web:
    """The requests of the browser, and its messages.

    Attributes:
        answers: functions from a Playwright route by path; other paths are files, or the page.
        problems: requests to other origins, errors, and messages of the console.
    """

    def __init__(self):
        self.answers = {}
        self.problems = []

    def hear(self, text):
        if "Multiple readback operations" not in text:  # it is the tests that read pixels
            self.problems.append(text)

    def answer(self, route):
        url = route.request.url
        path = url.removeprefix(ORIGIN).split("?")[0]
        if not url.startswith(ORIGIN + "/"):
            self.problems.append(f"a request to {url}")
            route.abort()
        elif path in self.answers:
            self.answers[path](route)
        elif path.startswith("/static/"):
            file = STATIC / path.removeprefix("/static/")
            route.fulfill(body=file.read_bytes(), content_type=_TYPES[file.suffix])
        elif path == "/":
            headers = {"Content-Security-Policy": POLICY}
            route.fulfill(body=_PAGE, content_type="text/html", headers=headers)
        else:
            route.fulfill(status=204)


@contextlib.contextmanager
def opened(browser, width=1000, height=800, **options):
    """Open the page; it must raise no error, write nothing to the console and ask no other origin."""
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    try:
        page, web = context.new_page(), Web()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: web.hear(message.text))
        page.on("pageerror", lambda error: web.problems.append(str(error)))
        page.route("**/*", web.answer)
        page.goto(f"{ORIGIN}/")
        yield page, web
        assert web.problems == [], web.problems
    finally:
        context.close()


def mount(page, case):
    """Show an explanation, and wait until its first view is drawn."""
    page.evaluate(_MOUNT, case)
    page.locator(".attention-top li").first.wait_for()


def case_of(tokens, layers=2, heads=3, kind="text", **more):
    """Random weights between tokens, in each row of sum 1, float32 `[layers, heads, T, T]`, and the case."""
    size = len(tokens)
    weights = np.random.default_rng(0).dirichlet(np.full(size, 0.3), (layers, heads, size)).astype(np.float32)
    case = {"kind": kind, "tokens": list(tokens), "layers": layers, "heads": heads, "shape": [size, size]}
    return weights, {**case, "weights": weights.tolist(), "title": "films, version 3", **more}


def choose(page, **choices):
    """Choose options by their values: `source`, `layer`, `head`, `direction`, `base`, `scale`."""
    labels = {
        "source": "Weights",
        "layer": "Layer",
        "head": "Head",
        "direction": "A position shows what",
        "base": "None chosen shows",
        "scale": "Colours",
    }
    for name, value in choices.items():
        select = page.get_by_label(labels[name], exact=True)
        # Playwright's `value` may be a label, too, and those of layers are counted from 1.
        select.select_option(**({"index": value} if name in ("layer", "head") else {"value": str(value)}))
    settle(page)


def tab(page, name):
    """Choose a view and wait until it is drawn."""
    page.get_by_role("tab", name=name).click()
    settle(page)


def settle(page):
    """Wait for two frames in which the page has had nothing left to draw."""
    page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))"
    )
    page.wait_for_timeout(50)


def written(value):
    """A weight as the page writes it."""
    if value and value < 0.001:
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{value:.3f}"


def binary_answer(**outputs):
    """The Open Inference Protocol's answer with tensors in binary: its body and headers."""
    listed, parts = [], []
    for name, array in outputs.items():
        datatype = {"f": "FP32", "i": "INT32"}.get(array.dtype.kind, "BYTES")
        raw = array.tobytes()
        if datatype == "BYTES":
            encoded = [str(each).encode() for each in array.reshape(-1)]
            raw = b"".join(len(each).to_bytes(4, "little") + each for each in encoded)
        parts.append(raw)
        parameters = {"binary_data_size": len(raw)}
        listed.append({"name": name, "datatype": datatype, "shape": array.shape, "parameters": parameters})
    header = json.dumps({"model_name": "films", "model_version": "3", "outputs": listed}).encode()
    return {
        "body": b"".join([header, *parts]),
        "headers": {"Inference-Header-Content-Length": str(len(header))},
        "content_type": "application/octet-stream",
    }
