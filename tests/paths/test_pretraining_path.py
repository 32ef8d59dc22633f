"""The command line's whole path from texts without labels to a classifier, and what it refuses."""

import json

import pytest
from click.testing import CliRunner

from keras_selfattn.cli.main import main
from keras_selfattn.data import read_corpus
from keras_selfattn.errors import DataError
from keras_selfattn.runs.run_folder import read_config, read_metrics

# Of what stands around the steps: these are tested elsewhere, traced.
pytestmark = pytest.mark.usefixtures("eager_steps")


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def words(done):
    """The printed words, without line breaks."""
    return " ".join(done.output.split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with texts in several forms, reviews with labels, and a run pretrained on the texts."""
    found = tmp_path_factory.mktemp("corpus")
    texts = [f"the film was {word} and so was the book" for word in ("good", "fine", "bad", "poor")] * 10
    (found / "plain.txt").write_text("\n\n".join(texts))
    records = [json.dumps({"body": text}) for text in texts]
    (found / "table.jsonl").write_text("\n".join(records))
    rows = [f"a {word} film {n},{label}" for n in range(10) for word, label in (("good", "+"), ("bad", "-"))]
    (found / "reviews.csv").write_text("\n".join(["text,label", *rows]))
    settings = ("--width", 16, "--heads", 2, "--epochs", 2)
    done = invoke("pretrain", found / "plain.txt", "--output", found / "base", *settings)
    assert done.exit_code == 0, done.output
    assert "Pretraining on 40 rows of" in words(done)
    assert "perplexity" in done.output
    assert f"train TABLE --from {found / 'base'}" in done.output
    return found


@pytest.mark.slow
def test_a_pretrained_run_is_a_run_folder(folder):
    config = read_config(folder / "base")
    assert config["kind"] == "MaskedTokenModel"
    assert (config["model"]["width"], config["training"]["epochs"]) == (16, 2)
    files = {path.name for path in (folder / "base").iterdir()}
    assert files == {
        "config.json",
        "history.csv",
        "metrics.json",
        "model.keras",
        "report.html",
        "vocabulary.txt",
    }


@pytest.mark.slow
def test_evaluate_of_a_pretrained_run_reads_texts_of_each_form(folder):
    plain = invoke("evaluate", folder / "base", folder / "plain.txt")
    table = invoke("evaluate", folder / "base", folder / "table.jsonl", "--text", "body")
    assert (plain.exit_code, table.exit_code) == (0, 0), plain.output + table.output
    assert "On 40" in plain.output
    assert words(plain).partition("rows:")[2] == words(table).partition("rows:")[2]
    assert "accuracy of always the commonest" in words(plain)


@pytest.mark.slow
def test_train_begins_with_a_run_and_says_and_records_so(folder):
    done = invoke(
        "train", folder / "reviews.csv", "--from", folder / "base", "--epochs", 1, "--output", folder / "run"
    )
    assert done.exit_code == 0, done.output
    assert "numbers; of 14 different words of the rows it does not know 11." in words(done)
    config = read_config(folder / "run")
    assert config["model"]["width"] == 16
    assert config["start"] == {
        "path": str(folder / "base"),
        "kind": "MaskedTokenModel",
        "figures": read_metrics(folder / "base"),
    }
    taken = (folder / "run" / "vocabulary.txt").read_text()
    assert taken == (folder / "base" / "vocabulary.txt").read_text()
    assert invoke("evaluate", folder / "run", folder / "reviews.csv").exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--layers", 3), "--layers contradicts {base}, whose weights the model begins with: there "
         "`num_layers` is 1. Received 3. Leave the option out, or begin with another model."),
        (("--keep-case",), "--keep-case contradicts {base}"),
        (("--task", "tokens"), "{base} holds a MaskedTokenModel that is no pretrained encoder"),
    ],
)  # fmt: skip
def test_options_that_contradict_the_start_are_refused_by_name(folder, tmp_path, arguments, said):
    table = folder / ("table.jsonl" if "--task" in arguments else "reviews.csv")
    if "--task" in arguments:
        table = tmp_path / "names.conll"
        table.write_text("Ada\tB\nmet\tO\n\nBob\tB\n")
    done = invoke("train", table, "--from", folder / "base", *arguments, "--output", tmp_path / "run")
    assert done.exit_code == 1, done.output
    assert said.format(base=folder / "base") in done.output
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_pretrained_run_is_not_exported(folder, tmp_path):
    done = invoke("export", folder / "base", tmp_path / "models")
    assert done.exit_code != 0
    assert "keras-selfattn train TABLE --from" in done.output
    done = invoke("export", folder / "base", tmp_path / "models", "--data", folder / "reviews.csv")
    assert done.exit_code != 0
    assert f"keras-selfattn train TABLE --from {folder / 'base'}" in done.output


@pytest.mark.slow
def test_evaluate_of_a_pretrained_run_refuses_what_is_of_labels(folder):
    done = invoke("evaluate", folder / "base", folder / "plain.txt", "--label", "stars")
    assert done.exit_code != 0
    assert "`label` is not for" in done.output


@pytest.mark.slow
def test_a_width_that_the_heads_do_not_divide_is_refused_by_its_flag(folder, tmp_path):
    done = invoke("pretrain", folder / "plain.txt", "--output", tmp_path / "base", "--width", 30)
    assert "--width must be divisible by --heads. Received 30 and 4." in done.output


@pytest.mark.slow
def test_the_options_of_pretrain_are_those_that_a_classifier_shares(folder):
    shown = invoke("pretrain", "--help").output
    for option in ("--width", "--layers", "--heads", "--dropout", "--tokens", "--keep-case", "--text"):
        assert f"  {option} " in shown
    for option in ("--max-tokens", "--members", "--no-wide", "--patch-size", "--label", "--kernels"):
        assert f"  {option} " not in shown


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("latin.txt", b"fine\ncaf\xe9\n", "is not UTF-8: byte 0xe9 in line 2"),
        ("blank.txt", b"\n \n\n", "holds no texts: all 3 of its rows are blank"),
        ("empty.txt", b"", "is empty"),
        ("table.csv", b"review\ngood\n", "has no column 'text'. Its columns are 'review'"),
        ("corpus.pdf", b"text", "has no known ending"),
        ("missing.txt", None, "There is no file"),
    ],
)
def test_a_corpus_that_cannot_be_read_is_said_so(tmp_path, name, content, said):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=said):
        read_corpus(tmp_path / name)
    done = invoke("pretrain", tmp_path / name, "--output", tmp_path / "base")
    assert (done.exit_code, (tmp_path / "base").exists()) == (1, False)
    assert said.partition("'")[0] in done.output


@pytest.mark.slow
def test_train_begins_with_a_file_of_a_model_and_says_if_it_is_not_there(folder, tmp_path):
    begun = ("train", folder / "reviews.csv", "--epochs", 1, "--output", tmp_path / "run", "--from")
    missing = invoke(*begun, tmp_path / "none.keras")
    assert missing.exit_code == 1
    assert f"--from: There is no model at {tmp_path / 'none.keras'}. Give a run folder" in words(missing)
    assert not (tmp_path / "run").exists()
    done = invoke(*begun, folder / "base" / "model.keras")
    assert done.exit_code == 0, done.output
    assert read_config(tmp_path / "run")["model"]["width"] == 16
