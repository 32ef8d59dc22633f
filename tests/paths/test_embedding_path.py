"""A pretrained encoder's folder exported, served and asked for vectors, by commands and by clients."""

import asyncio
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner
from pretrained_folders import BERT, MPNET, write_folder
from serving_models import HalfPlusTwo, save

from keras_selfattn import models
from keras_selfattn.cli.main import main
from keras_selfattn.export import read_card
from keras_selfattn.serving.client import AsyncClient, Client
from keras_selfattn.serving.errors import FailedPreconditionError
from keras_selfattn.serving.server import Server, ServerConfig

pytestmark = pytest.mark.process

TEXTS = ["a good film .", "bad", "", "the films badly", "good " * 40]


def invoke(*arguments, **settings):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], **settings)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("pretrained") / "tiny", BERT)


@pytest.fixture(scope="module")
def base(folder):
    found = folder.parent / "served"
    done = invoke("export", folder, found)
    assert done.exit_code == 0, done.output
    return found


@pytest.fixture(scope="module")
def expected(folder):
    with pytest.warns(UserWarning, match="1 of 5 texts are longer"):
        return models.TextEncoder(start=folder).predict(TEXTS, verbose=0)


@pytest.fixture(scope="module")
def target(base):
    with Server(ServerConfig("tiny", base, port=0)) as server:
        yield server.target


def test_the_card_and_the_signatures_say_what_it_is(base):
    card = read_card(base / "1")
    assert card["task"] == "text-embedding"
    assert set(card["signatures"]) == {"serving_default", "embed", "explain"}
    assert card["signatures"]["embed"]["outputs"]["embedding"]["shape"] == [None, 8]


def test_the_graph_gives_the_model_s_vectors(base, expected):
    loaded = tf.saved_model.load(str(base / "1"))
    for name in ("embed", "serving_default"):
        found = loaded.signatures[name](text=tf.constant(TEXTS))["embedding"]
        np.testing.assert_allclose(found, expected, atol=1e-5)
    explained = loaded.signatures["explain"](text=tf.constant(TEXTS[:1]))
    assert [piece.decode() for piece in explained["tokens"].numpy()[0]] == [
        "[CLS]", "a", "good", "film", ".", "[SEP]"
    ]  # fmt: skip
    np.testing.assert_allclose(np.sum(explained["weights"], axis=-1), 1, atol=1e-5)


def test_both_clients_embed(target, expected):
    with Client(target, "tiny") as client:
        found = client.embed(TEXTS)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, atol=1e-5)
        assert client.embed([]).shape == (0, 8)

    async def embed():
        async with AsyncClient(target, "tiny") as client:
            return await client.embed(TEXTS)

    np.testing.assert_allclose(asyncio.run(embed()), expected, atol=1e-5)


def test_the_command_writes_the_vectors_of_a_column(target, expected, tmp_path):
    table = tmp_path / "rows.csv"
    table.write_text("text,stars\n" + "".join(f'"{text}",{n}\n' for n, text in enumerate(TEXTS)))
    asked = ("embed", "tiny", "--target", target, "--batch-size", 2)
    done = invoke(*asked, "--file", table, "--output", tmp_path / "v.npy")
    assert done.exit_code == 0, done.output
    assert "Wrote 5 vectors of 8 numbers" in done.output
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), expected, atol=1e-5)
    done = invoke(*asked, "--output", tmp_path / "l.npy", input="bad\n")
    assert done.exit_code == 0, done.output
    np.testing.assert_allclose(np.load(tmp_path / "l.npy"), expected[1:2], atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a", "--output", "v.csv"], "--output must be a file that ends in .npy"),
        (["a", "--output", "v.npy", "--file", "none.csv"], "Give texts or --file, not both"),
        (["--output", "v.npy", "--file", "none.csv"], "none.csv"),
    ],
)
def test_what_the_command_refuses(target, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    done = invoke("embed", "tiny", "--target", target, *arguments)
    assert done.exit_code != 0
    assert said in done.output
    assert not list(tmp_path.iterdir())


def test_no_texts_and_no_server_leave_no_file(target, tmp_path):
    file = tmp_path / "v.npy"
    done = invoke("embed", "tiny", "--target", target, "--output", file, input="")
    assert (done.exit_code, "There are no texts" in done.output) == (1, True)
    done = invoke("embed", "tiny", "--target", "localhost:1", "--timeout", 0.5, "--output", file, "a")
    assert done.exit_code == 4
    assert not file.exists()


def test_a_model_without_vectors_says_so(tmp_path):
    save(HalfPlusTwo(), tmp_path / "base", 3)
    config = ServerConfig("half", tmp_path / "base", port=0)
    with Server(config) as server, Client(server.target, "half") as client:
        with pytest.raises(FailedPreconditionError, match="embed"):
            client.embed(["a"])
        done = invoke("embed", "half", "--target", server.target, "--output", tmp_path / "v.npy", "a")
        assert "has no signature 'embed'" in done.output


def test_an_exported_mpnet_answers_as_in_process(tmp_path):
    """Its texts are padded in the graph, and some are long enough for packed attention."""
    folder = write_folder(tmp_path / "m", MPNET)
    done = invoke("export", folder, tmp_path / "base")
    assert done.exit_code == 0, done.output
    texts = [*TEXTS[:4], "a <mask> film <pad> zebra"] * 10
    expected = models.TextEncoder(start=folder).predict(texts, verbose=0)
    served = tf.saved_model.load(str(tmp_path / "base" / "1")).signatures["embed"]
    for count in (5, 50):
        found = served(text=tf.constant(texts[:count]))["embedding"].numpy()
        np.testing.assert_allclose(found, expected[:count], atol=1e-5)


def test_a_folder_without_weights_is_refused_before_anything_is_written(folder, tmp_path):
    write_folder(tmp_path / "m", BERT)
    (tmp_path / "m" / "model.safetensors").unlink()
    done = invoke("export", tmp_path / "m", tmp_path / "base")
    assert done.exit_code == 1
    assert "lacks model.safetensors" in done.output
    assert not (tmp_path / "base").exists()


def test_the_client_s_command_needs_no_tensorflow():
    program = (
        "import sys, keras_selfattn.cli.embed\n"
        "assert not {'tensorflow', 'keras', 'safetensors'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
