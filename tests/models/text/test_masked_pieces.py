"""Continued pretraining: pieces that are hidden, a folder's own head, and models that begin with the run."""

import json
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from pretrained_folders import (
    BERT,
    DEBERTA,
    DISTILBERT,
    ELECTRA,
    MPNET,
    PIECES,
    ROBERTA,
    XLM_ROBERTA,
    guessing_logits,
    head_of,
    prefix_of,
    weights_of,
    write_folder,
)

from keras_selfattn import models, training
from keras_selfattn.cli.main import main
from keras_selfattn.errors import ConfigError, DataError, RunError
from keras_selfattn.models.optimizers import FineTuningAdamW
from keras_selfattn.models.text.masked_prediction import hide
from keras_selfattn.runs.run_folder import read_config, read_metrics

# Of what stands around the steps: these are tested elsewhere, traced.
pytestmark = pytest.mark.usefixtures("eager_steps")

TEXTS = ["a good film .", "the good film", "good films", "a bad film .", "the bad film", "badly bad"] * 6
LABELS = ["+", "+", "+", "-", "-", "-"] * 6
SPECIAL = {PIECES.index(name) for name in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")}
# The encoder of this classifier, in a folder that a masked language model was written to.
PREFIXED = {f"bert.{name}": value for name, value in weights_of(BERT).items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A BERT with its head for hidden tokens."""
    tensors = {**PREFIXED, **head_of(BERT)}
    return write_folder(tmp_path_factory.mktemp("pretrained") / "tiny", BERT, tensors)


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory):
    """A run that went on with the training of the folder's model."""
    return training.pretrain(
        TEXTS,
        tmp_path_factory.mktemp("adapted") / "run",
        model=models.MaskedTokenModel({"dropout": 0.0, "attention_dropout": 0.0}, start=folder),
        config=training.TrainConfig(epochs=8, learning_rate=0.02, batch_size=12, patience=8),
        validation=TEXTS[:12],
        verbose=0,
    )


def begun(start, **config):
    model = models.MaskedTokenModel(config, start=start)
    model.adapt(TEXTS, None)
    return model


def layer_weights(model, *names):
    return [np.array(weight) for name in names for weight in model.core.get_layer(name).weights]


def assert_same(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "config", [BERT, DEBERTA, DISTILBERT, ELECTRA, ROBERTA, XLM_ROBERTA, MPNET], ids=lambda c: c["model_type"]
)
def test_logits_at_hidden_places_are_those_of_the_folders_head_by_numpy(tmp_path, config):
    tensors, head = weights_of(config), head_of(config)
    prefixed = {f"{prefix_of(config)}{name}": value for name, value in tensors.items()}
    model = begun(write_folder(tmp_path / "m", config, {**prefixed, **head}))
    assert not model.start.new_head
    ids = np.array([2, 5, 4, 8, 10, 3, 0, 0])
    places = [1, 3, 4]
    found = np.asarray(model.core([np.array(places, "int32"), ids[None].astype("int32")]))
    swap = np.arange(len(PIECES))  # of their ids; padding is 0 here
    padding = config.get("pad_token_id", 0)
    swap[[0, padding]] = swap[[padding, 0]]
    wanted = guessing_logits(config, tensors, head, swap[ids[:6]])[places][:, swap]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_the_first_loss_is_what_the_folder_gives_for_the_same_hidden_pieces(folder):
    model = begun(folder)
    model.compile()
    (places, seen), ids = next(iter(model.hidden_batches(TEXTS[:3])))
    logits = [guessing_logits(BERT, weights_of(BERT), head_of(BERT), row[row != 0]) for row in seen]
    rows = np.concatenate([np.pad(each, [(0, seen.shape[1] - len(each)), (0, 0)]) for each in logits])[places]
    losses = np.log(np.exp(rows).sum(-1)) - rows[np.arange(len(ids)), ids]
    assert model.evaluate(TEXTS[:3], verbose=0)[0] == pytest.approx(losses.mean(), rel=1e-4)


def test_special_pieces_are_never_hidden_and_any_other_can_stand_in(folder):
    model = begun(folder)
    masking = model._text.masking(model.tokenizer)
    assert masking.mask_id == PIECES.index("[MASK]")
    # That of a text, too, which is a token that others see.
    assert set(masking.special) == SPECIAL | {model.tokenizer.written_padding}
    rows = model._features(["zebra a good [SEP] film . [MASK] ##s the the bad"] * 3000)
    found = hide(rows, masking, np.random.default_rng(0))
    assert not SPECIAL & set(np.concatenate(found.ids).tolist())
    stood = {
        int(seen[place])
        for seen, places, ids in zip(*found, strict=True)
        for place, number in zip(places, ids, strict=True)
        if seen[place] not in (number, masking.mask_id)
    }
    assert stood == set(range(len(PIECES))) - SPECIAL  # "##ly" is in no row


def test_a_corpus_is_read_in_spans_and_nothing_is_cut(folder):
    model = begun(folder, training_span=7)
    long = " ".join(["good", "film", "bad"] * 40)
    rows = model._features(["a film", long])
    assert rows[0].tolist() == [2, 5, 8, 3]
    assert max(map(len, rows)) <= 7
    assert {len(row) for row in rows[1:]} == {7}
    assert all((row[0], row[-1]) == (2, 3) for row in rows)
    inner = np.concatenate([row[1:-1] for row in rows[1:]])
    assert inner.tolist() == [6, 8, 7] * 40
    assert len(models.MaskedTokenModel(start=folder).config.pieces) > 0
    assert models.MaskedTokenModel(start=folder).config.training_span == 16  # the folder's positions


def test_guesses_are_pieces_for_either_name_of_the_mask(folder):
    model = begun(folder)
    one, both, none = model.guesses(["a [mask] film", "a [MASK] [mask]", "a film"], 50)
    assert [len(one), len(both), len(none)] == [1, 2, 0]
    assert sorted(one[0]) == sorted(set(PIECES) - {PIECES[number] for number in SPECIAL})
    row = np.array([[2, 5, 4, 8, 3]], "int32")
    logits = np.asarray(model.core([np.array([2], "int32"), row]))[0]
    best = max(set(range(len(PIECES))) - SPECIAL, key=lambda number: logits[number])
    assert one[0][0] == PIECES[best]
    with pytest.raises(DataError, match=r"must have 16 tokens at most, .*\. Received 42, in"):
        model.guesses(["a [mask] " + "film " * 38])


def test_the_head_is_new_where_the_folder_has_none_and_taken_under_older_names(tmp_path):
    bare = write_folder(tmp_path / "bare", BERT)
    new = begun(bare)
    assert new.start.new_head
    assert new.start.record == {"path": str(bare), "kind": "bert", "new_head": True}
    older = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma")
        .replace("LayerNorm.bias", "LayerNorm.beta")
        .replace("predictions.bias", "predictions.decoder.bias"): value
        for name, value in {**PREFIXED, **head_of(BERT)}.items()
    }
    found = begun(write_folder(tmp_path / "older", BERT, older))
    wanted = head_of(BERT)
    assert not found.start.new_head
    assert_same(layer_weights(found, "guess_norm"), [wanted[f"cls.predictions.transform.LayerNorm.{each}"]
                for each in ("weight", "bias")])  # fmt: skip
    assert_same(layer_weights(found, "logits"), [wanted["cls.predictions.bias"]])
    assert_same(layer_weights(found, "embedding", "encoder"), layer_weights(new, "embedding", "encoder"))


def test_a_head_with_a_table_of_its_own_is_not_taken(tmp_path):
    config = {**BERT, "tie_word_embeddings": False}
    start = write_folder(tmp_path / "m", config, {**PREFIXED, **head_of(BERT)})
    assert models.MaskedTokenModel(start=start).start.new_head


def test_an_incomplete_head_is_refused_with_all_that_it_lacks(tmp_path):
    head = head_of(BERT)
    del head["cls.predictions.bias"]
    head["cls.predictions.transform.dense.weight"] = np.zeros((3, 8), np.float32)
    model = models.MaskedTokenModel(start=write_folder(tmp_path / "m", BERT, {**PREFIXED, **head}))
    with pytest.raises(ConfigError, match=r"in 2 places") as raised:
        model.adapt(TEXTS, None)
    assert "cls.predictions.bias is missing" in str(raised.value)
    assert "dense.weight has shape [3, 8] where config.json needs [8, 8]" in str(raised.value)
    assert model.tokenizer is None


def test_a_tokenizer_without_a_mask_is_refused_for_pretraining_alone(tmp_path):
    pieces = [piece if piece != "[MASK]" else "masked" for piece in PIECES]
    start = write_folder(tmp_path / "m", BERT, pieces=pieces)
    with pytest.raises(ConfigError, match=r"The tokenizer of .*m has no mask token"):
        models.MaskedTokenModel(start=start)
    models.TextClassifier(start=start).adapt(TEXTS, LABELS)


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"width": 16}, r"`width` is 8 in .*tiny, whose weights the model begins with\. Received 16"),
        ({"guess_activation": "relu"}, "`guess_activation` is 'gelu'"),
        ({"tokens": "characters"}, "`tokens` is for text models that learn their own words"),
        ({"wide": False}, "`wide` is for text models .*attention_dropout, dropout, training_span can be"),
        ({"training_span": 17}, r"`training_span` must be from 3 to `positions`, 16: .* Received 17"),
        ({"training_span": 2}, "Received 2"),
        (models.TextConfig(width=96), "`width` is 8"),
    ],
)
def test_what_the_folder_determines_cannot_be_changed(folder, config, match):
    with pytest.raises(ConfigError, match=match):
        models.MaskedTokenModel(config, start=folder)


def test_texts_of_nothing_but_unknown_pieces_are_refused_before_training(folder, tmp_path):
    with pytest.raises(DataError, match="The 2 texts to guess in hold no token that the model knows"):
        training.pretrain(
            TEXTS,
            tmp_path / "run",
            model=models.MaskedTokenModel(start=folder),
            validation=["zebra", "yak gnu"],
            verbose=0,
        )
    model = models.MaskedTokenModel(start=folder)
    model.compile()
    with pytest.raises(DataError, match="hold no token that the model knows"):
        model.fit(["zebra", "yak gnu"], verbose=0)


def test_models_that_are_no_pretrained_encoders_are_no_start(folder, tmp_path):
    words = models.MaskedTokenModel(models.TextConfig(width=8, num_heads=1))
    words.adapt(TEXTS, None)
    words.save(tmp_path / "words.keras")
    with pytest.raises(RunError, match=r"words\.keras is a MaskedTokenModel that learned its own words"):
        models.MaskedTokenModel(start=tmp_path / "words.keras")
    with pytest.raises(RunError, match=r"holds a MaskedTokenModel that is no pretrained encoder"):
        models.TextEncoder(start=tmp_path / "words.keras")
    with pytest.raises(ConfigError, match="`start` is of a model before training"):
        models.MaskedTokenModel(vocabulary=["a", "[mask]"], start=folder)


def test_few_texts_are_read_more_often_and_lower_layers_learn_slower(folder):
    model = models.MaskedTokenModel(start=folder)
    assert [model.advised_training(rows)["epochs"] for rows in (100, 8_000, 1_000_000)] == [20, 4, 1]
    assert model.learning_rates == models.TextClassifier(start=folder).learning_rates
    model.compile()
    assert isinstance(model.optimizer, FineTuningAdamW)


@pytest.mark.slow
def test_the_loss_falls_and_the_run_records_its_start(run, folder):
    lines = (run.path / "history.csv").read_text().splitlines()
    place = lines[0].split(",").index("val_loss")
    losses = [float(line.split(",")[place]) for line in lines[1:]]
    first = begun(folder)
    first.compile()
    before = first.evaluate(TEXTS[:12], verbose=0)[0]
    assert min(losses) < 0.5 * before
    assert read_metrics(run.path)["perplexity"] == pytest.approx(np.exp(min(losses)), rel=1e-3)
    assert read_config(run.path)["start"] == {"path": str(folder), "kind": "bert", "new_head": False}
    assert isinstance(run.model.optimizer, FineTuningAdamW)


@pytest.mark.slow
def test_a_saved_model_guesses_and_scores_as_before(run):
    again = models.load(run.path)
    assert again.get_config()["start"] is None
    np.testing.assert_allclose(
        again.predict(["a [mask] film"], verbose=0)[0],
        run.model.predict(["a [mask] film"], verbose=0)[0],
        rtol=1e-4,
    )
    np.testing.assert_allclose(
        again.evaluate(TEXTS, verbose=0), run.model.evaluate(TEXTS, verbose=0), rtol=1e-4
    )


@pytest.mark.slow
def test_a_classifier_begins_with_the_run_as_with_the_folder(run, folder, tmp_path):
    model, other = models.TextClassifier(start=run.path), models.TextClassifier(start=folder)
    assert model.config.to_dict() == {**other.config.to_dict(), "dropout": 0.0, "attention_dropout": 0.0}
    assert model.learning_rates == other.learning_rates
    assert model.advised_training(100) == other.advised_training(100)
    assert model.start.record["kind"] == "MaskedTokenModel"
    assert model.start.record["figures"] == read_metrics(run.path)
    assert "0.00% are unknown" in model.start.described(TEXTS)
    model.adapt(TEXTS, LABELS)
    assert_same(
        layer_weights(model, "embedding", "encoder"), layer_weights(run.model, "embedding", "encoder")
    )
    config = training.TrainConfig(epochs=2, batch_size=12, refit=True)
    begun_with = models.TextClassifier(start=run.path)
    done = training.train((TEXTS, LABELS), tmp_path / "run", model=begun_with, config=config, verbose=0)
    assert isinstance(done.model.optimizer, FineTuningAdamW)
    np.testing.assert_allclose(
        models.load(done.path).predict(TEXTS, verbose=0), done.model.predict(TEXTS, verbose=0), atol=1e-6
    )


@pytest.mark.slow
def test_an_encoder_and_another_pretraining_begin_with_the_run(run, folder):
    encoder = models.TextEncoder(start=run.path)
    assert_same(layer_weights(encoder, "encoder"), layer_weights(run.model, "encoder"))
    assert encoder.config.pooling == models.TextEncoder(start=folder).config.pooling
    again = begun(run.path)
    names = ("embedding", "encoder", "guess", "guess_norm", "logits")
    assert_same(layer_weights(again, *names), layer_weights(run.model, *names))


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    found = tmp_path_factory.mktemp("corpus")
    (found / "texts.txt").write_text("\n".join(TEXTS))
    rows = [json.dumps({"text": text, "label": label}) for text, label in zip(TEXTS, LABELS, strict=True)]
    (found / "rows.jsonl").write_text("\n".join(rows))
    return found


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["--from", "./nowhere/BERT"], "There is no model at nowhere/BERT. Give"),
        (["--revision", "v1"], "--revision needs --from with a name"),
        (["--from", "FOLDER", "--revision", "v1"], "A revision is of a name in the Hugging Face hub, and"),
        (["--from", "FOLDER", "--width", 16], "--width contradicts"),
        (["--from", "FOLDER", "--keep-case"], "--keep-case has no meaning for a model that begins with"),
        (["--from", "FOLDER", "--tokens", "words"], "--tokens has no meaning"),
    ],
)
def test_the_command_refuses_what_does_not_fit(folder, corpus, tmp_path, arguments, match):
    asked = [folder if argument == "FOLDER" else argument for argument in arguments]
    done = invoke("pretrain", corpus / "texts.txt", "--output", tmp_path / "run", *asked)
    assert done.exit_code != 0
    assert match in " ".join(done.output.split())
    assert not (tmp_path / "run").exists()


@pytest.mark.process
def test_the_path_from_texts_to_an_exported_classifier(folder, corpus, tmp_path):
    """Each command in a process of its own, which knows only the classes that it imports."""

    def command(*arguments):
        main_of = "import keras_selfattn.cli.entry as e; e.main()"
        done = subprocess.run(
            [sys.executable, "-c", main_of, *map(str, arguments)],
            check=False,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return " ".join(done.stdout.split())

    adapted, reviews = tmp_path / "adapted", tmp_path / "reviews"
    said = command("pretrain", corpus / "texts.txt", "--from", folder, "--output", adapted, "--epochs", 1)
    assert "bert, 2 blocks of width 8" in said
    assert "The model begins with its head, too." in said
    assert "perplexity" in said
    assert "perplexity" in command("evaluate", adapted, corpus / "texts.txt")
    said = command(
        "train", corpus / "rows.jsonl", "--from", adapted, "--output", reviews, "--epochs", 1, "--no-refit"
    )
    assert f"Beginningwith{adapted}:MaskedTokenModel,2blocksofwidth8" in "".join(said.split())
    assert "members" not in read_config(reviews)["model"]
    command("export", reviews, tmp_path / "served")
    assert (tmp_path / "served" / "1" / "saved_model.pb").is_file()
