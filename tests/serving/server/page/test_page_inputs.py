"""The page in a real browser, Debian's Chromium driven by Playwright: each kind of input, and its answers."""

import contextlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import page_models
import pytest
from page_browser import SECONDS, answer, answer_of_shell, bars, curl_shown, expect, python_answer

from keras_selfattn.serving.server.page import static_files

pytestmark = [pytest.mark.process, pytest.mark.slow]
VIEWER = Path(static_files.__file__).parent / "static" / "attention" / "view.js"
FIFTH = "language 005"


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


def test_two_texts_are_one_row_in_two_fields(opened):
    page = opened.open("try", "pairs")
    page.get_by_label("First text").fill("a film")
    expect(answer(page)).to_have_count(0)  # one text is no row
    page.get_by_label("Second text").fill("a film")
    expect(answer(page)).to_have_text("same")
    page.get_by_label("Second text").fill("it's blue")
    expect(answer(page)).to_have_text("other")
    curl, program, query = curl_shown(page)
    assert answer_of_shell(curl)["outputs"]["label"] == ["other"]
    assert python_answer(program)["label"].tolist() == ["other"]
    assert shlex.split(query)[-4:] == ["--pair", "--", "a film", "it's blue"]
    page.get_by_role("button", name="What does it attend to?").click()
    expect(page.locator("[role=option]")).to_have_text(["a", "film", "[SEP]", "it's", "blue"])
    page.get_by_role("button", name="Example “is it? / it is”").click()
    expect(page.get_by_label("Second text")).to_have_value("it is")


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
    assert page.locator(".rows tbody td:nth-child(2)").all_inner_texts()[1::2] == [FIFTH] * 75
    rows.nth(149).get_by_role("button").press("Enter")
    expect(page.locator(".whole .asked")).to_have_text("good 149")
    expect(answer(page)).to_have_text(FIFTH)
    sent = [url for url in opened.requests if url.endswith(":predict")]
    assert len(sent) >= 3, "64 rows at once"


def test_of_many_classes_ten_are_shown_and_all_can_be_searched(opened):
    page = opened.open("try", "languages")
    page.get_by_label("Text", exact=True).fill("good evening")
    expect(answer(page)).to_have_text(FIFTH)
    assert len(bars(page)) == 10
    assert bars(page)[0] == (FIFTH, "90.0 %")
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
    page.get_by_label("Tokens", exact=True).fill("  10\u00a0000\tmen\u2009 \nyes\nno")
    expect(page.locator(".rows tbody tr")).to_have_count(3)
    page.locator(".rows tbody tr").first.get_by_role("button").click()
    assert tokens.locator(".token").all_text_contents() == ["10\u00a0000", "men\u2009"]


def test_scores_stand_beside_their_names(opened):
    page = opened.open("try", "essays")
    page.get_by_label("Text", exact=True).fill("seven x")
    found = page.locator(".whole dl")
    expect(found.locator("dd")).to_have_text(["7", "3.5"])
    expect(found.locator("dt")).to_have_text([page_models.HOSTILE, "half"])
    page.get_by_text("Each line is a text of its own").check()
    page.get_by_label("Text", exact=True).fill("ab\nabcd")
    rows = page.locator(".rows tbody tr")
    expect(rows).to_have_count(2)
    assert rows.locator("td:nth-child(2)").all_inner_texts()[1] == f"{page_models.HOSTILE} 4, half 2"
    assert page.title() != "owned"


def test_spans_are_marked_in_their_text_with_their_labels(opened):
    """Places are code points, which two units of UTF-16 before a span would shift."""
    page = opened.open("try", "names")
    field = page.get_by_label("Text", exact=True)
    page.get_by_role("button", name="Example “ADA wrote to ROME.”").click()
    expect(field).to_have_value("ADA wrote to ROME.")
    text = page.locator(".marked-text:visible")
    expect(text).to_have_text("ADA NAME wrote to ROME NAME.")
    field.fill("😀😀 EU and\n🏳️‍🌈 ROME")
    marks = text.locator("mark")
    expect(marks).to_have_text([f"EU {page_models.HOSTILE}", "ROME NAME"])
    assert text.text_content() == f"😀😀 EU {page_models.HOSTILE} and\n🏳️‍🌈 ROME NAME"
    assert [mark.get_attribute("class") for mark in marks.all()] == ["of-0", "of-1"]
    spans = page.locator(".tokens:visible li")
    assert spans.locator(".token").all_inner_texts() == ["EU", "ROME"]
    assert spans.locator(".figure").all_inner_texts() == ["75.0 %", "75.0 %"]
    _, python, query = curl_shown(page)
    assert python_answer(python)["start"].tolist() == [[3, 15]]
    assert "--signature spans" in query
    field.fill("nothing")
    expect(page.get_by_text("No span is found in this text.")).to_be_visible()
    page.get_by_text("Each line is a text of its own").check()
    field.fill("a ADA\nno")
    rows = page.locator(".rows tbody tr")
    expect(rows).to_have_count(2)
    assert rows.locator("td:nth-child(2)").all_inner_texts() == ["ADA (NAME)", "no spans"]
    page.get_by_role("button", name="Tokens").click()
    page.get_by_label("Tokens", exact=True).fill("Ada is")
    expect(page.locator(".tokens:visible .label").first).to_have_text("NAME")


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


@pytest.mark.skipif(not VIEWER.is_file(), reason="needs the viewer of attention")
def test_what_the_model_attends_to_is_shown_on_request(opened):
    page = opened.open("try", "reviews")
    page.get_by_role("textbox", name="Text").fill("a good film")
    button = page.get_by_role("button", name="What does it attend to?")
    expect(button).to_be_visible()
    assert [url for url in opened.requests if re.search("/attention/.*[.]js", url)] == [], (
        "it is loaded only now"
    )
    button.click()
    expect(page.get_by_role("heading", name="Behind the answer")).to_be_focused()
    shown = page.locator("section.attention")
    expect(shown).to_contain_text("film")
    assert page.locator(".panel", has=shown).evaluate("panel => panel.getBoundingClientRect().top") < 300, (
        "it is scrolled into sight"
    )
    page.get_by_role("textbox", name="Text").fill("another")
    expect(shown).to_have_count(0)


STRING, LIST, FRAMES = (
    {"dtype": "string", "shape": [None]},
    {"dtype": "string", "shape": [None, None]},
    {"dtype": "float", "shape": [None, None, 2]},
)


WAYS = {
    "a text": ({"serving_default": {"text": STRING}}, ["text", "json"]),
    "tokens": ({"serving_default": {"tokens": LIST}, "encoded": {"other": STRING}}, ["tokens", "json"]),
    "a series": ({"serving_default": {"values": FRAMES}}, ["series", "json"]),
    "images": ({"encoded": {"encoded": STRING}, "serving_default": {"pixels": FRAMES}}, ["image", "json"]),
    "a sound": ({"serving_default": {"audio": STRING}, "samples": {"samples": LIST}}, ["audio", "json"]),
    "two texts": ({"serving_default": {"text": STRING, "other": STRING}}, ["json"]),
    "no default": ({"embed": {"text": STRING}}, ["json"]),
}


def test_the_kind_of_input_follows_from_the_inputs_of_the_signatures(opened):
    page = opened.open("state", "reviews")
    asked = {
        case: {name: {"inputs": inputs, "outputs": {}} for name, inputs in signatures.items()}
        for case, (signatures, _) in WAYS.items()
    }
    script = """async (asked) => {
      const { waysToAsk } = await import("/page/static/inputs/kinds.js");
      return Object.fromEntries(Object.entries(asked).map(([name, each]) => [name, waysToAsk(each)]));
    }"""
    found = page.evaluate(script, asked)
    kinds = {case: [way["kind"] for way in ways] for case, ways in found.items()}
    assert kinds == {case: kinds for case, (_, kinds) in WAYS.items()}
    assert [way.get("features") for way in found["a series"]] == [2, None]
    assert found["images"][0]["signature"] == "encoded"
    assert found["no default"][0]["signature"] == "embed"


NEW_KIND = """
  loud: {
    title: "Loud text",
    fit: (signatures) => onMain(signatures, (main) => main.name === "text"),
    make(way, onChange) {
      const element = document.createElement("input");
      element.setAttribute("aria-label", "Loud");
      element.addEventListener("input", onChange);
      const texts = () => (element.value ? [element.value + "!"] : []);
      const read = () => ({ inputs: { [way.input]: texts() }, titles: texts(), words: texts() });
      return { element, size: () => element.value.length, read, set() {} };
    },
  },
"""


def test_a_new_kind_of_input_is_one_entry_of_the_table(opened):
    def with_entry(route):
        table = route.fetch()
        text = table.text().replace("export const KINDS = {", "export const KINDS = {" + NEW_KIND)
        assert NEW_KIND in text
        route.fulfill(response=table, body=text)

    opened.page.route("**/inputs/kinds.js", with_entry)
    page = opened.open("try", "reviews")
    kinds = page.get_by_role("group", name="Kind of input").locator("visible=true").get_by_role("button")
    expect(kinds).to_have_text(["Loud text", "Text", "JSON"])
    page.get_by_label("Loud", exact=True).locator("visible=true").fill("a good film")
    expect(answer(page)).to_have_text("neg")
    assert '{"inputs": {"text": ["a good film!"]}}' in curl_shown(page)[0]
    expect(page.get_by_role("button", name="What does it attend to?")).to_be_hidden()
