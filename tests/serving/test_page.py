"""The page in a real browser: Debian's Chromium, driven by Playwright."""

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import page_models
import pytest
from ports import free_port

from keras_selfattn.serving.server import Server, ServerConfig

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs the chromium command"),
]
MOST_BYTES = 300_000
SECONDS = 60  # for what takes milliseconds where nothing else runs
DIR_OF_LANGUAGES = "language 005"


class Served:
    """A server of all models, which can be stopped and started again on its ports."""

    def __init__(self, folder, **settings):
        self._config = ServerConfig(
            model_config_file=folder / "models.conf",
            port=free_port(),
            rest_api_port=free_port(),
            page=True,
            **settings,
        )
        self.url = f"http://127.0.0.1:{self._config.rest_api_port}"
        self.target = f"127.0.0.1:{self._config.port}"
        self.start()

    def start(self):
        self._server = Server(self._config).start()

    def stop(self):
        self._server.stop(grace=0)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    page_models.save_all(folder)
    return folder


@pytest.fixture(scope="module")
def served(models):
    served = Served(models)
    yield served
    served.stop()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Opened:
    """A page in a context of its own, and what went wrong in it."""

    def __init__(self, browser, served, **settings):
        self.context = browser.new_context(viewport={"width": 1200, "height": 900}, **settings)
        self.context.set_default_timeout(SECONDS * 1000)
        self.page = self.context.new_page()
        self.url = served.url
        self.errors, self.requests, self.expected = [], [], []
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _on_console(self, message):
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def open(self, view, model):
        self.page.goto(f"{self.url}/#{view}/{model}")
        return self.page

    def close(self):
        """Close it; fail if it asked another origin, or an error was not among the expected ones."""
        self.context.close()
        others = [url for url in self.requests if not url.startswith((f"{self.url}/", "blob:", "data:"))]
        assert others == []
        unexpected = [error for error in self.errors if not any(each in error for each in self.expected)]
        assert unexpected == []


@pytest.fixture
def opened(browser, served):
    opened = Opened(browser, served)
    yield opened
    opened.close()


def answer(page):
    """The label in large letters, of the view that is shown."""
    return page.locator(".answer strong:visible")


def bars(page):
    """The names and figures of the bars that are shown."""
    shown = page.locator(".bars:visible li")
    names = shown.locator(".name").all_inner_texts()
    figures = shown.locator(".figure").all_inner_texts()
    return [(name.removesuffix(" ✓"), figure) for name, figure in zip(names, figures, strict=True)]


def test_a_text_is_answered_while_it_is_typed(opened):
    page = opened.open("try", "reviews")
    page.get_by_label("Text", exact=True).fill("a good film")
    expect(answer(page)).to_have_text("neg")  # of version 2, the latest
    assert bars(page) == [("neg", "90.0 %"), ("pos", "5.00 %"), (page_models.HOSTILE, "5.00 %")]
    expect(page.get_by_text("Confidence and share of right answers were 2.3 points apart")).to_be_visible()
    expect(page.locator(".state:visible")).to_contain_text(
        re.compile(r"by latest \(version 2\) in [\d.]+ ms")
    )
    page.get_by_label("Version").locator("visible=true").select_option("stable (version 1)")
    expect(answer(page)).to_have_text("pos")


def test_labels_and_rows_of_html_are_text(opened):
    page = opened.open("try", "reviews")
    hostile = f"good {page_models.HOSTILE}</textarea><script>document.title='owned'</script>"
    page.get_by_text("Each line is a text of its own").check()
    page.get_by_label("Text", exact=True).fill(f"{hostile}\nother {hostile}")
    expect(page.locator(".rows tbody tr")).to_have_count(2)
    expect(page.locator(".bars .name", has_text=page_models.HOSTILE)).to_be_visible()
    page.locator("summary:visible").click()
    expect(page.locator(".snippet", has_text="curl").locator("pre")).to_contain_text(page_models.HOSTILE[:10])
    page.goto(f"{opened.url}/#state/reviews")
    expect(page.locator(".tag", has_text=page_models.HOSTILE)).to_be_visible()
    assert "owned" not in page.title()
    assert page.locator("main img:visible, main script").count() == 0


def test_rows_are_answered_a_row_a_line_and_looked_at_one_by_one(opened):
    page = opened.open("try", "languages")
    page.get_by_text("Each line is a text of its own").check()
    texts = [f"good {number}" if number % 2 else "שלום and mixed" for number in range(150)]
    page.get_by_label("Text", exact=True).fill("\n\n".join(texts))
    page.get_by_role("button", name="Ask").click()
    expect(page.locator(".state:visible")).to_contain_text("150 of 150 rows answered")
    rows = page.locator(".rows tbody tr")
    assert rows.count() == 150
    assert page.locator(".rows tbody td:nth-child(2)").all_inner_texts()[1::2] == [DIR_OF_LANGUAGES] * 75
    rows.nth(149).get_by_role("button").press("Enter")
    expect(page.locator(".whole .asked")).to_have_text("good 149")
    expect(answer(page)).to_have_text(DIR_OF_LANGUAGES)
    sent = [url for url in opened.requests if url.endswith(":predict")]
    assert len(sent) >= 3, "64 rows at once"


def test_of_many_classes_ten_are_shown_and_all_can_be_searched(opened):
    page = opened.open("try", "languages")
    page.get_by_label("Text", exact=True).fill("good evening")
    expect(answer(page)).to_have_text(DIR_OF_LANGUAGES)
    assert len(bars(page)) == 10
    assert bars(page)[0] == (DIR_OF_LANGUAGES, "90.0 %")
    search = page.get_by_label("Search 150 labels")
    search.fill("UAGE 14")
    assert sorted(name for name, _ in bars(page)) == [f"language {number}" for number in range(140, 149)]
    search.fill("לש")
    assert [name for name, _ in bars(page)] == ["לשון"]
    search.fill("")
    page.get_by_text("All 150").check()
    assert len(bars(page)) == 150
    height = page.locator(".bars:visible").evaluate("list => [list.clientHeight, list.scrollHeight]")
    assert height[0] < height[1], "it scrolls"


def curl_shown(page):
    page.locator("summary:visible").click()
    shown = page.locator(".snippet:visible pre")
    expect(shown.first).not_to_be_empty()
    return shown.all_inner_texts()


def answer_of_shell(command, **variables):
    """What a command writes, read as JSON; a shell reads it as one that is pasted."""
    settings = {"capture_output": True, "timeout": SECONDS, "env": {**os.environ, **variables}}
    return json.loads(subprocess.run(["sh"], input=command.encode(), check=True, **settings).stdout)


@pytest.mark.parametrize(
    "text", ['it\'s "good" $HOME `x` \\n !', "שלום\nzwei\tZeilen 🙂", "-x"], ids=["quotes", "lines", "dash"]
)
def test_the_calls_shown_give_the_same_answer(opened, text):
    page = opened.open("try", "reviews")
    page.get_by_label("Version").locator("visible=true").select_option("canary (version 2)")
    page.get_by_label("Text", exact=True).fill(text)
    expect(answer(page)).not_to_be_empty()
    label, shares = answer(page).inner_text(), dict(bars(page))
    curl, python, query = curl_shown(page)
    found = answer_of_shell(curl)
    assert found["outputs"]["label"] == [label]
    assert f"{found['outputs']['score'][0]:.1%}".replace("%", " %") == shares[label]
    assert python_answer(python)["label"].tolist() == [label]
    # The command is on no PATH here.
    words = shlex.split(query)
    assert words[:2] == ["keras-selfattn", "query"]
    assert words[words.index("--") + 1 :] == [text]
    command = "from keras_selfattn.cli.entry import main; main()"
    run = [sys.executable, "-c", command, "query", "--format=csv", *words[2:]]
    asked = subprocess.run(run, capture_output=True, check=True, text=True, timeout=SECONDS)
    assert label in asked.stdout


def python_answer(program):
    """What the program gives to print()."""
    printed = []
    exec(compile(program, "shown", "exec"), {"print": printed.append})
    return printed[0]


def test_tokens_have_their_labels(opened):
    page = opened.open("try", "tags")
    page.get_by_label("Tokens", exact=True).fill('Ada is here\n["New York"]')
    expect(page.locator(".rows tbody tr")).to_have_count(2)
    tokens = page.locator(".tokens:visible li")
    assert tokens.locator(".token").all_inner_texts() == ["Ada", "is", "here"]
    assert tokens.locator(".label").all_inner_texts() == ["NAME", "O", "O"]
    page.locator(".rows tbody tr").nth(1).get_by_role("button").click()
    assert tokens.locator(".token").all_inner_texts() == ["New York"]
    _, python, _ = curl_shown(page)
    assert python_answer(python)["label"].tolist() == [["NAME", "O", "O"], ["NAME", "", ""]]


def test_a_series_is_typed_opened_or_drawn(opened, tmp_path):
    page = opened.open("try", "traces")
    page.get_by_label("Numbers").fill("0, 1 nan\n2")
    expect(answer(page)).to_have_text("rises")
    curl, python, _ = curl_shown(page)
    assert "[[[0], [1], [NaN], [2]]]" in curl
    assert python_answer(python)["label"].tolist() == ["rises"]
    file = tmp_path / "falls.csv"
    file.write_text("\ufeffvalue\n3.5\n-1e0\n-2\n", encoding="utf-8")
    page.get_by_label("Or open a file").set_input_files(file)
    expect(page.get_by_label("Numbers")).to_have_value("3.5\n-1e0\n-2")
    expect(answer(page)).to_have_text("falls")
    page.get_by_role("spinbutton", name="Steps").fill("20")
    page.locator("canvas").scroll_into_view_if_needed()
    box = page.locator("canvas").bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + box["height"] - 10)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 20, box["y"] + 10, steps=8)
    page.mouse.up()
    expect(answer(page)).to_have_text("rises")
    numbers = [float(word) for word in page.get_by_label("Numbers").input_value().split()]
    assert len(numbers) == 20
    assert numbers == sorted(numbers)
    assert -1 <= numbers[0] < -0.8
    page.get_by_label("Numbers").fill("1 zwei")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator(".trouble:visible")).to_have_text("“zwei” is not a number.")


def test_an_image_is_chosen_pasted_or_taken_from_the_card(opened, tmp_path):
    page = opened.open("try", "pictures")
    page.get_by_role("button", name="Example of the model card").click()
    expect(answer(page)).to_have_text("bright")
    dark = tmp_path / "dark one.png"
    dark.write_bytes(picture(black=True))
    page.get_by_label("Images", exact=True).set_input_files(dark)
    expect(answer(page)).to_have_text("dark")
    expect(page.locator(".images img")).to_have_js_property("naturalWidth", 8)
    curl, python, query = curl_shown(page)
    assert query.endswith("--signature encoded -- 'dark one.png'")
    with contextlib.chdir(tmp_path):
        assert python_answer(python)["label"].tolist() == ["dark"]
    found = answer_of_shell(curl)
    assert found["outputs"]["label"] == ["dark"]
    page.evaluate(PASTE, page_models.PICTURE)
    expect(answer(page)).to_have_text("bright")


PASTE = """(data) => {
  const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  const clipboardData = new DataTransfer();
  clipboardData.items.add(new File([bytes], "pasted.png", { type: "image/png" }));
  document.dispatchEvent(new ClipboardEvent("paste", { clipboardData }));
}"""


def picture(black):
    import io

    from PIL import Image

    content = io.BytesIO()
    Image.new("L", (8, 8), 0 if black else 255).save(content, "PNG")
    return content.getvalue()


def test_a_model_without_a_card_is_asked_in_json_and_errors_read_as_the_server_writes_them(opened):
    page = opened.open("try", "half")
    body = page.get_by_label("Body of the request")
    expect(body).to_have_value(re.compile(r'"x": \[0\]'))
    body.fill('{"instances": [2, 4]}')
    expect(page.locator(".rows tbody tr")).to_have_count(2)
    assert page.locator(".rows tbody td:nth-child(2)").all_inner_texts() == ["3", "4"]
    opened.expected.append("400 (Bad Request)")
    body.fill('{"instances": ["two"]}')
    page.get_by_role("button", name="Ask").click()
    expect(page.locator(".trouble:visible")).to_contain_text(
        "Failed to process element: 0 of 'instances' list."
    )
    body.fill("{")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator(".trouble:visible")).to_contain_text("The body is not JSON")


def test_versions_are_compared_and_what_changed_is_said(opened):
    page = opened.open("compare", "reviews")
    expect(page.get_by_label("stable (version 1)")).to_be_checked()
    expect(page.get_by_label("canary (version 2)")).to_be_checked()
    page.get_by_text("Each line is a text of its own").locator("visible=true").check()
    page.get_by_label("Text", exact=True).locator("visible=true").fill("other\ngood one\ngood two")
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.locator(".state:visible")).to_have_text(
        "Against stable (version 1): canary (version 2) gives another answer to 2 of 3 rows."
    )
    page.get_by_role("button", name="good two").click()
    assert page.locator(".side .answer strong").all_inner_texts() == ["pos", "neg"]
    expect(page.locator(".changes caption")).to_contain_text("≠ another answer")
    changes = page.locator(".changes tr").all_inner_texts()
    assert [row.split("\t") for row in changes] == [
        ["pos", "90.0 % → 5.00 %", "−85.0 points"],
        ["neg", "5.00 % → 90.0 %", "+85.0 points"],
    ]
    page.get_by_text("Only rows with another answer").check()
    assert page.locator("table tbody tr:visible", has=page.get_by_role("button")).count() == 2


def test_a_model_of_one_version_cannot_be_compared_and_the_page_says_so(opened):
    page = opened.open("compare", "tags")
    page.get_by_role("button", name="Example “Ada is”").locator("visible=true").click()
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.locator(".trouble:visible")).to_contain_text("Choose two versions or labels")


def test_the_state_shows_models_cards_signatures_and_the_load_of_now(opened, served):
    page = opened.open("state", "reviews")
    rows = page.get_by_role("region", name="Models").locator("tbody tr")
    expect(rows).to_have_count(7)
    assert [cell.strip() for cell in rows.nth(0).locator("td").all_inner_texts()] == [
        "reviews",
        "2",
        "✓ answers",
        "canary",
    ]
    expect(page.locator(".card:visible")).to_contain_text("accuracy 91.0 %")
    expect(page.get_by_role("region", name="Signatures")).to_contain_text("text: string [any]")
    expect(page.locator(".note", has_text="of the last")).to_be_visible()  # the second look at the metrics
    ask(served, "languages", 20)
    load = page.get_by_role("region", name="Load by call").locator("tbody tr")
    expect(load).to_contain_text("languages")
    assert load.inner_text().startswith("languages\tPredict over REST")
    figures = dict(
        zip(
            page.locator(".figures dt").all_inner_texts(),
            page.locator(".figures dd").all_inner_texts(),
            strict=True,
        )
    )
    assert figures["Requests"] == "20"
    assert figures["Errors"] == "0"
    assert float(figures["Requests/s"]) > 0
    assert float(figures["Median latency"].removesuffix(" ms")) > 0
    expect(page.get_by_role("img", name="Requests per second")).to_be_visible()


def ask(served, model, times):
    import urllib.request

    for _ in range(times):
        url = f"{served.url}/v1/models/{model}:predict"
        with urllib.request.urlopen(url, b'{"instances": ["good"]}', timeout=SECONDS) as response:
            assert response.status == 200


def test_metrics_are_asked_for_only_while_the_state_is_shown(opened):
    page = opened.open("state", "reviews")
    with page.expect_response("**/monitoring/prometheus/metrics"):
        pass
    page.get_by_role("link", name="Try").click()
    opened.requests.clear()
    for _ in range(2):  # looks at the models, which go on
        with page.expect_response("**/page/models"):
            pass
    assert [url for url in opened.requests if url.endswith("/metrics")] == []


def test_while_the_server_is_gone_nothing_is_lost_and_the_question_is_asked_again(opened, served):
    opened.expected.append("net::ERR_")
    page = opened.open("try", "reviews")
    text = page.get_by_label("Text", exact=True)
    text.fill("a good film")
    expect(answer(page)).to_have_text("neg")
    served.stop()
    try:
        text.fill("a good film once more")
        expect(page.locator(".trouble:visible")).to_contain_text("Your input is kept")
        expect(page.locator("#banner")).to_contain_text("The server does not answer")
        page.get_by_role("button", name="Try again now").click()
        expect(page.locator(".trouble:visible")).to_contain_text("Your input is kept")
        expect(text).to_have_value("a good film once more")
    finally:
        served.start()
    expect(page.locator("#banner")).not_to_contain_text("does not answer")
    expect(page.locator(".state:visible")).to_contain_text("Answered by latest (version 2)")
    expect(text).to_have_value("a good film once more")
    expect(page.locator(".trouble:visible")).to_have_count(0)


def test_100_000_characters_are_asked_and_the_page_goes_on(opened):
    page = opened.open("try", "reviews")
    text = "good שלום " * 10_000
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_role("button", name="Ask").click()
    expect(answer(page)).to_have_text("neg")
    curl, _, query = curl_shown(page)
    assert "characters more, which Copy takes along" in curl
    assert len(curl) < 3000, "what is shown is short"
    assert page.evaluate("1 + 1") == 2
    opened.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy curl").click()
    expect(page.get_by_text("Copied").first).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    found = answer_of_shell(copied)
    assert found["outputs"]["label"] == ["neg"]
    assert query.startswith("keras-selfattn query reviews")


def test_the_whole_page_is_small(opened):
    sizes = []
    opened.page.on("response", lambda response: sizes.append(int(response.headers["content-length"])))
    page = opened.open("try", "reviews")
    page.get_by_label("Text", exact=True).fill("a good film")
    expect(answer(page)).to_have_text("neg")
    for view in ("Compare", "State"):
        page.get_by_role("link", name=view).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(f"{view} reviews")
    assert len(sizes) > 20
    assert sum(sizes) < MOST_BYTES


def test_without_javascript_the_page_says_what_to_do(browser, served):
    opened = Opened(browser, served, java_script_enabled=False)
    page = opened.open("try", "reviews")
    expect(page.get_by_role("heading", name="This page needs JavaScript")).to_be_visible()
    expect(page.locator("pre")).to_have_text('keras-selfattn query MODEL "some text"')
    opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["try", "compare", "state"])
def test_axe_finds_nothing(browser, served, view, scheme):
    axe = pytest.importorskip("axe_playwright_python")
    opened = Opened(browser, served, color_scheme=scheme, reduced_motion="reduce")
    page = opened.open(view, "languages" if view == "try" else "reviews")
    if view != "state":
        page.get_by_role("button", name=re.compile("^Example")).locator("visible=true").click()
        page.locator("button.primary:visible").click()
        expect(answer(page).first).to_be_visible()
    else:
        expect(page.get_by_role("region", name="Signatures")).to_be_visible()
    if view == "try":
        page.locator("summary:visible").click()
    page.evaluate(Path(axe.__file__).with_name("axe.min.js").read_text("utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    assert [(each["id"], [node["html"][:120] for node in each["nodes"]]) for each in found] == []
    opened.close()


@pytest.mark.parametrize("width", [320, 1200, 3840])
@pytest.mark.parametrize("direction", ["ltr", "rtl"])
def test_nothing_is_wider_than_the_window(opened, width, direction):
    page = opened.page
    page.set_viewport_size({"width": width, "height": 800})
    for view in ("try", "compare", "state"):
        opened.open(view, "reviews")
        page.evaluate("direction => { document.documentElement.dir = direction }", direction)
        if view != "state":
            page.get_by_label("Text", exact=True).locator("visible=true").fill("שלום wörld " + "w" * 200)
            page.locator("button.primary:visible").click()
            expect(answer(page).first).to_be_visible()
        wide = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide[0] <= wide[1], view


def test_the_keyboard_alone_asks_and_changes_the_view(opened):
    page = opened.open("try", "reviews")
    expect(page.get_by_label("Text", exact=True)).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    focused = []
    for _ in range(20):
        page.keyboard.press("Tab")
        focused.append(page.evaluate("document.activeElement.tagName"))
        if focused[-1] == "TEXTAREA":
            break
    assert focused[-1] == "TEXTAREA"
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert outline == "3px", "the focus is seen"
    page.keyboard.type("a good film")
    expect(answer(page)).to_have_text("neg")


def test_a_server_with_tokens_asks_for_one_and_keeps_it_in_memory(browser, models, tmp_path):
    (tmp_path / "tokens").write_text("right\n")
    served = Served(models, auth_token_file=tmp_path / "tokens")
    try:
        opened = Opened(browser, served)
        opened.expected.append("401 (Unauthorized)")
        page = opened.open("try", "reviews")
        page.get_by_label("Token", exact=True).fill("wrong")
        page.get_by_role("button", name="Use it").click()
        expect(page.get_by_text("The server does not know this token.")).to_be_visible()
        page.get_by_label("Token", exact=True).fill("right")
        page.keyboard.press("Enter")
        page.get_by_label("Text", exact=True).fill("a good film")
        expect(answer(page)).to_have_text("neg")
        curl, python, query = curl_shown(page)
        assert all("right" not in each for each in (curl, python, query))
        assert answer_of_shell(curl, TOKEN="right")["outputs"]["label"] == ["neg"]
        stored = page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]")
        assert stored == [0, 0, ""]
        opened.close()
    finally:
        served.stop()
