"""A labeller of tokens that starts from a pretrained folder: answers, training, and the path to a server."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner
from pretrained_folders import (
    BERT,
    DISTILBERT,
    ELECTRA,
    MPNET,
    PIECES,
    hidden_states,
    pieces_of,
    weights_of,
    write_folder,
)

from keras_selfattn import models, training
from keras_selfattn.cli.main import main
from keras_selfattn.errors import ConfigError, RunError
from keras_selfattn.models.optimizers import FineTuningAdamW
from keras_selfattn.runs.run_folder import load_run, read_config

ROWS = [["a", "goods", "film", "."], ["The", "badly"], ["films"], ["badly", "the", "goods", "film"]] * 6
LABELS = [["D", "J", "N", "P"], ["D", "R"], ["N"], ["R", "D", "J", "N"]] * 6
# The pieces of words, read off the vocabulary.
SPLIT = {"goods": ["good", "##s"], "films": ["film", "##s"], "badly": ["bad", "##ly"], "The": ["the"]}
UNDROPPED = {"dropout": 0.0, "attention_dropout": 0.0, "head_dropout": 0.0}
# Without a piece, or with the one that stands for padding elsewhere.
STRANGE = ["\x00", " ", "[PAD]", "☃", "a.a"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("pretrained") / "tiny", BERT)


@pytest.fixture(scope="module")
def gentle(tmp_path_factory):
    """A folder whose blocks and positions matter little: what the encoder returns depends on the word."""
    tensors = {
        name: value if "word" in name or "LayerNorm" in name else 0.1 * value
        for name, value in weights_of(BERT).items()
    }
    return write_folder(tmp_path_factory.mktemp("pretrained") / "gentle", BERT, tensors)


@pytest.fixture(scope="module")
def labeller(folder):
    """With random weights of the head, and rows of more than 7 pieces in parts."""
    model = models.TokenClassifier({"max_tokens": 9}, start=folder)
    model.adapt(ROWS, LABELS)
    head = model.core.get_layer("logits")
    random = np.random.default_rng(0)
    head.set_weights([random.normal(size=weight.shape) for weight in head.weights])
    return model


def names(config):
    mpnet = config["model_type"] == "mpnet"
    return ("<s>", "</s>", "[UNK]") if mpnet else ("[CLS]", "[SEP]", "[UNK]")


def ids_and_firsts(row, config=BERT):
    """The folder's ids of a row, and the places of first pieces, by the vocabulary."""
    cls, sep, unknown = names(config)
    vocabulary, pieces, firsts = pieces_of(config), [cls], []
    for word in row:
        firsts.append(len(pieces))
        split = SPLIT.get(word, [word])
        pieces += split if set(split) <= set(vocabulary) else [unknown]
    return [vocabulary.index(piece) for piece in [*pieces, sep]], firsts


def wanted_of(model, row, config=BERT, tensors=None):
    """The probabilities of a row that is read at once, from the papers' formulas."""
    ids, firsts = ids_and_firsts(row, config)
    hidden = hidden_states(config, weights_of(config) if tensors is None else tensors, ids)[firsts]
    kernel, bias = model.core.get_layer("logits").get_weights()
    logits = hidden @ kernel.astype(float) + bias
    grown = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return grown / grown.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize(
    "config",
    [BERT, *(pytest.param(config, marks=pytest.mark.slow) for config in (ELECTRA, DISTILBERT, MPNET))],
    ids=lambda config: config["model_type"],
)
def test_a_token_is_what_the_encoder_returns_at_its_first_piece(tmp_path, config):
    model = models.TokenClassifier(start=write_folder(tmp_path / "m", config))
    model.adapt(ROWS, LABELS)
    for row, found in zip(ROWS[:4], model.predict(ROWS[:4], verbose=0), strict=True):
        np.testing.assert_allclose(found, wanted_of(model, row, config), atol=1e-5)


@pytest.mark.slow
def test_longer_rows_are_read_in_parts_of_whole_tokens(labeller):
    # 2 + 1 + 2 + 1 pieces; the next token has 2, one too many.
    parts = [["badly", "a", "goods", "."], ["films", "the", "badly", "film", "."], ["goods"]]
    found = labeller.predict([[word for part in parts for word in part], ["a"]], verbose=0)[0]
    wanted = [wanted_of(labeller, part) for part in parts]
    np.testing.assert_allclose(found, np.concatenate(wanted), atol=1e-5)


@pytest.mark.slow
def test_every_token_has_an_answer_whatever_it_holds(labeller):
    rows = [STRANGE, ["film", *STRANGE[:3]], ["good" * 3000, "a"], []]
    found = labeller.predict(rows, verbose=0)
    assert [len(row) for row in found] == [5, 4, 2, 0]
    wanted = wanted_of(labeller, ["film", "?", "?", "[PAD]"])
    np.testing.assert_allclose(found[1], wanted, atol=1e-5)
    answers = labeller(tf.constant([[*STRANGE, ""]]))
    np.testing.assert_array_equal(answers._keras_mask, [[True] * 5 + [False]])


def test_padding_anywhere_changes_nothing(labeller):
    plain, holes = ["a", "goods", "film", "badly"], ["", "a", "", "goods", "film", "", "", "badly"]
    found = np.asarray(labeller(tf.constant([holes, ["the"] * 8])))[0]
    real = [place for place, word in enumerate(holes) if word]
    np.testing.assert_allclose(found[real], labeller.predict([plain], verbose=0)[0], atol=1e-5)
    assert labeller(tf.zeros([2, 0], tf.string)).shape == (2, 0, 5)
    assert labeller(tf.zeros([0, 3], tf.string)).shape == (0, 3, 5)


@pytest.mark.slow
def test_loss_and_accuracy_are_of_the_tokens_alone(labeller):
    """By hand: the mean of -log p(label) over tokens, not over pieces or padding."""
    labeller.compile()
    loss, accuracy = labeller.evaluate(ROWS, LABELS, verbose=0)
    places = [[labeller.labels.index(name) for name in row] for row in LABELS]
    logs = [
        np.log(found[range(len(row)), row])
        for found, row in zip(labeller.predict(ROWS, verbose=0), places, strict=True)
    ]
    right = [
        found.argmax(-1) == row for found, row in zip(labeller.predict(ROWS, verbose=0), places, strict=True)
    ]
    # One batch: Keras averages the losses of batches.
    assert loss == pytest.approx(-np.concatenate(logs).mean(), rel=1e-5)
    assert accuracy == pytest.approx(np.concatenate(right).mean())


@pytest.mark.slow
def test_it_learns_and_is_the_same_after_saving(gentle, tmp_path):
    model = models.TokenClassifier(UNDROPPED, start=gentle)
    run = training.train(
        (ROWS, LABELS),
        tmp_path / "run",
        model=model,
        config=training.TrainConfig(epochs=40, patience=40, learning_rate=0.02, batch_size=8),
        validation=(ROWS[:4], LABELS[:4]),
        verbose=0,
    )
    assert run.figures.summary()["accuracy"] == 1
    assert isinstance(run.model.optimizer, FineTuningAdamW)
    saved = load_run(tmp_path / "run")
    asked = [*ROWS[:4], STRANGE, ["films"] * 40]
    for found, wanted in zip(
        saved.predict(asked, verbose=0), run.model.predict(asked, verbose=0), strict=True
    ):
        np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert saved.label(ROWS[:4]) == LABELS[:4]
    record = read_config(tmp_path / "run")
    assert (record["kind"], record["start"]) == ("TokenClassifier", {"path": str(gentle), "kind": "bert"})
    # A saved model holds everything: a start folder may be gone.
    assert saved.get_config()["start"] is None
    saved.compile()
    saved.fit(ROWS, LABELS, verbose=0)


def test_frozen_layers_have_no_trainable_weights_and_lower_ones_learn_slower(folder):
    model = models.TokenClassifier({"frozen_layers": 1, "head_dropout": 0.3}, start=folder)
    model.adapt(ROWS, LABELS)
    paths = {variable.path for variable in model.core.trainable_variables}
    assert {path.partition("/")[0] for path in paths} == {"encoder", "logits"}
    assert {path.split("/")[1] for path in paths if path.startswith("encoder")} == {"block_1"}
    rates = FineTuningAdamW(rates=model.learning_rates)
    found = [rates.rate_of(path) for path in ("embedding/tokens", "encoder/block_0/x", "encoder/block_1/x")]
    assert found[0] < found[1] < found[2] == 1
    assert model.core.get_layer("head_dropout").rate == 0.3
    assert [set(change) for change in model.alternatives()] == [
        {"learning_rate"},
        {"learning_rate"},
        {"batch_size"},
    ]


@pytest.mark.slow
def test_spans_are_decoded_together_and_measured(gentle, tmp_path):
    rows = [["The", "goods", "film"], ["bad", "."]] * 12
    labels = [["O", "B-X", "I-X"], ["O", "O"]] * 12
    config = training.TrainConfig(epochs=40, patience=40, learning_rate=0.01, batch_size=8)
    model = models.TokenClassifier(UNDROPPED, start=gentle)
    held_out = (rows[:4], labels[:4])
    run = training.train(
        (rows, labels), tmp_path / "run", model=model, config=config, validation=held_out, verbose=0
    )
    assert run.figures.summary()["span_f1"] == 1
    assert run.model.label([["The", "goods", "film"], ["films"]])[0] == labels[0]


def test_rows_that_are_read_in_parts_are_told(folder):
    model = models.TokenClassifier({"max_tokens": 5}, start=folder)
    with pytest.warns(
        UserWarning, match=r"^12 of 24 rows are longer than max_tokens=5 pieces and are read in parts"
    ):
        model.adapt(ROWS, LABELS)


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"width": 16}, r"`width` is 8 in .*tiny, whose weights the model begins with\. Received 16"),
        ({"members": 2}, "`members` is for token models that learn their own words"),
        ({"window": 4}, "`window` is for token models"),
        ({"wide": False}, "`wide` is for token models"),
        ({"pooling": "max"}, "`pooling` is 'mean'"),
        ({"max_tokens": 2}, r"`max_tokens` must be at least 3, for a piece between .*Received 2"),
        ({"frozen_layers": 3}, r"`frozen_layers` \(--freeze\) must be at most `num_layers`, 2\. Received 3"),
        (models.TokenConfig(width=96), "`width` is 8"),
        (
            models.FineTunedTokenConfig(),
            "is a dict of the fields to choose: .*Received a FineTunedTokenConfig",
        ),
        (models.FineTunedConfig(), "is a dict of the fields to choose"),
    ],
)
def test_what_the_folder_determines_cannot_be_changed(folder, config, match):
    with pytest.raises(ConfigError, match=match):
        models.TokenClassifier(config, start=folder)


def test_a_config_without_a_folder_and_one_of_texts_are_refused(folder):
    model = models.TokenClassifier(models.FineTunedTokenConfig(width=8, num_heads=2))
    with pytest.raises(ConfigError, match="A FineTunedTokenConfig needs `start`, the folder"):
        model.adapt(ROWS, LABELS)
    with pytest.raises(ConfigError, match="`config` must be a TokenConfig"):
        models.TokenClassifier(models.FineTunedConfig(width=8, num_heads=2))
    with pytest.raises(ConfigError, match="without `vocabulary`"):
        models.TokenClassifier(start=folder, vocabulary=["a"], labels=["b"])


def test_a_model_whose_start_is_broken_learns_nothing(tmp_path):
    tensors = weights_of(BERT)
    del tensors["encoder.layer.1.output.dense.bias"]
    model = models.TokenClassifier(start=write_folder(tmp_path / "m", BERT, tensors))
    with pytest.raises(ConfigError, match=r"encoder.layer.1.output.dense.bias is missing"):
        model.adapt(ROWS, LABELS)
    assert (model.labels, model.tokenizer) == ([], None)


def test_only_a_pretrained_folder_is_a_start(tmp_path):
    small = models.TextConfig(width=8, num_layers=1, num_heads=2, wide=False)
    models.TextClassifier(small, vocabulary=["good"], labels=["+", "-"]).save(tmp_path / "base.keras")
    with pytest.raises(RunError, match=r"base.keras holds a TextClassifier that is no pretrained encoder"):
        models.TokenClassifier(start=tmp_path / "base.keras")
    with pytest.raises(RunError, match="There is no folder .*nowhere. Give a pretrained"):
        models.TokenClassifier(start=tmp_path / "nowhere")


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    file = tmp_path_factory.mktemp("rows") / "tags.conll"
    blocks = ["".join(map("{}\t{}\n".format, *row)) for row in zip(ROWS, LABELS, strict=True)]
    file.write_text("\n".join(blocks))
    return file


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["--freeze", 1], "--freeze needs --from with a pretrained model."),
        (["--from", "./nowhere/MiniLM"], "There is no model at nowhere/MiniLM. Give"),
        (["--from", "TABLE"], "tags.conll is no .keras file"),
        (["--from", "FOLDER", "--width", 16], "--width contradicts"),
        (["--from", "FOLDER", "--members", 2], "--members has no meaning"),
    ],
)
def test_the_command_refuses_what_does_not_fit(folder, table, tmp_path, arguments, match):
    known = {"FOLDER": folder, "TABLE": table}
    done = invoke(
        "train", table, "--output", tmp_path / "run", *(known.get(each, each) for each in arguments)
    )
    assert done.exit_code != 0
    assert match in " ".join(done.output.split())
    assert not (tmp_path / "run").exists()


RELOAD = """
import json, sys
sys.modules["keras"] = None
import tensorflow as tf
loaded = tf.saved_model.load(sys.argv[1])
serve = loaded.signatures["serving_default"]
tokens = tf.constant(json.loads(sys.argv[2]))
explained = loaded.signatures["explain"](tokens=tokens)
print(json.dumps({
    "probabilities": serve(tokens=tokens)["probabilities"].numpy().tolist(),
    "pieces": [[piece.decode() for piece in row] for row in explained["tokens"].numpy()],
    "weights": explained["weights"].numpy().tolist(),
}))
"""


def test_what_is_explained_are_the_pieces_that_are_read_together(labeller):
    from keras_selfattn.export.signatures.token_preprocessing import PieceTokenFront

    front = PieceTokenFront(labeller)
    rows = [["badly", "", "a", "goods", "film", "films", "a"], ["x" * 9, *[""] * 6], [""] * 7]
    pieces, ids = front.explained(tf.constant(rows))
    text = [[piece.decode() for piece in row if piece] for row in pieces.numpy()]
    assert text == [
        ["[CLS]", "bad", "##ly", "a", "good", "##s", "film", "[SEP]"],
        ["[CLS]", "[UNK]", "[SEP]"],
        ["[CLS]", "[SEP]"],
    ]
    assert ids.numpy().tolist() == [
        [PIECES.index(piece) for piece in row] + [0] * (8 - len(row)) for row in text
    ]
    # The encoder then reads these ids, and each row at once.
    again, _ = labeller.core.get_layer("parts")(front.alone(ids))
    np.testing.assert_array_equal(again, ids)


@pytest.mark.process
def test_the_path_from_a_table_to_a_served_labeller(folder, table, tmp_path):
    from keras_selfattn.export import read_card
    from keras_selfattn.serving.client import Client
    from keras_selfattn.serving.server import Server, ServerConfig

    run, base = tmp_path / "run", tmp_path / "served"
    settings = ("--freeze", 1, "--epochs", 2, "--no-refit")
    done = invoke("train", table, "--output", run, "--from", folder, *settings)
    assert done.exit_code == 0, done.output
    assert "bert, 2 blocks of width 8; 1.45 pieces a token" in " ".join(done.output.split())
    assert invoke("evaluate", run, table).exit_code == 0
    # A fresh process knows the classes of a saved model only by what it imports itself.
    command = "import keras_selfattn.cli.entry as e; e.main()"
    done = subprocess.run(
        [sys.executable, "-c", command, "export", str(run), str(base)],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    card = read_card(base / "1")
    assert (card["task"], set(card["signatures"])) == (
        "token-labelling",
        {"serving_default", "spans", "explain"},
    )
    model = load_run(run)
    asked = [*ROWS[:4], STRANGE, [], ["goods", "film"] * 20]
    wanted = model.predict(asked, verbose=0)
    padded = [row + [""] * (40 - len(row)) for row in asked]
    found = subprocess.run(
        [sys.executable, "-c", RELOAD, str(base / "1"), json.dumps(padded)],
        capture_output=True,
        check=True,
        timeout=300,
    ).stdout
    found = json.loads(found)
    for answer, row in zip(found["probabilities"], wanted, strict=True):
        np.testing.assert_allclose(np.reshape(answer[: len(row)], row.shape), row, atol=1e-5)
        assert not np.any(answer[len(row) :])
    sums = np.sum(found["weights"], axis=-1)  # [rows, layers, heads, pieces]
    real = np.array(found["pieces"]) != ""
    np.testing.assert_allclose(sums, np.broadcast_to(real[:, None, None], sums.shape), atol=1e-5)
    assert found["pieces"][1][:6] == ["[CLS]", "the", "bad", "##ly", "[SEP]", ""]
    with (
        Server(ServerConfig("tags", base, port=0)) as server,
        Client(server.target, model="tags") as client,
    ):
        answers = client.label(asked)
        told = invoke("query", "--target", server.target, "tags", "a goods film")
    assert [list(answer.labels) for answer in answers] == model.label(asked)
    assert told.exit_code == 0, told.output
