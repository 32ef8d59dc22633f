"""The page in a real browser with a model of sound: files, the microphone, pictures, attention over time."""

import base64
import io
import json
import re
import shlex
import shutil
import struct
import wave
from pathlib import Path

import numpy as np
import page_models
import pytest
from page_browser import Opened, answer, answer_of_shell, curl_shown, expect, python_answer

from keras_selfattn.rows.wav_files import read_wav, wav_bytes

pytestmark = [pytest.mark.process, pytest.mark.slow]
LOW, HIGH = page_models.tone(200, 1.0), page_models.tone(1000, 1.5, 12_000)


@pytest.fixture(scope="module")
def microphone_browser(browser, tmp_path_factory):
    """A browser whose microphone hears a high tone."""
    heard = tmp_path_factory.mktemp("microphone") / "high.wav"
    heard.write_bytes(page_models.tone(1000, 2.0, 48_000))
    args = [
        "--no-sandbox",
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-audio-capture={heard}",
    ]
    found = browser.browser_type.launch(executable_path=shutil.which("chromium"), args=args)
    yield found
    found.close()


@pytest.fixture
def listening(microphone_browser, page_served):
    """A page that may use the microphone."""
    opened = Opened(microphone_browser, page_served, permissions=["microphone"])
    yield opened
    opened.close()


def sent(opened):
    """The WAV files that the page has asked with so far, the newest last."""
    found = []

    def keep(request):
        if request.url.endswith(":predict"):
            found.append(base64.b64decode(json.loads(request.post_data)["inputs"]["audio"][0]["b64"]))

    opened.page.on("request", keep)
    return found


def choose(page, name, content):
    file = {"name": name, "mimeType": "application/octet-stream", "buffer": content}
    page.get_by_label("Sound file", exact=True).set_input_files(file)


def told(page):
    return page.locator(".sound > .note")


def test_a_wav_file_is_sent_as_it_is_and_answered(opened, tmp_path):
    files = sent(opened)
    page = opened.open("try", "sounds")
    file = tmp_path / "a low one.wav"
    # What stands behind the samples is sent, too. Longer files are not shown whole in the calls.
    file.write_bytes(page_models.tone(200, 0.08) + b"LIST" + struct.pack("<I", 4) + b"INFO")
    page.get_by_label("Sound file", exact=True).set_input_files(file)
    expect(answer(page)).to_have_text("low")
    assert files == [file.read_bytes()]
    expect(told(page)).to_have_text("a low one.wav: 0.08 s, at 8,000 Hz.")
    expect(page.locator("audio")).to_have_js_property("duration", 0.08)
    expect(page.get_by_role("link", name="Save")).to_have_count(0)
    curl, program, query = curl_shown(page)
    assert answer_of_shell(curl)["outputs"]["label"] == ["low"]
    assert shlex.split(query)[-2:] == ["--", "a low one.wav"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert python_answer(program)["label"].tolist() == ["low"]
    page.evaluate(DROP, base64.b64encode(HIGH).decode())
    expect(answer(page)).to_have_text("high")
    assert files[-1] == HIGH
    expect(page.locator(".input .trouble")).to_have_text("One recording at a time here: this is dropped.wav.")


DROP = """(data) => {
  const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  const dataTransfer = new DataTransfer();
  for (const name of ["dropped.wav", "other.wav"]) dataTransfer.items.add(new File([bytes], name));
  document.querySelector(".drop").dispatchEvent(new DragEvent("drop", { dataTransfer }));
}"""


def test_the_example_is_a_recording_that_plays(opened):
    page = opened.open("try", "sounds")
    page.get_by_role("button", name="Example of the model card").click()
    expect(answer(page)).to_have_text("low")
    expect(told(page)).to_have_text("example.wav: 0.60 s, at 8,000 Hz.")
    expect(page.get_by_role("link", name="Save this WAV file")).to_have_attribute("download", "example.wav")
    assert page.locator("audio").evaluate(PLAYED) == "ended"


PLAYED = """async (audio) => {
  await audio.play();
  return new Promise((done) => (audio.onended = () => done("ended")));
}"""


def test_a_sound_has_its_waveform_and_spectrogram_over_seconds(opened):
    page = opened.open("try", "sounds")
    silence = np.zeros(8000, np.int16)
    choose(page, "half.wav", wav_bytes(np.concatenate([silence, read_wav(LOW, "low")[0]]), 8000))
    expect(answer(page)).to_be_visible()
    picture = page.get_by_role("img", name="Waveform and spectrogram of half.wav")
    page.wait_for_timeout(500)
    shades = np.array(picture.evaluate(SHADES))  # [rows, columns, RGB]
    middle = shades.shape[1] // 2
    background = shades[1, 60]
    painted = (shades != background).any(-1)
    wave_rows = painted[:90]
    assert wave_rows[:, 60 : middle - 10].sum(0).max() <= 3, "a line of silence"
    assert wave_rows[:, middle + 60 : -20].sum(0).min() > 60
    # The tone of 200 Hz is in the lower part of 0 to 4 kHz in mel; the rest is near silence.
    brightness = shades[96:206, middle + 60 : -20].mean((1, 2))
    loudest = np.abs(brightness - brightness[0]).argmax()
    assert 85 < loudest < 105


SHADES = """(canvas) => {
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  return Array.from({ length: height }, (_, y) =>
    Array.from({ length: width }, (_, x) => [...data.slice(4 * (y * width + x), 4 * (y * width + x) + 3)]),
  );
}"""


def test_a_sound_of_another_format_is_decoded_by_the_browser(opened):
    files = sent(opened)
    page = opened.open("try", "sounds")
    choose(page, "voice.webm", base64.b64decode(page.evaluate(OPUS)))
    expect(answer(page)).to_have_text("high")
    expect(told(page)).to_have_text(
        re.compile(r"voice.webm.wav: [\d.]+ s, decoded by the browser at 48,000 Hz\.")
    )
    rate, values = of_sixteen_bits(files[-1])
    assert rate == 48_000
    assert loudest_hertz(values, rate) == pytest.approx(1000, abs=20)
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save this WAV file").click()
    assert saved.value.suggested_filename == "voice.webm.wav"
    assert Path(saved.value.path()).read_bytes() == files[-1]


# Half a second of a high tone, in Opus.
OPUS = """async () => {
  const context = new AudioContext();
  const tone = new OscillatorNode(context, { frequency: 1000 });
  const target = context.createMediaStreamDestination();
  tone.connect(target);
  tone.start();
  const recorder = new MediaRecorder(target.stream, { mimeType: "audio/webm;codecs=opus" });
  const parts = [];
  recorder.ondataavailable = ({ data }) => parts.push(data);
  recorder.start();
  await new Promise((done) => setTimeout(done, 700));
  const stopped = new Promise((done) => (recorder.onstop = done));
  recorder.stop();
  await stopped;
  const bytes = new Uint8Array(await new Blob(parts).arrayBuffer());
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}"""


def of_sixteen_bits(content):
    with wave.open(io.BytesIO(content)) as file:
        assert (file.getnchannels(), file.getsampwidth()) == (1, 2)
        return file.getframerate(), np.frombuffer(file.readframes(file.getnframes()), "<i2")


def loudest_hertz(values, rate):
    return np.abs(np.fft.rfft(values)).argmax() * rate / len(values)


def test_the_microphone_is_recorded_at_the_rate_of_the_browser(listening):
    files = sent(listening)
    page = listening.open("try", "sounds")
    page.get_by_role("button", name="Record").click()
    expect(page.get_by_role("timer")).to_have_text("2 of 60 s")
    page.get_by_role("button", name="Stop recording").click()
    expect(answer(page)).to_have_text("high")
    rate, values = of_sixteen_bits(files[-1])
    assert rate == page.evaluate("new AudioContext().sampleRate")
    assert len(values) >= 2 * rate
    assert loudest_hertz(values, rate) == pytest.approx(1000, abs=20)
    expect(told(page)).to_contain_text(f"s, recorded at {rate:,} Hz.")
    expect(page.get_by_role("link", name="Save this WAV file")).to_have_attribute(
        "download", "recording-1.wav"
    )
    expect(page.get_by_role("button", name="Record")).to_be_focused()


def test_a_recording_ends_by_itself(listening):
    def shorter(route):
        script = route.fetch()
        text = script.text().replace("MOST_SECONDS = 60", "MOST_SECONDS = 1")
        assert "MOST_SECONDS = 1;" in text
        route.fulfill(response=script, body=text)

    listening.page.route("**/inputs/record.js", shorter)
    files = sent(listening)
    page = listening.open("try", "sounds")
    page.get_by_role("button", name="Record").press("Enter")
    expect(answer(page)).to_have_text("high")
    rate, values = of_sixteen_bits(files[-1])
    assert len(values) == rate
    expect(page.get_by_role("button", name="Record")).to_have_text("Record")


def test_a_microphone_that_is_refused_is_told(microphone_browser, page_served):
    opened = Opened(microphone_browser, page_served)
    page = opened.open("try", "sounds")
    page.get_by_role("button", name="Record").click()
    expect(page.locator(".input .trouble")).to_have_text(
        "The browser does not let this page use the microphone. Allow it in the site's settings."
    )
    choose(page, "low.wav", LOW)
    expect(answer(page)).to_have_text("low")
    expect(page.locator(".input .trouble")).to_be_empty()
    opened.close()


def test_without_tls_the_page_says_why_it_cannot_record(opened):
    """Browsers have no `navigator.mediaDevices` in a page of another machine without TLS."""
    opened.page.add_init_script("Object.defineProperty(navigator, 'mediaDevices', { value: undefined })")
    page = opened.open("try", "sounds")
    button = page.get_by_role("button", name="Record")
    expect(button).to_be_disabled()
    expect(button).to_have_accessible_description(
        "Browsers let a page record on localhost or over TLS alone. Open it so, or choose a file."
    )
    choose(page, "low.wav", LOW)
    expect(answer(page)).to_have_text("low")


def test_a_damaged_file_is_told_by_the_server_or_by_the_page(opened):
    page = opened.open("try", "sounds")
    opened.expected.append("400 (Bad Request)")
    choose(page, "cut.wav", LOW[:20])
    expect(page.locator("div.trouble:visible")).not_to_be_empty()
    expect(told(page)).to_have_text(
        "cut.wav: This WAV file cannot be drawn: it holds no samples. It is sent as it is."
    )
    expect(page.locator("audio")).to_have_count(0)
    choose(page, "broken.mp3", b"ID3" + bytes(200))
    expect(page.locator(".input .trouble")).to_have_text(
        "The browser cannot read broken.mp3 as sound. Choose a WAV file, or MP3, Ogg, FLAC or M4A if it "
        "plays them."
    )


def test_where_a_model_listens_is_shown_over_seconds(opened):
    page = opened.open("try", "sounds")
    choose(page, "high.wav", HIGH)  # six positions of 0.25 s
    expect(answer(page)).to_have_text("high")
    page.get_by_role("button", name="What does it attend to?").click()
    expect(page.get_by_role("tab", name="Sound")).to_have_attribute("aria-selected", "true")
    slider = page.get_by_role("slider", name="Position")
    expect(slider).to_have_attribute("aria-valuemax", "5")  # padding has none
    listed = page.locator(".attention-top li")
    expect(listed.first).to_have_text(re.compile(r"^1\.25–1\.50 s\s*0\.286$"))  # 6 / (1 + … + 6)
    slider.focus()
    slider.press("ArrowRight")
    slider.press("ArrowRight")
    status = page.locator(".attention-status")
    expect(status).to_have_text("0.25–0.50 s gets 9.52 % of the attention, on average over all positions.")
    slider.press("Escape")
    box = slider.bounding_box()
    page.mouse.move(box["x"] + 0.95 * box["width"], box["y"] + 60)
    expect(status).to_contain_text("1.25–1.50 s gets 28.6 %")
    assert page.locator(".attention-sticky text").all_text_contents() == ["0.00 s", "1.50 s"]


FORMATS = {
    "8 bits": (1, 1, 8),
    "16 bits of two channels": (1, 2, 16),
    "24 bits": (1, 1, 24),
    "32 bits of three channels": (1, 3, 32),
    "floats of two channels": (3, 2, 32),
    "doubles": (3, 1, 64),
}


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("is_extensible", [False, True])
def test_the_page_draws_the_samples_that_the_model_reads(opened, kind, is_extensible):
    content = wav_of(*FORMATS[kind], is_extensible)
    page = opened.open("state", "half")
    found = page.evaluate(READ, base64.b64encode(content).decode())
    samples, rate = read_wav(content, "one.wav")
    if samples.dtype == np.int16:
        samples = samples / 2**15
    assert found["rate"] == rate
    np.testing.assert_allclose(found["samples"], samples, atol=1e-7)


READ = """async (data) => {
  const { readWav } = await import("/page/static/sound/wav.js");
  const { samples, rate } = readWav(Uint8Array.from(atob(data), (character) => character.charCodeAt(0)));
  return { samples: [...samples], rate };
}"""


def wav_of(code, channels, bits, is_extensible):
    """A WAV file of seven frames, with a chunk of an odd size before its samples."""
    random, width = np.random.default_rng(0), bits // 8
    count = 7 * channels
    if code == 3:
        data = random.uniform(-1, 1, count).astype(f"<f{width}").tobytes()
    else:
        data = random.bytes(count * width)
    described = struct.pack(
        "<HHIIHH",
        0xFFFE if is_extensible else code,
        channels,
        22_050,
        22_050 * channels * width,
        channels * width,
        bits,
    )
    if is_extensible:
        described += struct.pack("<HHIH", 22, bits, 0, code) + bytes.fromhex(
            "0000 0000 1000 8000 00aa00389b71"
        )
    parts = [(b"fmt ", described), (b"odd ", b"abc"), (b"data", data)]
    body = b"".join(name + struct.pack("<I", len(part)) + part + bytes(len(part) % 2) for name, part in parts)
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WAVE" + body


def test_a_wav_file_of_the_page_and_its_spectra_are_those_of_numpy(opened):
    page = opened.open("state", "half")
    samples = np.array([0, 0.5, -0.5, 1.5, -1.5, 1 - 2**-15, 2**-16], np.float32)
    values = np.random.default_rng(0).normal(size=64)
    written, power, bands = page.evaluate(NUMBERS, [samples.tolist(), values.tolist()])
    stored = [0, 2**14, -(2**14), 2**15 - 1, -(2**15), 2**15 - 1, 1]
    assert bytes(written) == wav_bytes(np.array(stored, np.int16), 44_100)
    np.testing.assert_allclose(power, np.abs(np.fft.rfft(values)) ** 2, rtol=1e-10)
    # The loudest band of a tone is that around its frequency, at any rate.
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + np.array([4000, 8000]) / 700), 66) / 2595) - 1)
    for at, band in enumerate(bands):
        assert abs(band - np.abs(edges[1:-1, at] - 1000).argmin()) <= 1


NUMBERS = """async ([samples, values]) => {
  const { writeWav } = await import("/page/static/sound/wav.js");
  const { BANDS, spectra, spectrogram } = await import("/page/static/sound/spectrogram.js");
  const bands = [8000, 48000].map((rate) => {
    const turn = (2 * Math.PI * 1000) / rate;
    const samples = Float32Array.from({ length: rate }, (_, at) => Math.sin(turn * at));
    const steps = spectrogram({ samples, rate });
    let step = steps.next();
    while (!step.done) step = steps.next();
    const { frames, decibels } = step.value;
    const column = Array.from({ length: BANDS }, (_, band) => decibels[band * frames + 50]);
    return column.indexOf(Math.max(...column));
  });
  const written = writeWav({ samples: Float32Array.from(samples), rate: 44100 });
  return [[...written], [...spectra(values.length)(values)], bands];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_a_sound(browser, page_served, scheme):
    axe = pytest.importorskip("axe_playwright_python")
    opened = Opened(browser, page_served, color_scheme=scheme, reduced_motion="reduce")
    page = opened.open("try", "sounds")
    page.get_by_role("button", name="Example of the model card").click()
    expect(answer(page)).to_have_text("low")
    page.get_by_role("button", name="What does it attend to?").click()
    expect(page.locator(".attention-top li").first).to_be_visible()
    page.evaluate(Path(axe.__file__).with_name("axe.min.js").read_text("utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    assert [(each["id"], [node["html"][:120] for node in each["nodes"]]) for each in found] == []
    page.set_viewport_size({"width": 320, "height": 800})
    page.wait_for_timeout(300)
    wide = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1]
    opened.close()
