"""The attention views in a real browser: they show the numbers that they are given, and do nothing else."""

import base64
import hashlib
import json
import re
from xml.etree import ElementTree

import attention_pages as pages
import numpy as np
import pytest
from attention_pages import case_of, choose, mount, opened, settle, tab, written

pytestmark = pytest.mark.process

sync_api = pytest.importorskip("playwright.sync_api", reason="no browser is driven without Playwright")
if not pages.CHROMIUM.exists():
    pytest.skip("there is no Chromium", allow_module_level=True)

EVIL = "<img src=x onerror=window.hacked=1>"
TOKENS = ["what", "a", "great", "film", EVIL, "was", "it"]
ARABIC = ["هذا", "الفيلم", "جميل", "film", "جدا"]


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=str(pages.CHROMIUM), args=["--no-sandbox"])
        yield found
        found.close()


def options(page):
    """The tokens that are drawn, with the weights that are read out."""
    return page.locator("bdi[role=option]").evaluate_all("all => all.map((one) => one.ariaLabel)")


def described(tokens, values):
    named = [f"{token} ({place})" for place, token in enumerate(tokens, 1)]
    return [f"{name}: {written(value)}" for name, value in zip(named, values, strict=True)]


def test_a_text_shows_the_weights_of_the_chosen_token_or_their_average(browser):
    weights, case = case_of(TOKENS)
    with opened(browser) as (page, _):
        mount(page, case)
        mean = weights[1].mean(axis=0)
        assert options(page) == described(TOKENS, mean.mean(axis=0)), "of the last layer, by default"
        choose(page, source="head", layer=0, head=2)
        assert options(page) == described(TOKENS, weights[0, 2].mean(axis=0))
        page.locator("bdi", has_text="great").first.click()
        settle(page)
        assert options(page) == described(TOKENS, weights[0, 2, 2])
        first = int(weights[0, 2, 2].argmax())
        listed = page.locator(".attention-top li").first
        assert listed.inner_text().split() == [*TOKENS[first].split(), written(weights[0, 2, 2, first])]
        choose(page, direction="to")
        assert options(page) == described(TOKENS, weights[0, 2, :, 2])
        page.keyboard.press("Tab")
        page.locator("bdi", has_text="film").first.hover()
        settle(page)
        assert options(page) == described(TOKENS, weights[0, 2, :, 3]), (
            "the token under the pointer comes first"
        )


def test_pooling_is_shown_hop_by_hop(browser):
    pooling = np.random.default_rng(1).dirichlet(np.ones(len(TOKENS)), 2).astype(np.float32)
    _, case = case_of(TOKENS, poolings=pooling.reshape(-1).tolist())
    with opened(browser) as (page, _):
        mount(page, case)
        for hop in (0, 1):
            choose(page, base=hop)
            assert options(page) == described(TOKENS, pooling[hop])
            assert page.locator(".attention-title").inner_text() == f"Pooling, hop {hop + 1}"


def rollout(weights):
    """Abnar and Zuidema 2020: the product over layers of the mean of heads and the identity, row by row."""
    found = np.eye(weights.shape[-1])
    for layer in weights.astype(np.float64):
        mixed = layer.mean(axis=0) + np.eye(len(found))
        found = mixed / mixed.sum(axis=-1, keepdims=True) @ found
    return found


_MATRIX = """async ([source, layer, encoders]) => {
  const { Matrices } = await import("/static/attention/matrices.js");
  const weights = async (layer, head) => Float32Array.from(window.given.weights[layer][head].flat());
  const matrices = new Matrices({ ...window.given, weights, encoders });
  return Array.from(await matrices.of({ source, layer, head: 0 }));
}"""


def test_averages_and_rollout_are_numpys(browser):
    weights, case = case_of([str(place) for place in range(41)], layers=4, heads=2)
    with opened(browser) as (page, _):
        page.evaluate("(given) => { window.given = given; }", case)
        for source, encoders, wanted in (
            ("layer", None, weights[1].mean(axis=0)),
            ("all", None, weights.mean(axis=(0, 1))),
            ("rollout", None, rollout(weights)),
            ("rollout", [1, 1, 0, 0], (rollout(weights[:2]) + rollout(weights[2:])) / 2),
        ):
            found = np.reshape(page.evaluate(_MATRIX, [source, 1, encoders]), (41, 41))
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-7)


_PIXEL = """([left, top]) => {
  const canvas = document.querySelector(".attention-matrix canvas");
  return Array.from(canvas.getContext("2d").getImageData(left, top, 1, 1).data);
}"""
_COLOURS = """async ([name, dark]) => {
  const colours = await import("/static/attention/colours.js");
  return Array.from(colours[name](dark).bytes);
}"""
NAMES, CELL = 96, 32


def test_a_matrix_paints_each_weight_and_reads_it_out(browser):
    weights, case = case_of(TOKENS)
    with opened(browser) as (page, _):
        mount(page, case)
        choose(page, source="head", layer=1, head=0)
        tab(page, "Matrix")
        matrix = weights[1, 0]
        scale = np.reshape(page.evaluate(_COLOURS, ["weightScale", False]), (256, 3))
        steps = np.rint(matrix / matrix.max() * 255).astype(int)
        for query, key in ((0, 0), (2, 5), (6, 1), (4, 4)):
            pixel = page.evaluate(_PIXEL, [NAMES + key * CELL + 16, NAMES + query * CELL + 16])
            assert np.abs(np.array(pixel[:3]) - scale[steps[query, key]]).max() <= 1
        assert page.locator(".attention-legend").inner_text().split() == ["0", written(matrix.max())]
        page.locator(".attention-matrix").focus()
        for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowUp"):
            page.keyboard.press(key)
            settle(page)
        told = page.locator(".attention-status").inner_text()
        assert told == f"a (2) → film (4): {written(matrix[1, 3])}"
        page.locator(".attention-matrix canvas").hover(position={"x": NAMES + 6 * CELL + 9, "y": NAMES + 9})
        settle(page)
        assert page.locator(".attention-status").inner_text() == f"what (1) → it (7): {written(matrix[0, 6])}"


def test_one_of_all_heads_can_be_chosen(browser):
    weights, case = case_of(TOKENS, layers=3, heads=2)
    with opened(browser) as (page, _):
        mount(page, case)
        tab(page, "All heads")
        buttons = page.locator(".attention-row button")
        assert buttons.count() == 3 * (2 + 1) + 2
        page.get_by_role("button", name="Layer 2, head 1").click()
        settle(page)
        pressed = page.locator("button[aria-pressed=true]")
        assert pressed.evaluate_all("all => all.map((one) => one.ariaLabel)") == ["Layer 2, head 1"]
        tab(page, "Text")
        assert options(page) == described(TOKENS, weights[1, 0].mean(axis=0))


def test_lines_lead_from_the_token_under_the_pointer_to_what_it_attends_to(browser):
    weights, case = case_of(TOKENS)
    with opened(browser) as (page, _):
        mount(page, case)
        choose(page, source="head", layer=0, head=0)
        tab(page, "Lines")
        assert page.locator(".attention-between path").count() == 0
        page.locator("bdi[role=option]").nth(3).hover()
        settle(page)
        row = weights[0, 0, 3]
        widths = page.locator(".attention-between path").evaluate_all(
            "all => all.map((one) => Number(one.getAttribute('stroke-width')))"
        )
        wanted = sorted(0.5 + 5 * value for value in row / row.max() if value >= 0.01)
        np.testing.assert_allclose(widths, wanted, rtol=1e-5)
        assert options(page) == described(TOKENS, row)


def test_tokens_are_text_wherever_they_are_shown(browser):
    _, case = case_of([EVIL, "</style><script>window.hacked=1</script>", "\n", "  ", "&amp;"])
    with opened(browser) as (page, _):
        mount(page, case)
        for name in ("Lines", "Matrix", "All heads", "Text"):
            tab(page, name)
            saved = [download(page, kind).decode("utf-8") for kind in ("SVG", "Web page")]
            assert page.locator("img, script:not([type=module])").count() == 0
            assert all("<img src=x" not in each and "<script" not in each for each in saved)
        assert page.locator("bdi[role=option]").first.inner_text() == EVIL
        assert page.evaluate("window.hacked") is None


def download(page, name):
    with page.expect_download() as found:
        page.get_by_role("button", name=name, exact=True).click()
    return found.value.path().read_bytes()


def test_what_is_seen_is_saved_as_png_svg_and_a_page_without_scripts(browser):
    weights, case = case_of(TOKENS)
    with opened(browser) as (page, _):
        mount(page, case)
        choose(page, source="head", layer=1, head=1)
        svg = ElementTree.fromstring(download(page, "SVG"))
        texts = [node.text for node in svg.iter("{http://www.w3.org/2000/svg}text")]
        assert texts[0] == "films, version 3. Layer 2, head 2: what all attend to, on average"
        assert texts[1:] == TOKENS
        png = download(page, "PNG")
        assert png[:8] == b"\x89PNG\r\n\x1a\n"
        size = np.frombuffer(png[16:24], ">u4").tolist()
        assert size == [2 * int(svg.attrib[side]) for side in ("width", "height")]
        tab(page, "Matrix")
        html = download(page, "Web page").decode("utf-8")
    style = re.search(r"<style>(.*?)</style>", html)[1]
    allowed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"default-src 'none'; img-src data:; style-src 'sha256-{allowed}'" in html
    assert "<script" not in html
    assert "http" not in html.replace("http-equiv", "").replace("http://www.w3.org/", "")
    row = weights[1, 1].mean(axis=0)
    with opened(browser, java_script_enabled=False) as (page, web):
        web.answers["/saved"] = lambda route: route.fulfill(body=html, content_type="text/html")
        page.goto(f"{pages.ORIGIN}/saved")
        cells = page.locator("td").all_inner_texts()
        assert cells[:2] == [TOKENS[int(row.argmax())], written(row.max())]
        assert page.locator("svg image").count() == 1
        assert (
            page.locator("p").all_inner_texts()[0].startswith("Attention weights show from which positions")
        )


def test_a_long_text_is_drawn_only_where_it_is_in_sight(browser, record_property):
    tokens = [f"word{place}" for place in range(512)]
    case = {"kind": "text", "tokens": tokens, "layers": 4, "heads": 8, "shape": [512, 512]}
    with opened(browser, height=600) as (page, _):
        page.evaluate(_WATCH)
        mount(page, case)
        shown = {}
        for name in ("Text", "Lines"):
            tab(page, name)
            box = page.locator(".attention-window")
            shown[name] = len(options(page))
            assert 10 < shown[name] < 400, "those in sight, and a few rows more"
            box.locator("[role=listbox]").or_(page.locator(".attention-text")).first.focus()
            page.keyboard.press("End")
            settle(page)
            assert page.locator("bdi[aria-selected=true]").first.inner_text() == "word511"
            assert page.locator(".attention-between path").count() < 40, "one for all that end out of sight"
            assert len(options(page)) < 400
            page.keyboard.press("Escape")
        tab(page, "Matrix")
        assert page.locator(".attention canvas").evaluate_all(
            "all => all.every((one) => one.width <= innerWidth && one.height <= innerHeight)"
        )
        choose(page, source="rollout")
        page.locator(".attention-title", has_text="Attention rollout").wait_for()
        assert page.evaluate("document.querySelectorAll('*').length") < 700
        # A figure, not a promise: the machine that runs this may be busy.
        record_property("longest_tasks_ms", page.evaluate("window.long"))


_WATCH = """() => {
  window.long = [];
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) window.long.push(Math.round(duration));
  }).observe({ type: "longtask" });
}"""


def test_the_keyboard_alone_reaches_everything(browser):
    weights, case = case_of(TOKENS)
    with opened(browser) as (page, _):
        mount(page, case)
        page.get_by_role("tab", name="Text").focus()
        page.keyboard.press("ArrowRight")
        settle(page)
        assert page.locator("[role=tab][aria-selected=true]").inner_text() == "Lines"
        page.keyboard.press("Home")
        settle(page)
        assert page.locator(":focus").inner_text() == "Text"
        for _ in range(20):
            page.keyboard.press("Tab")
            if page.locator(":focus").get_attribute("role") == "listbox":
                break
        for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowRight"):
            page.keyboard.press(key)
        settle(page)
        assert options(page) == described(TOKENS, weights[1].mean(axis=0)[1])
        active = page.locator(":focus").get_attribute("aria-activedescendant")
        assert page.locator(f"#{active}").inner_text() == TOKENS[1]
        page.keyboard.press("Escape")
        settle(page)
        assert page.locator("bdi[aria-selected=true]").count() == 0


def test_a_text_from_right_to_left_is_laid_out_and_walked_so(browser):
    _, case = case_of(ARABIC)
    with opened(browser, width=320) as (page, _):
        mount(page, case)
        left = page.locator("bdi[role=option]").evaluate_all(
            "all => all.map((one) => one.getBoundingClientRect().left)"
        )
        assert left[0] > left[1] > left[2]
        page.locator(".attention-text").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        settle(page)
        assert page.locator("bdi[aria-selected=true]").inner_text() == ARABIC[-2], (
            "right is back to the start"
        )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_of_any_width_and_scheme_is_accessible(browser, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    _, case = case_of(TOKENS, left={})
    for width in (320, 2000):
        with opened(browser, width=width, color_scheme=scheme) as (page, _):
            mount(page, case)
            for name in ("Text", "Lines", "Matrix", "All heads"):
                tab(page, name)
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
                found = axe.run(page).response["violations"]
                page_rules = {"landmark-one-main", "page-has-heading-one", "region", "heading-order"}
                assert [each["id"] for each in found if each["id"] not in page_rules] == []


# What dichromats see of linear sRGB: Machado, Oliveira and Fernandes 2009, severity 1.
_DICHROMATS = {
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def linear(scale):
    part = np.asarray(scale) / 255
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


@pytest.mark.parametrize("dark", [False, True])
def test_colours_tell_weights_apart_for_every_kind_of_sight(browser, dark):
    with opened(browser) as (page, _):
        weights, changes = (
            linear(np.reshape(page.evaluate(_COLOURS, [name, dark]), (256, 3)))
            for name in ("weightScale", "changeScale")
        )
    for matrix in [np.eye(3), *map(np.array, _DICHROMATS.values())]:
        lightness = (weights @ matrix.T).clip(0) @ [0.2126, 0.7152, 0.0722]
        lightness = lightness if dark else -lightness
        assert (np.diff(lightness[::8]) > 0).all(), "each step is lighter, or darker, than the one before"
        less, none, more = (changes @ matrix.T)[[0, 128, 255]]
        assert min(np.abs(less - more).max(), np.abs(less - none).max(), np.abs(more - none).max()) > 0.1


def test_a_series_has_its_weights_under_its_curve(browser):
    weights, case = case_of([f"frames {3 * place}–{3 * place + 2}" for place in range(5)], kind="series")
    values = [None if place in (8, 9) else float(place % 4) for place in range(28)]
    frames = [edge for place in range(5) for edge in (3 * place, min(14, 3 * place + 3))]
    with opened(browser) as (page, _):
        mount(page, {**case, "values": values, "features": 2, "frames": frames})
        choose(page, source="head", layer=0, head=1)
        slider = page.get_by_role("slider")
        slider.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        settle(page)
        row = weights[0, 1, 1]
        assert slider.get_attribute("aria-valuetext") == f"frames 3–5: {written(row[1])}"
        heights = page.locator(".attention-sticky rect").evaluate_all(
            "all => all.filter((one) => Number(one.getAttribute('y')) > 200)"
            ".map((one) => Number(one.getAttribute('height')))"
        )
        np.testing.assert_allclose(heights, row / row.max() * 72, atol=1e-3)


def test_an_image_has_its_weights_on_its_patches(browser):
    names = [f"row {row}, column {column}" for row in (1, 2) for column in (1, 2, 3)]
    weights, case = case_of(names, kind="image")
    patches = [
        edge
        for row in (0, 1)
        for column in range(3)
        for edge in (row / 2, column / 3, (row + 1) / 2, (column + 1) / 3)
    ]
    image = {"pixels": [200] * 24, "height": 4, "width": 6, "channels": 1}
    with opened(browser) as (page, _):
        mount(page, {**case, "values": image, "patches": patches})
        choose(page, source="head", layer=1, head=2)
        slider = page.get_by_role("slider")
        slider.focus()
        for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
            page.keyboard.press(key)
        settle(page)
        row = weights[1, 2, 4]
        assert slider.get_attribute("aria-valuetext") == f"row 2, column 2: {written(row[4])}"
        # In the middle of each patch of the first picture: darker, the less weight it has.
        seen = page.evaluate(
            """() => {
              const context = document.querySelector(".attention-canvas").getContext("2d");
              const at = (x, y) => context.getImageData(x, y, 1, 1).data[0];
              return [70, 210].flatMap((y) => [70, 210, 350].map((x) => at(x, y)));
            }"""
        )
        wanted = 200 * (1 - 0.85 * (1 - row / row.max()))
        np.testing.assert_allclose(seen, wanted, atol=2)


METADATA = {
    "metadata": {
        "signature_def": {
            "signature_def": {
                name: {"inputs": {entry: {}}, "outputs": {}}
                for name, entry in (
                    ("explain", "text"),
                    ("tokens", "tokens"),
                    ("classify", "inputs"),
                    ("contributions", "text"),
                )
            }
        }
    }
}
LABELS = ["good", "bad"]


def infer(weights, whole, changes, asked):
    """Answer as a server of a text classifier: each token left out changes its first label's score."""

    def answer(route):
        request = json.loads(route.request.post_data_buffer)
        signature = request["parameters"]["signature_name"]
        asked.append(signature)
        if signature == "explain":
            padded = np.pad(weights, [(0, 0), (0, 0), (0, 2), (0, 2)])  # as beside a longer text
            pooling = np.arange(18, dtype=np.float32).reshape(1, 2, 9)
            found = {"tokens": np.array([[*TOKENS, "", ""]]), "weights": padded[None], "pooling": pooling}
        elif signature == "tokens":
            (given,) = request["inputs"]
            rows = np.reshape(given["data"], given["shape"])
            score = [whole + sum(changes[token] for token in TOKENS if token not in row) for row in rows]
            found = {"probabilities": np.array([[each, 1 - each] for each in score], np.float32)}
        else:
            found = {
                "ngrams": np.array([["great film", " gre", ""]]),
                "kinds": np.array([["pair", "piece", ""]]),
                "logits": np.array([[[0.5, -0.5], [-2, 2], [0, 0]]], np.float32),
                "rest": np.array([[0.1, -0.1]], np.float32),
            }
        route.fulfill(**pages.binary_answer(**found))

    return answer


def classify(route):
    asked = {"signature_name": "classify", "examples": [{"text": " ".join(TOKENS)}]}
    assert route.request.post_data_json == asked
    route.fulfill(json={"results": [[[label, 0.5] for label in LABELS]]})


_EXPLAIN = """async (text) => {
  const { explain } = await import("/static/attention/fetch.js");
  const { mountAttention } = await import("/static/attention/view.js");
  window.given = await explain("films", 3, text);
  mountAttention(document.getElementById("here"), window.given);
}"""


def test_weights_come_in_binary_and_words_are_left_out_in_batches(browser):
    weights, _ = case_of(TOKENS)
    changes = {token: (place - 3) / 20 + 0.01 for place, token in enumerate(TOKENS)}
    asked = []
    with opened(browser) as (page, web):
        web.answers["/v1/models/films/versions/3/metadata"] = lambda route: route.fulfill(json=METADATA)
        web.answers["/v1/models/films/versions/3:classify"] = classify
        web.answers["/v2/models/films/versions/3/infer"] = infer(weights, 0.625, changes, asked)
        page.evaluate(_EXPLAIN, " ".join(TOKENS))
        found = page.evaluate("async () => Array.from(await window.given.weights(1, 2))")
        np.testing.assert_array_equal(np.float32(found), weights[1, 2].reshape(-1))
        pooling = page.evaluate("Array.from(window.given.poolings)")
        assert pooling == [*range(7), *range(9, 16)]
        tab(page, "Words left out")
        assert page.get_by_role("button", name="Leave out each word").is_visible()
        assert asked == ["explain"], "the keys that pass over a tab ask nothing"
        tab(page, "Text")
        page.get_by_role("button", name="See what each word counts for").click()
        page.wait_for_selector(".attention-bars >> nth=1")
        assert asked == ["explain", "tokens", "tokens", "contributions"], "all words are left out in one call"
        signed = {token: f"{'−' if value < 0 else '+'}{abs(value):.3f}" for token, value in changes.items()}
        assert options(page) == [f"{token}: {signed[token]} without it" for token in TOKENS]
        bars = page.locator(".attention-bars").nth(1).locator("li").all_inner_texts()
        assert [bar.split("\n") for bar in bars] == [
            ["␣gre (piece)", "−2.000"],
            ["great␣film (pair)", "+0.500"],
        ]
        page.get_by_label("Score of").select_option(label="bad")
        settle(page)
        assert options(page)[0] == f"{TOKENS[0]}: +0.140 without it"
        html = download(page, "Web page").decode("utf-8")
        assert "<title>films, version 3. Words left out</title>" in html
        assert f"<td>{signed[TOKENS[0]].replace('−', '+')}</td>" in html
        tab(page, "Text")
        tab(page, "Words left out")
        assert len(asked) == 4, "answers are kept while another view is shown"


PAIR = {"text": "a film", "text_pair": "it moves"}
TOKENS_OF_PAIR = ["a", "film", "[SEP]", "it", "moves"]


def infer_pairs(asked):
    """Answer as a model of pairs: the first score falls by 0.25 without "film", by 0.125 without "it"."""

    def answer(route):
        request = json.loads(route.request.post_data_buffer)
        first, second = (each["data"] for each in request["inputs"])
        assert [each["name"] for each in request["inputs"]] == list(PAIR)
        asked.append(list(zip(first, second, strict=True)))
        signature = request["parameters"]["signature_name"]
        if signature == "explain":
            found = {
                "tokens": np.array([TOKENS_OF_PAIR]),
                "weights": np.full((1, 1, 1, 5, 5), 0.2, np.float32),
            }
        elif signature == "contributions":
            found = {
                "ngrams": np.array([["film"]]),
                "kinds": np.array([["word"]]),
                "logits": np.array([[[0.5, -0.5]]], np.float32),
            }
        else:
            score = [0.75 - 0.25 * ("film" not in a) - 0.125 * ("it" not in b) for a, b in asked[-1]]
            found = {"probabilities": np.array([[each, 1 - each] for each in score], np.float32)}
        route.fulfill(**pages.binary_answer(**found))

    return answer


def test_words_of_either_text_of_a_pair_are_left_out(browser):
    asked = []
    inputs = {"inputs": {name: {} for name in PAIR}, "outputs": {}}
    signatures = {"explain": inputs, "classify": {"inputs": {"inputs": {}}, "outputs": {}}}
    signatures["contributions"] = inputs
    metadata = {"metadata": {"signature_def": {"signature_def": signatures}}}

    def classify_pair(route):
        assert route.request.post_data_json == {"signature_name": "classify", "examples": [PAIR]}
        route.fulfill(json={"results": [[[label, 0.5] for label in LABELS]]})

    with opened(browser) as (page, web):
        web.answers["/v1/models/films/versions/3/metadata"] = lambda route: route.fulfill(json=metadata)
        web.answers["/v1/models/films/versions/3:classify"] = classify_pair
        web.answers["/v2/models/films/versions/3/infer"] = infer_pairs(asked)
        page.evaluate(_EXPLAIN, PAIR)
        assert options(page) == [
            f"{token} ({place}): 0.200" for place, token in enumerate(TOKENS_OF_PAIR, start=1)
        ]
        page.get_by_role("button", name="See what each word counts for").click()
        page.wait_for_selector(".attention-bars >> nth=1")
        settle(page)
        assert page.locator(".attention-bars").nth(1).inner_text().split() == ["film", "(word)", "+0.500"]
        words = ["a: +0.000", "film: −0.250", "it: −0.125", "moves: +0.000"]
        assert options(page) == [f"{word} without it" for word in words]
    whole = tuple(PAIR.values())
    assert asked == [
        [whole],
        [whole],
        [(" film", whole[1]), ("a ", whole[1]), (whole[0], " moves"), (whole[0], "it ")],
        [whole],
    ]


_LETTERS = """({ tokens, shape, labels, whole, without }) => {
  const weights = async () => new Float32Array(shape[0] * shape[1]);
  const found = { words: tokens, labels, whole, without: without.flat() };
  const given = { kind: "text", tokens, shape, layers: 1, heads: 1, weights, unit: "letter" };
  given.leaveOneOut = async () => found;
  import("/static/attention/view.js").then(({ mountAttention }) => {
    mountAttention(document.getElementById("here"), given, { tab: "words" });
  });
}"""


def test_letters_are_left_out_at_once_and_a_score_that_hangs_on_none_is_not_made_much_of(browser):
    case = {"tokens": ["a", "\u200d", "b", "a"], "shape": [4, 4], "labels": ["en", "de", "sq"]}
    without = [[0.4, 0.3, 0.3], [0.5, 0.301, 0.199], [0.1, 0.304, 0.596], [0.75, 0.3, 0.05]]
    with opened(browser) as (page, _):
        page.evaluate(_LETTERS, {**case, "whole": [0.5, 0.3, 0.2], "without": without})
        page.wait_for_selector(".attention-bars li")
        assert page.get_by_role("tab", selected=True).inner_text() == "Letters left out"
        bars = [bar.split("\n") for bar in page.locator(".attention-bars li").all_inner_texts()]
        assert bars == [["b", "−0.400"], ["a (4)", "+0.250"], ["a (1)", "−0.100"]]
        assert page.locator("bdi[role=option]").nth(1).inner_text() == "U+200D", (
            "which draws nothing by itself"
        )
        status = page.locator(".attention-words [role=status]")
        assert "Without a blue letter it falls: that letter speaks for “en”." in status.inner_text()
        named = page.get_by_label("Score of").locator("option").all_inner_texts()
        assert named == ["en English", "de German", "sq Albanian"]
        page.get_by_label("Score of").select_option(label="de German")
        settle(page)
        assert "No single letter decides it" in status.inner_text()
        room, *_ = page.locator(".attention-bar-room").evaluate_all(
            "all => all.map((one) => one.clientWidth)"
        )
        widths = page.locator(".attention-bar").evaluate_all("all => all.map((one) => one.clientWidth)")
        assert max(widths) < 0.5 * room, "0.004 is less than half of the smallest full change"


_NAMES = """async (all) => {
  const { languageNames } = await import("/static/languages.js");
  return all.map((labels) => labels.map(languageNames(labels)));
}"""


def test_labels_are_named_only_where_all_of_them_are_codes_of_languages(browser):
    with opened(browser) as (page, _):
        found = page.evaluate(
            _NAMES, [["sq", "cy", "eu"], ["no", "ja"], ["sq", "cy", "qz"], ["de", "en", "bad"]]
        )
    assert found == [["Albanian", "Welsh", "Basque"], ["", ""], ["", "", ""], ["", "", ""]]


def test_an_answer_that_fails_is_said_where_it_was_asked_for(browser):
    _, case = case_of(TOKENS)
    with opened(browser) as (page, web):
        web.answers["/v1/models/films/versions/3/metadata"] = lambda route: route.fulfill(
            status=404, json={"error": "Servable not found for request: Latest(films)"}
        )
        with pytest.raises(sync_api.Error, match="Servable not found"):
            page.evaluate(_EXPLAIN, "a film")
        web.problems.clear()  # the browser's own line about the status
        page.evaluate(pages._MOUNT.replace("head(layer, place))", "Promise.reject(Error('gone')))"), case)
        page.locator(".attention-status", has_text="No weights: gone").wait_for()
