"""Fine-tuning: a classifier that starts from a pretrained folder, and its path to a server."""

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner
from pretrained_folders import BERT, DISTILBERT, ELECTRA, write_byte_pairs, write_folder
from pretrained_folders import weights_of as weights_of_folder

from keras_selfattn import models, training
from keras_selfattn.cli.main import main
from keras_selfattn.errors import ConfigError, DataError, RunError
from keras_selfattn.export import export_saved_model
from keras_selfattn.models.optimizers import FineTuningAdamW
from keras_selfattn.runs.run_folder import load_run, read_config

TEXTS = ["a good film .", "the good film", "good films", "a bad film .", "the bad film", "badly bad"] * 6
LABELS = ["+", "+", "+", "-", "-", "-"] * 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("pretrained") / "tiny", BERT)


def weights_of(model, name):
    return [np.array(weight) for weight in model.core.get_layer(name).weights]


def test_the_gradient_of_a_models_table_names_its_rows(folder):
    model = models.TextClassifier({"wide": False}, start=folder)
    model.adapt(TEXTS, LABELS)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model.core(tf.constant([[2, 5, 6, 3]]), training=True))
    table = model.core.get_layer("embedding").weights[0]
    assert isinstance(tape.gradient(loss, table.value), tf.IndexedSlices)


@pytest.mark.parametrize("config", [BERT, ELECTRA, DISTILBERT], ids=lambda config: config["model_type"])
def test_a_classifier_begins_with_the_weights_and_the_pieces_of_a_folder(tmp_path, config):
    start = write_folder(tmp_path / "m", config)
    model, encoder = models.TextClassifier(start=start), models.TextEncoder(start=start)
    model.adapt(TEXTS, LABELS)
    assert model.tokenizer.vocabulary == encoder.tokenizer.vocabulary
    for name in ("embedding", "encoder"):
        for found, wanted in zip(weights_of(model, name), weights_of(encoder, name), strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.slow
def test_it_learns_and_is_the_same_after_saving(folder, tmp_path):
    model = models.TextClassifier(start=folder)
    run = training.train(
        (TEXTS, LABELS),
        tmp_path / "run",
        model=model,
        config=training.TrainConfig(epochs=6, learning_rate=0.01, batch_size=12),
        validation=(TEXTS[:6], LABELS[:6]),
        verbose=0,
    )
    assert run.figures.summary()["accuracy"] == 1
    assert isinstance(run.model.optimizer, FineTuningAdamW)
    saved = load_run(tmp_path / "run")
    np.testing.assert_allclose(
        saved.predict(TEXTS, verbose=0), run.model.predict(TEXTS, verbose=0), atol=1e-6
    )
    record = read_config(tmp_path / "run")
    assert record["kind"] == "TextClassifier"
    assert record["start"] == {"path": str(folder), "kind": "bert"}
    # A saved model holds everything: a start folder may be gone.
    assert saved.get_config()["start"] is None
    saved.compile()
    saved.fit(TEXTS, LABELS, verbose=0)


@pytest.mark.slow
def test_rows_with_several_labels_and_models_without_a_wide_path_are_fine_tuned_as_well(folder):
    model = models.TextClassifier({"wide": False, "pooling": "first"}, start=folder)
    model.compile()
    model.fit(TEXTS, [[label, "film"] for label in LABELS], epochs=1, verbose=0)
    assert (model.labels, model.multi_label, model.wide) == (["+", "-", "film"], True, None)
    assert model.predict(TEXTS[:2], verbose=0).shape == (2, 3)


@pytest.mark.slow
def test_frozen_layers_keep_their_weights_and_others_move(folder):
    model = models.TextClassifier({"frozen_layers": 1}, start=folder)
    model.adapt(TEXTS, LABELS)
    before = {name: weights_of(model, name) for name in ("embedding", "encoder")}
    model.compile("sgd")
    model.fit(TEXTS, LABELS, epochs=1, verbose=0)
    for old, new in zip(before["embedding"], weights_of(model, "embedding"), strict=True):
        np.testing.assert_array_equal(old, new)
    first, second = model.core.get_layer("encoder").blocks
    moved = [
        not np.array_equal(old, new)
        for old, new in zip(before["encoder"], weights_of(model, "encoder"), strict=True)
    ]
    assert moved == [False] * len(first.weights) + [True] * len(second.weights)


def test_lower_layers_learn_slower_and_the_head_at_the_full_rate(folder):
    model = models.TextClassifier(start=folder)
    optimizer = FineTuningAdamW(rates=model.learning_rates)
    paths = [
        "embedding/tokens",
        "encoder/block_0/attention/output_kernel",
        "encoder/block_1/x",
        "logits/kernel",
    ]
    rates = [optimizer.rate_of(path) for path in paths]
    assert rates[0] < rates[1] < rates[2] == rates[3] == 1
    model.adapt(TEXTS, LABELS)
    known = {variable.path.partition("/")[0] for variable in model.core.trainable_variables}
    assert known == {"embedding", "encoder", "logits"}


def test_few_rows_train_for_more_epochs_and_again_on_all(folder):
    model = models.TextClassifier(start=folder)
    advised = [model.advised_training(rows) for rows in (10, 1000, 2000, 5000)]
    assert [each["epochs"] for each in advised] == [20, 16, 8, 4]
    assert [each["refit"] for each in advised] == [True, True, True, False]
    training.TrainConfig(**advised[0])


def test_tuning_tries_every_alternative(folder):
    tried = models.TextClassifier(start=folder).alternatives()
    assert [set(each) for each in tried] == [
        {"learning_rate"},
        {"learning_rate"},
        {"batch_size"},
        {"pooling"},
    ]


@pytest.mark.slow
def test_fit_without_an_optimizer_has_the_rates_of_the_layers(folder):
    model = models.TextClassifier(start=folder)
    model.compile()
    model.fit(TEXTS, LABELS, verbose=0)
    assert isinstance(model.optimizer, FineTuningAdamW)
    assert model.optimizer.rates == model.learning_rates
    assert float(model.optimizer.learning_rate) == pytest.approx(1e-4)


def test_a_model_whose_start_is_broken_learns_nothing(tmp_path):
    tensors = weights_of_folder(BERT)
    del tensors["encoder.layer.1.output.dense.bias"]
    model = models.TextClassifier(start=write_folder(tmp_path / "m", BERT, tensors))
    model.compile()
    for _ in range(2):
        with pytest.raises(ConfigError, match="encoder.layer.1.output.dense.bias is missing"):
            model.fit(TEXTS, LABELS, verbose=0)
    assert (model.labels, model.tokenizer, model.wide) == ([], None, None)


def test_blank_texts_are_refused(folder):
    with pytest.raises(DataError, match="The 4 texts hold no words: all of them are blank"):
        models.TextClassifier(start=folder).adapt(["", " ", "\n", ""], ["+", "-", "+", "-"])


def test_a_fine_tuned_run_is_no_start(folder, tmp_path):
    model = models.TextClassifier({"wide": False}, start=folder)
    model.adapt(TEXTS, LABELS)
    model.save(tmp_path / "m.keras")
    with pytest.raises(RunError, match="was fine-tuned from a pretrained encoder. Begin with that"):
        models.TextClassifier(start=tmp_path / "m.keras")


def test_long_texts_are_cut_and_told_and_training_reads_spans(folder):
    long = [" ".join(["good film"] * 30), *TEXTS]
    model = models.TextClassifier({"training_span": 5}, start=folder)
    with pytest.warns(UserWarning, match=r"1 of 37 texts are longer than max_tokens=16"):
        model.adapt(long, ["+", *LABELS])
    rows = model.read_rows(long, ["+", *LABELS], None, type(model.head))
    longest = {
        training: max(ids.shape[1] for (ids, _), *_ in model.batches(rows, 8, training=training))
        for training in (True, False)
    }
    assert longest == {True: 5, False: 16}
    first = models.TextClassifier({"training_span": 5, "pooling": "first"}, start=folder)
    with pytest.warns(UserWarning, match="are cut at the end"):
        first.adapt(long, ["+", *LABELS])
    assert max(ids.shape[1] for (ids, _), *_ in first.batches(rows, 8, training=True)) == 16


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"width": 16}, r"`width` is 8 in .*tiny, whose weights the model begins with\. Received 16"),
        ({"tokens": "characters"}, "`tokens` is for text models that learn their own words"),
        ({"members": 2}, "`members` is for text models"),
        ({"frozen_layers": 3}, r"`frozen_layers` \(--freeze\) must be at most `num_layers`, 2\. Received 3"),
        ({"max_tokens": 17}, r"`max_tokens` .* must be at most `positions`, 16\. Received 17"),
        (models.TextConfig(width=96), "`width` is 8"),
        (models.FineTunedConfig(), "`config` is a dict of the fields to choose: .*pooling"),
    ],
)
def test_what_the_folder_determines_cannot_be_changed(folder, config, match):
    with pytest.raises(ConfigError, match=match):
        models.TextClassifier(config, start=folder)


def test_a_config_without_a_folder_is_refused_before_training():
    model = models.TextClassifier(models.FineTunedConfig(width=8, num_heads=2))
    with pytest.raises(ConfigError, match="needs `start`, the folder of a pretrained model"):
        model.adapt(TEXTS, LABELS)


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    file = tmp_path_factory.mktemp("rows") / "films.jsonl"
    rows = zip(TEXTS, LABELS, strict=True)
    file.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows))
    return file


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["--freeze", 1], "--freeze needs --from with a pretrained model."),
        (["--revision", "v1"], "--revision needs --from with a name"),
        (["--from", "./nowhere/MiniLM"], "There is no model at nowhere/MiniLM. Give"),
        (["--from", "FOLDER", "--revision", "v1"], "A revision is of a name in the Hugging Face hub, and"),
        (["--from", "FOLDER", "--width", 16], "--width contradicts"),
        (["--from", "FOLDER", "--keep-case"], "--keep-case has no meaning for a model that begins with"),
        (["--from", "FOLDER", "--members", 2], "--members has no meaning"),
    ],
)
def test_the_command_refuses_what_does_not_fit(folder, table, tmp_path, arguments, match):
    asked = [folder if argument == "FOLDER" else argument for argument in arguments]
    done = invoke("train", table, "--output", tmp_path / "run", *asked)
    assert done.exit_code != 0
    assert match in " ".join(done.output.split())
    assert not (tmp_path / "run").exists()


@pytest.mark.process
def test_the_path_from_a_table_to_a_served_fine_tuned_model(folder, table, tmp_path):
    from keras_selfattn.export import read_card
    from keras_selfattn.serving.client import Client
    from keras_selfattn.serving.server import Server, ServerConfig

    run, base = tmp_path / "run", tmp_path / "served"
    settings = ("--freeze", 1, "--epochs", 2, "--batch-size", 8, "--no-refit")
    done = invoke("train", table, "--output", run, "--from", folder, *settings)
    assert done.exit_code == 0, done.output
    assert "bert, 2 blocks of width 8" in " ".join(done.output.split())
    assert invoke("evaluate", run, table).exit_code == 0
    # A fresh process knows the classes of a saved model only by what it imports itself.
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import keras_selfattn.cli.entry as e; e.main()",
            "export",
            str(run),
            str(base),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    card = read_card(base / "1")
    assert card["task"] == "text-classification"
    assert set(card["signatures"]) == {"serving_default", "classify", "explain", "contributions"}
    model = load_run(run)
    assert model.wide is not None
    asked = [*TEXTS[:4], "", "unheard of"]
    wanted = model.predict(asked, verbose=0)
    with (
        Server(ServerConfig("films", base, port=0)) as server,
        Client(server.target, model="films") as client,
    ):
        answers = client.classify(asked)
    found = np.array([[answer.scores[label] for label in model.labels] for answer in answers])
    np.testing.assert_allclose(found, wanted, atol=1e-5)


ANSWERS = """
import json, sys
import tensorflow as tf

signatures = tf.saved_model.load(sys.argv[1]).signatures
texts = tf.constant(json.loads(sys.argv[2]))
answer = signatures["serving_default"](text=texts)["probabilities"].numpy().tolist()
tokens = signatures["explain"](text=texts)["tokens"].numpy().tolist()
print(json.dumps([answer, [[token.decode() for token in row if token] for row in tokens]]))
"""


@pytest.mark.process
@pytest.mark.slow
def test_a_classifier_of_byte_pairs_is_trained_saved_and_exported(tmp_path, unchecked):
    folder = write_byte_pairs(tmp_path / "roberta")
    model = models.TextClassifier(start=folder)
    model.compile()
    model.fit(TEXTS, LABELS, epochs=2, verbose=0)
    asked = [*TEXTS[:4], "", "Bad<mask> filmé", "good<pad> film"]
    wanted = model.predict(asked, verbose=0)
    model.save(tmp_path / "m.keras")
    for file in folder.iterdir():
        file.unlink()
    again = models.load(tmp_path / "m.keras")
    np.testing.assert_array_equal(again.predict(asked, verbose=0), wanted)
    saved = export_saved_model(again, tmp_path / "saved")
    done = subprocess.run(
        [sys.executable, "-c", ANSWERS, str(saved), json.dumps(asked)],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    answers, tokens = json.loads(done.stdout)
    np.testing.assert_allclose(answers, wanted, atol=1e-5)
    assert tokens[5] == ["<s>", "B", "a", "d", "<mask>", " film", "\\xc3", "\\xa9", "</s>"]
    assert tokens[6] == ["<s>", "good", "<pad>", " film", "</s>"]


def test_the_settings_of_a_fine_tuned_model_are_json(folder):
    config = models.TextClassifier({"wide": False}, start=folder).config
    again = models.FineTunedConfig(**json.loads(json.dumps(config.to_dict())))
    assert dataclasses.asdict(again) == dataclasses.asdict(config)
