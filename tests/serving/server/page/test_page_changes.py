"""The page when the model, the connection or the input changes: no answer stays under another name."""

import pytest
from page_browser import answer, expect

pytestmark = [pytest.mark.process, pytest.mark.slow]


def choose_model(page, name):
    page.get_by_label("Model", exact=True).select_option(name)


def test_answers_of_another_model_are_taken_away(opened):
    page = opened.open("compare", "reviews")
    page.get_by_role("textbox", name="Text").fill("good")
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.locator(".side")).to_have_count(2)
    choose_model(page, "languages")
    expect(page.locator(".side")).to_have_count(0)
    opened.open("try", "reviews")
    page.get_by_role("textbox", name="Text").fill("good")
    expect(answer(page)).to_have_text("neg")
    page.get_by_label("Answer while I type").uncheck()
    choose_model(page, "languages")
    expect(answer(page)).to_have_count(0)


def test_a_chosen_version_that_has_gone_is_said_to_have_gone(opened):
    page = opened.open("try", "reviews")
    page.get_by_label("Version", exact=True).locator("visible=true").select_option(label="version 1")
    page.get_by_role("textbox", name="Text").fill("good")
    expect(answer(page)).to_have_text("pos")

    def without_version_1(route):
        found = route.fetch().json()
        (reviews,) = (model for model in found["models"] if model["name"] == "reviews")
        reviews["versions"] = [each for each in reviews["versions"] if each["version"] != "1"]
        route.fulfill(json=found)

    page.route("**/page/models", without_version_1)
    expect(page.locator(".note:visible").first).to_have_text(
        "Version 1 does not answer any more. The latest version is asked."
    )
    expect(answer(page)).to_have_text("neg")
    page.unroute_all(behavior="wait")


def test_the_attention_behind_an_answer_is_of_the_version_that_gave_it(opened):
    hidden, asked = {"2"}, []

    def without_hidden(route):
        found = route.fetch().json()
        (reviews,) = (model for model in found["models"] if model["name"] == "reviews")
        reviews["versions"] = [each for each in reviews["versions"] if each["version"] not in hidden]
        route.fulfill(json=found)

    opened.page.route("**/page/models", without_hidden)
    page = opened.open("try", "reviews")
    page.on("request", lambda request: asked.append(request.url) if "/infer" in request.url else None)
    latest = page.get_by_label("Version", exact=True).locator("visible=true").locator("option").first
    expect(latest).to_have_text("latest (version 1)")
    page.get_by_label("Answer while I type").uncheck()
    page.get_by_role("textbox", name="Text").fill("good")
    page.get_by_role("button", name="Ask").click()
    expect(answer(page)).to_be_visible()
    hidden.clear()
    expect(latest).to_have_text("latest (version 2)")
    page.get_by_role("button", name="What does it attend to?").click()
    expect(page.locator("section.attention")).to_be_visible()
    assert [url.split("/v2/")[1] for url in asked] == ["models/reviews/versions/1/infer"]
    hidden.add("1")
    expect(latest).to_have_text("latest (version 2)")
    expect(page.get_by_label("Version", exact=True).locator("visible=true")).not_to_contain_text("version 1")
    page.get_by_role("button", name="What does it attend to?").click()
    expect(page.locator(".trouble:visible")).to_have_text(
        "The attention cannot be shown: version 1, which gave this answer, is not served any more. Ask again."
    )
    page.unroute_all(behavior="wait")


def test_an_input_is_fitted_once_the_server_describes_the_model(opened):
    opened.expected += ["ERR_FAILED", "503"]
    opened.page.route("**/metadata", lambda route: route.abort())
    page = opened.open("try", "reviews")
    expect(page.locator(".trouble:visible")).to_contain_text("The server does not answer.")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator(".trouble:visible")).to_contain_text("has not told yet what this model takes")
    page.unroute("**/metadata")
    expect(page.get_by_role("textbox", name="Text")).to_be_visible()


def test_json_is_the_input_of_the_next_model_only_where_a_person_chose_it(opened):
    page = opened.open("try", "half")
    body = page.get_by_label("Body of the request")
    expect(body).to_be_visible()
    choose_model(page, "reviews")
    expect(page.get_by_role("textbox", name="Text")).to_be_visible()
    page.get_by_role("button", name="JSON", exact=True).click()
    choose_model(page, "languages")
    expect(body).to_be_visible()


def test_a_model_that_is_not_described_yet_is_not_asked_with_the_body_of_another(opened):
    page = opened.open("try", "half")
    asked = []
    page.on("request", lambda request: asked.append(request.url) if request.method == "POST" else None)
    page.route(
        "**/v1/models/reviews/**/metadata", lambda route: (page.wait_for_timeout(900), route.continue_())
    )
    body = page.get_by_label("Body of the request")
    body.fill('{"inputs": [7]}')
    choose_model(page, "reviews")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.get_by_role("textbox", name="Text")).to_be_visible()
    assert not [url for url in asked if "/reviews/" in url]
    page.get_by_role("textbox", name="Text").fill("good")
    expect(answer(page)).to_have_text("neg")


@pytest.mark.parametrize("body", ['{"inputs": [9007199254740993]}', '{"inputs": [1e999]}', "[1]"])
def test_a_body_that_would_be_sent_as_another_one_is_refused(opened, body):
    page = opened.open("try", "half")
    page.get_by_label("Body of the request").fill(body)
    told = "must be an object" if body == "[1]" else "cannot send integers beyond 2^53"
    expect(page.locator(".trouble:visible")).to_contain_text(told)
    page.get_by_label("Body of the request").fill('{"inputs": [2, 1e30]}')
    expect(page.locator(".rows tbody tr")).to_have_count(2)
    expect(page.locator(".trouble:visible")).to_have_count(0)


def test_a_proxy_without_its_server_is_a_lost_connection(opened):
    opened.expected.append("502")
    page = opened.open("try", "reviews")
    page.get_by_role("textbox", name="Text").fill("good")
    expect(answer(page)).to_have_text("neg")
    paths = ("**/v1/**", "**/page/models")
    for path in paths:
        page.route(path, lambda route: route.fulfill(status=502, body="<h1>Bad Gateway</h1>"))
    page.get_by_role("textbox", name="Text").fill("good one")
    expect(page.locator(".trouble:visible")).to_contain_text("a proxy says 502. Your input is kept")
    expect(page.locator("#banner")).to_contain_text("The server does not answer.")
    for path in paths:
        page.unroute(path)
    expect(page.locator("#banner")).to_contain_text("answers again")
    expect(answer(page)).to_have_text("neg")
    expect(page.locator(".trouble:visible")).to_have_count(0)


def test_the_attention_in_a_photograph_is_drawn_over_it_as_it_is_shown(opened, tmp_path):
    image = pytest.importorskip("PIL.Image")
    exif = image.Exif()
    exif[0x0112] = 6  # a quarter turn clockwise: what is stored at the left is shown at the top
    stored = image.new("L", (8, 4), 255)
    stored.paste(0, (0, 0, 4, 4))
    stored.save(tmp_path / "turned.jpg", exif=exif)
    page = opened.open("try", "pictures")
    page.locator("input[type=file]:visible").set_input_files(tmp_path / "turned.jpg")
    expect(page.locator(".images img")).to_have_js_property("naturalWidth", 4)
    page.get_by_role("button", name="What does it attend to?").click()
    box = page.locator(".attention-canvas").bounding_box()
    assert box is not None
    assert box["width"] < 1.2 * box["height"], "two pictures side by side, each twice as high as wide"
    expect(page.locator("section.attention")).to_contain_text("row 1, column 1")
    top, bottom = page.evaluate(BRIGHTNESS)
    assert top < 20 < bottom


BRIGHTNESS = """() => {
  const { width, height } = document.querySelector(".attention-canvas");
  const context = document.querySelector(".attention-canvas").getContext("2d");
  const { data } = context.getImageData(Math.round(width / 10), 0, 1, height);
  return [0.2, 0.8].map((share) => data[4 * Math.round(share * height)]);
}"""


@pytest.mark.parametrize(
    ("address", "unknown"),
    [
        ("try/nowhere", "the model “nowhere”"),
        ("constructor/reviews", "the view “constructor”"),
        ("try/reviews/7", "“7” after the model"),
        ("%E0/%E0", "the view “%E0”, the model “%E0”"),
    ],
)
def test_a_part_of_the_address_that_is_unknown_is_said_to_be_so(opened, address, unknown):
    page = opened.page
    page.goto(f"{opened.url}/#{address}")
    expect(page.locator("main .notice:visible")).to_have_text(
        f"Unknown in the address: {unknown}. Shown is Try with reviews."
    )
    choose_model(page, "languages")
    expect(page.locator("main .notice:visible")).to_have_count(0)


def test_integers_are_shown_as_the_server_wrote_them(opened):
    large = 2**63 - 1
    page = opened.open("try", "half")
    body = page.get_by_label("Body of the request")
    expect(body).to_be_visible()
    predictions = [f"{large}", f"-{large}", f'{{"a":[{large}],"b":0.5}}', "1234567"]
    answered = f'{{"predictions": [{", ".join(predictions)}]}}'
    page.route("**/*:predict", lambda route: route.fulfill(body=answered))
    page.get_by_role("button", name="Ask").click()
    expect(page.locator(".rows tbody td:nth-child(2)")).to_have_text(
        [*predictions[:2], f'{{"y":{predictions[2]}}}', predictions[3]]
    )
    expect(answer(page)).to_have_text(f"{large:,}")
