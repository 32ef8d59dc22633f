"""Every task's model keeps one contract: from a file to answers of a server, with report and explanations."""

import base64
import json
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from pretrained_folders import write_folder

from keras_selfattn import models
from keras_selfattn.export import export_saved_model
from keras_selfattn.export.signatures.raw_models import raw_front
from keras_selfattn.rows.wav_files import wav_bytes
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.tasks import TASKS, task_named
from keras_selfattn.training import TrainConfig, evaluate, train

# Rows of each class: enough that a share can be held out.
_ROWS = 24


@dataclass(frozen=True)
class Sample:
    """A small file of a task.

    Args:
        write: writes it into a folder, and returns its path.
        output: the output of `serving_default` that equals the model's `predict`.
        settings: of the model, so that it is small.
        reading: arguments of the reader.
        start: writes the pretrained model that it begins with into a folder, and returns its path.
        apart: the most by which a server's answers may differ.
    """

    write: Any
    output: str
    settings: dict[str, Any]
    reading: dict[str, Any] = field(default_factory=dict)
    start: Any = None
    apart: float = 1e-5


def _written(folder: Path, name: str, lines: list[str]) -> Path:
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / name


def _text(folder: Path) -> Path:
    rows = [
        f"{word} film {n % 3},{label}" for n in range(_ROWS) for word, label in (("good", "+"), ("bad", "-"))
    ]
    return _written(folder, "rows.csv", ["text,label", *rows])


def _pairs(folder: Path) -> Path:
    rows = [
        f"is it {word} {n % 3}?,it is {answer},{'yes' if word == answer else 'no'}"
        for n in range(_ROWS)
        for word, answer in (("good", "good"), ("good", "bad"), ("bad", "bad"), ("bad", "good"))
    ]
    return _written(folder, "rows.csv", ["question,answer,label", *rows])


def _score(folder: Path) -> Path:
    rows = [
        f"{word} film {n % 3},{stars + n % 3 / 4},{stars > 2:d}"
        for n in range(_ROWS)
        for word, stars in (("good", 4), ("bad", 1))
    ]
    return _written(folder, "rows.csv", ["text,stars,liked", *rows])


def _images(folder: Path) -> Path:
    random = np.random.default_rng(0)
    pictures = [random.integers(low, low + 99, (6, 6, 1), "uint8") for _ in range(_ROWS) for low in (0, 150)]
    np.savez(folder / "rows.npz", x=np.stack(pictures), y=np.array(["dark", "bright"] * _ROWS))
    return folder / "rows.npz"


def _audio(folder: Path) -> Path:
    time = np.arange(2000) / 8000
    for label, hertz in (("low", 300), ("high", 1500)):
        (folder / "clips" / label).mkdir(parents=True)
        for n in range(_ROWS):
            tone = 0.3 * np.sin(2 * np.pi * (hertz + 9 * n) * time[: 1200 + 20 * n])
            content = wav_bytes((tone * 2**15).astype(np.int16), 8000)
            (folder / "clips" / label / f"{n}.wav").write_bytes(content)
    return folder / "clips"


def _tokens(folder: Path) -> Path:
    rows = [f"Ada\tB-PER\nmet\tO\nBob{n}\tB-PER\n\nnobody\tO\ncame{n}\tO\n" for n in range(_ROWS)]
    return _written(folder, "rows.conll", rows)


def _series(folder: Path) -> Path:
    rows = [
        ",".join(f"{level + (n * step) % 3:.1f}" for step in range(8 + n % 3)) + f":{label}"
        for n in range(_ROWS)
        for level, label in ((0, "low"), (5, "high"))
    ]
    head = [
        "@problemName made_up",
        "@univariate true",
        "@equalLength false",
        "@classLabel true low high",
        "@data",
    ]
    return _written(folder, "rows.ts", head + rows)


def _regression(folder: Path) -> Path:
    rows = [f"{n},{step},{n * 0.1 + step},{n * 0.1}" for n in range(_ROWS) for step in range(6)]
    return _written(folder, "rows.csv", ["id,step,value,target", *rows])


def _forecast(folder: Path) -> Path:
    rows = [f"{step},{np.sin(step / 3):.4f}" for step in range(120)]
    return _written(folder, "rows.csv", ["step,value", *rows])


def _groups(folder: Path) -> Path:
    rows = [
        f"a {word} film,the film is {word} {n},{n} badly" for n in range(_ROWS) for word in ("good", "bad")
    ]
    return _written(folder, "rows.csv", ["text,text_pair,other", *rows])


def _answers(folder: Path) -> Path:
    rows = [
        f"{a}{b}{n % 3},{n % 3}{b}{a}" for n in range(_ROWS) for a, b in (("p", "q"), ("q", "p"), ("r", "s"))
    ]
    return _written(folder, "rows.csv", ["source,target", *rows])


_SMALL = {"width": 8, "num_layers": 1, "num_heads": 2}
SAMPLES = {
    "text": Sample(_text, "probabilities", {**_SMALL, "members": 1}),
    "text: pairs": Sample(
        _pairs,
        "probabilities",
        {**_SMALL, "members": 1},
        {"text": "question", "text_pair": "answer"},
    ),
    "images": Sample(_images, "probabilities", {**_SMALL, "patch_size": 2, "augment": False}),
    # NumPy and TensorFlow round frames of sound differently, and random convolutions have steep slopes.
    "audio": Sample(_audio, "probabilities", {**_SMALL, "augment": False, "kernels": 50}, apart=1e-4),
    "tokens": Sample(_tokens, "probabilities", {**_SMALL, "members": 1}),
    "series": Sample(_series, "probabilities", {**_SMALL, "kernels": 50}),
    "regression": Sample(
        _regression,
        "predictions",
        _SMALL,
        {"row_id": "id", "time": "step", "values": "value", "label": "target"},
    ),
    "score": Sample(_score, "predictions", {**_SMALL, "members": 1}, {"label": "stars,liked"}),
    "embedding": Sample(
        _groups, "embedding", {}, {"negatives": ("other",)}, lambda folder: write_folder(folder / "start")
    ),
    "seq2seq": Sample(_answers, "text", {**_SMALL, "tokens": "characters", "max_new_tokens": 6, "beams": 2}),
    "forecast": Sample(_forecast, "predictions", _SMALL, {"time": "step", "context": 12, "horizon": 3}),
}


@dataclass(frozen=True)
class Walk:
    """A task's way: its rows, the run, and the folder of its exports."""

    sample: Sample
    rows: Any
    run: Any
    base: Path


def walk_of(task, sample, folder):
    """Takes the way of a task, in a folder."""
    keras.utils.set_random_seed(0)
    rows = task.rows(sample.write(folder), sample.reading)
    settings = TrainConfig(epochs=1, batch_size=8, refit=False)
    start = None if sample.start is None else sample.start(folder)
    model = task.model(sample.settings, start)
    run = train(rows, folder / "run", model=model, config=settings, verbose=0)
    export_saved_model(run.model, folder / "base")
    return Walk(sample, rows, run, folder / "base")


def _task_of(sample: str) -> str:
    return sample.partition(":")[0]


@pytest.fixture(scope="module", params=SAMPLES)
def walk(request, tmp_path_factory):
    task = _task_of(request.param)
    folder = tmp_path_factory.mktemp(task)
    return walk_of(task_named(task, folder), SAMPLES[request.param], folder)


def posted(url: str, body: Any, behind: bytes = b"") -> Any:
    content = json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    if behind:
        headers["Inference-Header-Content-Length"] = str(len(content))
    request = urllib.request.Request(url, content + behind, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def _as_text(content: Any) -> Any:
    """A text, or the content of a file, or a row of tokens, in JSON."""
    if isinstance(content, np.ndarray):
        return list(map(_as_text, content))
    if content.startswith(b"RIFF"):
        return {"b64": base64.b64encode(content).decode()}
    return content.decode()


def asked_over_rest(url: str, asked: Any, output: str) -> list[Any]:
    """The answer to a request over REST, by rows and by columns, and over the Open Inference Protocol."""
    columns = {name: np.asarray(value) for name, value in asked.items()}
    as_json = {
        name: list(map(_as_text, values)) if values.dtype == object else values.tolist()
        for name, values in columns.items()
    }
    rows = [dict(zip(as_json, cells, strict=True)) for cells in zip(*as_json.values(), strict=True)]
    kinds = {"f": "FP32", "i": "INT32", "u": "UINT8", "O": "BYTES"}
    tensors, behind = [], b""
    for name, values in columns.items():
        tensor = {"name": name, "datatype": kinds[values.dtype.kind], "shape": values.shape}
        cells = np.ravel(as_json[name]).tolist()
        if any(isinstance(cell, dict) for cell in cells):  # no text: sent behind the JSON
            raw = b"".join(len(each).to_bytes(4, "little") + each for each in values)
            tensors.append({**tensor, "parameters": {"binary_data_size": len(raw)}})
            behind += raw
        else:
            tensors.append({**tensor, "data": cells})
    outputs = posted(f"{url}/v2/models/it/infer", {"inputs": tensors}, behind)["outputs"]
    (flat,) = [each["data"] for each in outputs if each["name"] == output]
    by_row = posted(f"{url}/v1/models/it:predict", {"instances": rows})["predictions"]
    by_column = posted(f"{url}/v1/models/it:predict", {"inputs": as_json})["outputs"]
    if isinstance(by_column, dict):
        by_row, by_column = [each[output] for each in by_row], by_column[output]
    return [by_row, by_column, flat]


def predicted(model: Any, rows: Any) -> Any:
    return model.predict(rows, verbose=0)


def check_equal(found: Any, wanted: Any, atol: float) -> None:
    """The numbers of a row, or its text, are those that are wanted."""
    if isinstance(wanted, str):
        (text,) = np.ravel(found).tolist()
        assert (text.decode() if isinstance(text, bytes) else text) == wanted
    else:
        np.testing.assert_allclose(np.ravel(found), np.ravel(wanted), rtol=1e-5, atol=atol)


@pytest.mark.slow
def test_the_run_holds_figures_and_a_report_of_the_rows(walk):
    figures = json.loads((walk.run.path / "metrics.json").read_text())
    assert figures
    assert all(np.isfinite(value) for value in figures.values() if isinstance(value, float))
    page = (walk.run.path / "report.html").read_text()
    for title in ("Data", "Settings"):
        assert f">{title}<" in page, title


@pytest.mark.slow
def test_the_saved_model_answers_as_before_and_is_measured_alike(walk):
    again = models.load(walk.run.path / "model.keras")
    rows = walk.rows.take(range(5))
    for before, after in zip(
        predicted(walk.run.model, rows.inputs), predicted(again, rows.inputs), strict=True
    ):
        check_equal(after, before, atol=1e-6)
    assert evaluate(again, rows).summary() == pytest.approx(
        evaluate(walk.run.model, rows).summary(), rel=1e-3, abs=1e-5, nan_ok=True
    )


@pytest.mark.process
def test_the_server_answers_as_the_model_and_explains_it(walk):
    rows, output = walk.rows.inputs[:5], walk.sample.output
    wanted = predicted(walk.run.model, rows)
    front = raw_front(walk.run.model)
    with (
        Server(ServerConfig("it", str(walk.base), port=0, rest_api_port=-1)) as server,
        Client(server.target, model="it") as client,
    ):
        client.wait_until_ready(60)
        for row, expected in zip(rows, wanted, strict=True):
            asked = front.asked(row)
            found = client.predict(asked)[output]
            check_equal(found, expected, walk.sample.apart)
            explained = client.predict(asked, signature="explain")
            assert explained["weights"].shape[0] == len(found)
            assert np.isfinite(explained["weights"]).all()
        for found in asked_over_rest(server.rest_url, front.asked(rows[0]), output):
            check_equal(found, wanted[0], walk.sample.apart)


def test_every_task_has_a_sample():
    assert set(map(_task_of, SAMPLES)) == {task.name for task in TASKS}
