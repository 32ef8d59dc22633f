"""The guides run: the Python of a page as one program, and its commands, in their order."""

import contextlib
import json
import re
import shlex
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from keras_selfattn.cli.main import main

GUIDES = Path(__file__).parent.parent / "docs" / "guides"


class Reader:
    """Does what a guide says. Its server has free ports; commands of other programs are left out."""

    def __init__(self, servers):
        self.servers, self.names, self.addresses, self.answers = servers, {}, {}, []

    def follow(self, guide, shortened=()):
        """Run a guide; `shortened` has pairs: what the page says, and what takes less time."""
        text = (GUIDES / guide).read_text(encoding="utf-8").replace("\\\n", " ")
        for shown, done in shortened:
            assert shown in text, shown
            text = text.replace(shown, done)
        for language, code in re.findall(r"^```(python|sh)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            for shown, real in self.addresses.items():
                code = code.replace(shown, real)  # noqa: PLW2901
            if language == "python":
                exec(compile(code, guide, "exec"), self.names)
            else:
                for line in code.splitlines():
                    self.command(line, shlex.split(line, comments=True))

    def command(self, line, words):
        if words[:2] == ["keras-selfattn", "serve"]:
            flags = (word.removeprefix("--").partition("=") for word in words[2:])
            self.serve({name: value or True for name, _, value in flags})
        elif words[:2] == ["keras-selfattn", "export"] and Path(words[3], "1").is_dir():
            # The same export once more, which would take as long again; a version appears by rename.
            shutil.copytree(Path(words[3], "1"), "copy")
            Path("copy").rename(Path(words[3], "2"))
        elif words[:1] == ["keras-selfattn"]:
            main(words[1:], standalone_mode=False)
        elif words[:1] == ["printf"]:
            subprocess.run(line, shell=True, check=True)
        elif words[:2] == ["curl", "-d"]:
            body = Path(words[2][1:]).read_bytes() if words[2].startswith("@") else words[2].encode()
            with urllib.request.urlopen(words[3], body, timeout=30) as answer:
                self.answers.append(json.load(answer))

    def serve(self, flags):
        from keras_selfattn.serving.server import Server, ServerConfig

        server = self.servers.enter_context(Server(ServerConfig(**flags | {"port": 0, "rest_api_port": -1})))
        self.addresses = {"localhost:8500": server.target, "localhost:8501": f"127.0.0.1:{server.rest_port}"}


@pytest.fixture
def reader(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with contextlib.ExitStack() as servers:
        yield Reader(servers)


def within(seconds, holds):
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.2)
    return holds()


@pytest.mark.slow
def test_attention_from_the_formula_to_a_trained_model(reader, tmp_path):
    reader.follow("attention.md")
    assert reader.names["accuracy"] > 0.95
    # As the pictures show it: the pooling reads the mark, whose queries look at the digit after it.
    mark = reader.names["names"].index("mark")
    assert reader.names["shares"][0, 0, mark] > 0.9
    assert reader.names["all_weights"][0][0, :, mark].numpy().sum(axis=0).argmax() == mark + 1
    assert (tmp_path / "attention-weights.png").is_file()


@pytest.mark.process
@pytest.mark.slow
def test_a_csv_comes_to_a_server_and_its_next_version_answers(reader, tmp_path, eager_steps, unchecked):
    reader.follow("csv-to-server.md")
    assert reader.names["answer"].label == "billing"
    assert [row["label"] for row in reader.answers[0]["predictions"]] == ["billing"]
    assert len((tmp_path / "answers.csv").read_text(encoding="utf-8").splitlines()) == 21
    with reader.names["Client"](reader.addresses["localhost:8500"], model="tickets") as client:
        assert within(240, lambda: client.versions() == [2])


@pytest.mark.process
@pytest.mark.slow
def test_two_columns_come_to_a_server_that_writes_the_second(reader, tmp_path, unchecked):
    # Too short a training to be right: how well a model answers is for other tests to say.
    shortened = [("3_200", "260"), ("--epochs 15", "--epochs 1")]
    reader.follow("two-columns-to-a-translator.md", shortened)
    answer = reader.names["answer"]
    assert len(answer.candidates) == 3
    assert answer.candidates[0].text == answer.text
    row = reader.answers[0]["predictions"][0]
    assert row["text"] == answer.text
    assert row["score"] == pytest.approx(answer.score, abs=1e-3)
    lines = (tmp_path / "answers.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "written,iso,text,score,ended"
    assert len(lines) == 201


@pytest.mark.process
@pytest.mark.slow
def test_recordings_come_to_a_server_that_knows_their_sounds(reader, tmp_path, eager_steps, unchecked):
    # Too few speakers and kernels for a good model: how well one answers is for other tests to say.
    fewer = ('range(20), "test.csv": range(20, 26)', 'range(4), "test.csv": range(20, 22)')
    reader.follow(
        "recordings-to-a-served-classifier.md", [fewer, ("--epochs 12", "--epochs 1 --kernels 100")]
    )
    whole, first = reader.names["whole"], reader.names["first"]
    row = reader.answers[0]["predictions"][0]
    assert (row["label"], row["score"]) == (whole.label, pytest.approx(whole.score, abs=1e-4))
    assert sorted(first.scores) == ["level", "pause", "slide", "trill"]
    lines = (tmp_path / "answers.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "path,start,end,label,speaker,predicted_label,score"
    assert len(lines) == 33


@pytest.mark.slow
def test_the_files_of_fasttext_are_trained_on_as_they_are(reader, eager_steps):
    reader.follow("from-fasttext.md")
    assert reader.names["names"] == ["pos", "neg"]
    assert reader.names["probabilities"].shape == (2, 2)


@pytest.mark.slow
def test_a_model_of_tensorflow_answers_its_own_clients_here(reader):
    reader.follow("from-tensorflow-serving.md")
    assert reader.names["answer"].tolist() == [2.5, 3.0]
    assert reader.answers == [{"predictions": [2.5, 3.0]}]


@pytest.mark.slow
def test_an_estimator_stands_where_a_linear_model_stood(reader, tmp_path, eager_steps, unchecked):
    reader.follow("from-scikit-learn.md")
    assert reader.names["there"].shape == reader.names["here"].shape == (2,)
    assert (tmp_path / "models" / "film" / "1" / "saved_model.pb").is_file()
