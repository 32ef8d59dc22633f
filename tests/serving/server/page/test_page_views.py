"""The page in a real browser: its views, the connection to the server, and whether everybody can use it."""

import re
import urllib.request
from pathlib import Path

import pytest
from page_browser import SECONDS, Opened, Served, answer, answer_of_shell, curl_shown, expect

pytestmark = [pytest.mark.process, pytest.mark.slow]
MOST_BYTES = 300_000


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


def test_the_state_shows_models_cards_signatures_and_the_load_of_now(opened, page_served):
    page = opened.open("state", "reviews")
    rows = page.get_by_role("region", name="Models").locator("tbody tr")
    expect(rows).to_have_count(13)
    assert rows.nth(12).locator("td").all_inner_texts()[:2] == ["broken", "1"]
    expect(rows.nth(12).locator("td").nth(2)).to_contain_text(re.compile(r"✗ failed.*saved_model.pb"))
    assert [cell.strip() for cell in rows.nth(0).locator("td").all_inner_texts()] == [
        "reviews",
        "2",
        "✓ answers",
        "canary",
    ]
    expect(page.locator(".card:visible")).to_contain_text("accuracy 91.0 %")
    expect(page.get_by_role("region", name="Signatures")).to_contain_text("text: string [any]")
    expect(page.locator(".note", has_text="of the last")).to_be_visible()  # the second look at the metrics
    ask(page_served, "languages", 20)
    load = page.get_by_role("region", name="Load by call").locator("tbody tr")
    expect(load).to_contain_text("languages")
    asked = page.locator(".figures div", has=page.get_by_text("Requests", exact=True)).locator("dd")
    expect(asked).to_have_text("20")  # a look can fall between two of them
    assert load.inner_text().startswith("languages\tPredict over REST")
    figures = dict(
        zip(
            page.locator(".figures dt").all_inner_texts(),
            page.locator(".figures dd").all_inner_texts(),
            strict=True,
        )
    )
    assert figures["Errors"] == "0"
    assert float(figures["Requests/s"]) > 0
    assert float(figures["Median latency"].removesuffix(" ms")) > 0
    expect(page.get_by_role("img", name="Requests per second")).to_be_visible()


def test_of_a_model_without_a_version_it_is_said_where_to_look(opened):
    page = opened.open("try", "broken")
    expect(page.locator(".trouble:visible")).to_have_text(
        "No version of broken answers yet. The view “State” tells why."
    )


def ask(served, model, times):

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


def test_while_the_server_is_gone_nothing_is_lost_and_the_question_is_asked_again(opened, page_served):
    opened.expected.append("net::ERR_")
    page = opened.open("try", "reviews")
    text = page.get_by_label("Text", exact=True)
    text.fill("a good film")
    expect(answer(page)).to_have_text("neg")
    page_served.stop()
    try:
        text.fill("a good film once more")
        expect(page.locator(".trouble:visible")).to_contain_text("Your input is kept")
        expect(page.locator("#banner")).to_contain_text("The server does not answer")
        page.get_by_role("button", name="Try again now").click()
        expect(page.locator(".trouble:visible")).to_contain_text("Your input is kept")
        expect(text).to_have_value("a good film once more")
    finally:
        page_served.start()
    expect(page.locator("#banner")).not_to_contain_text("does not answer")
    expect(page.locator(".state:visible")).to_contain_text("Answered by latest (version 2)")
    expect(text).to_have_value("a good film once more")
    expect(page.locator(".trouble:visible")).to_have_count(0)


def test_a_server_with_tokens_asks_for_one_and_keeps_it_in_memory(browser, page_folder, tmp_path):
    (tmp_path / "tokens").write_text("right\n")
    served = Served(page_folder, auth_token_file=tmp_path / "tokens")
    try:
        opened = Opened(browser, served)
        opened.expected.append("401 (Unauthorized)")
        page = opened.open("try", "reviews")
        page.get_by_label("Token", exact=True).fill("ключ")
        page.get_by_role("button", name="Use it").click()
        expect(page.get_by_text("A token has letters, digits and ._~+/-= alone.")).to_be_visible()
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


def test_without_javascript_the_page_says_what_to_do(browser, page_served):
    opened = Opened(browser, page_served, java_script_enabled=False)
    page = opened.open("try", "reviews")
    expect(page.get_by_role("heading", name="This page needs JavaScript")).to_be_visible()
    expect(page.locator("pre")).to_have_text('keras-selfattn query MODEL "some text"')
    opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["try", "spans", "compare", "state"])
def test_axe_finds_nothing(browser, page_served, view, scheme):
    axe = pytest.importorskip("axe_playwright_python")
    opened = Opened(browser, page_served, color_scheme=scheme, reduced_motion="reduce")
    model = {"try": "languages", "spans": "names"}.get(view, "reviews")
    page = opened.open("try" if view == "spans" else view, model)
    if view != "state":
        page.get_by_role("button", name=re.compile("^Example")).locator("visible=true").click()
        page.locator("button.primary:visible").click()
        shown = page.locator(".marked-text:visible mark") if view == "spans" else answer(page)
        expect(shown.first).to_be_visible()
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
