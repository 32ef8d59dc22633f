"""Exports for other runtimes: what is refused, the files beside the model, and that a failure leaves nothing.

The conversions themselves are in `test_portable_files.py`.
"""

import json
import sys
from pathlib import Path

import jsonschema
import keras
import pytest
import tensorflow as tf
from click.testing import CliRunner
from tokenizers import Tokenizer

from keras_selfattn import models
from keras_selfattn.cli.main import main
from keras_selfattn.errors import ExportError, MissingExtraError
from keras_selfattn.export import (
    Training,
    export_portable,
    export_saved_model,
    inspect_saved_model,
    list_versions,
    read_card,
)
from keras_selfattn.export.portable import write
from keras_selfattn.models.config import TextConfig
from keras_selfattn.serving.server.storage.version_folders import missing_file

sys.path.insert(0, str(Path(__file__).parents[2]))
from pretrained_folders import MPNET, write_folder

SMALL = {"width": 8, "num_layers": 1, "num_heads": 1, "ngram_buckets": 64}
SOUND = {"width": 8, "num_layers": 1, "num_heads": 1, "channels": 3}


def text_model(**settings):
    config = TextConfig(**{**SMALL, "wide": False, **settings})
    return models.TextClassifier(config, vocabulary=["good", "film", "bad"], labels=["+", "-"])


@pytest.fixture(scope="module")
def model():
    return text_model()


@pytest.fixture(scope="module")
def small():
    """A model that is exported in a second; a text classifier takes more."""
    return keras.Sequential([keras.Input((2,), name="x"), keras.layers.Dense(1)])


@pytest.fixture
def converted(monkeypatch):
    """In place of the converter and the check, files of a few bytes."""

    monkeypatch.setattr(write, "litert_file", lambda _signature: (b"graph", ["ADD"]))
    monkeypatch.setattr(write, "try_file", lambda *_: {"load_seconds": 0.0, "request_ms": 0.0})


def test_a_version_is_the_file_the_card_and_what_makes_the_ids(model, tmp_path, converted, schema):
    training = Training({"train": {"source": "a.csv", "rows": 4}}, {"split": "test"}, {}, example="good film")
    path = export_portable(model, tmp_path, "litert", training=training)
    files = sorted(each.relative_to(path).as_posix() for each in path.rglob("*") if each.is_file())
    beside = ["tokenizer.json", "tokenizer_examples.json"]
    assert files == ["assets.extra/model_card.json", "model.tflite", *beside]
    card = read_card(path)
    jsonschema.validate(card, schema)
    assert (card["runtime"], card["label_rule"], card["labels"]) == ("litert", "largest", ["+", "-"])
    signature = card["signatures"]["serving_default"]
    assert signature["inputs"] == {"ids": {"dtype": "int32", "shape": [None, None]}}
    assert signature["outputs"] == {"probabilities": {"dtype": "float32", "shape": [None, 2]}}
    assert signature["example"]["request"] == {"ids": [[2, 3]]}


def test_the_card_of_a_model_of_sound_tells_the_rate_its_frames_are_made_at(
    tmp_path, converted, schema, capsys
):
    sound = models.AudioClassifier(
        {**SOUND, "kernels": 0}, sample_rate=8000, longest=100, labels=["hum", "hiss"]
    )
    card = read_card(export_portable(sound, tmp_path, "litert"))
    jsonschema.validate(card, schema)
    assert card["sample_rate"] == 8000
    frames = {"dtype": "float32", "shape": [None, None, 40]}
    assert card["signatures"]["serving_default"]["inputs"] == {"frames_of_bands": frames}
    main(["inspect", str(tmp_path)], standalone_mode=False)
    assert "sound-classification; 2 labels (hum, hiss); recordings at 8,000 Hz" in capsys.readouterr().out


def test_inspect_and_versions_read_it(small, tmp_path, converted, capsys):
    export_portable(small, tmp_path, "litert")
    found = inspect_saved_model(tmp_path)
    assert (found.format, found.intact, found.path.name) == ("litert", True, "1")
    assert str(found.signatures["serving_default"].inputs["x"]) == "float32 [?, 2]"
    for command in ("inspect", "versions"):
        main([command, str(tmp_path)], standalone_mode=False)
    assert "litert" in capsys.readouterr().out
    (tmp_path / "1" / "model.tflite").write_bytes(b"other")
    assert inspect_saved_model(tmp_path).intact is False


def test_versions_count_on_and_old_ones_go(small, tmp_path, converted):
    for _ in range(3):
        export_portable(small, tmp_path, "litert", keep=2)
    assert list_versions(tmp_path) == [2, 3]
    with pytest.raises(ExportError, match="has a version 3 already"):
        export_portable(small, tmp_path, "litert", 3)


def test_a_failure_leaves_nothing(small, tmp_path, converted, monkeypatch):
    def fails(*_):
        raise ExportError("no counterpart")

    base = tmp_path / "base"
    monkeypatch.setattr(write, "try_file", fails)
    with pytest.raises(ExportError, match="no counterpart"):
        export_portable(small, base, "litert")
    assert list(base.iterdir()) == []
    monkeypatch.setattr(write, "litert_file", fails)
    with pytest.raises(ExportError, match="no counterpart"):
        export_portable(small, tmp_path / "other", "litert")
    assert not (tmp_path / "other").exists()


def test_a_folder_holds_versions_of_one_format(small, tmp_path, converted):
    export_portable(small, tmp_path, "litert")
    with pytest.raises(ExportError, match="holds versions of the format litert.*to another folder"):
        export_saved_model(small, tmp_path)
    (tmp_path / "1" / "saved_model.pb").touch()  # which a server takes before model.tflite
    with pytest.raises(ExportError, match="holds versions of the format savedmodel"):
        export_portable(small, tmp_path, "litert")
    assert list_versions(tmp_path) == [1]


@pytest.mark.parametrize(
    ("make", "options", "said"),
    [
        (lambda: text_model(), {"format": "torch"}, "`format` must be one of onnx, litert"),
        (lambda: text_model(), {"precision": "int8-weights"}, "\"float32\" or None. Received 'int8-weights'"),
        (lambda: text_model(), {"labels": ["a", "b"]}, "knows its labels"),
        (lambda: wide_model(), {}, "`wide=False`.*--no-wide"),
        (lambda: half_model(), {}, "computes in half precision.*--precision float32"),
        (lambda: model_of_strings(), {}, "'line' takes strings"),
        (lambda: model_of_numbers(), {"labels": ["a", "b"]}, "must return probabilities"),
    ],
)
def test_what_cannot_be_converted_is_refused_before_a_file_is_written(make, options, said, tmp_path):
    base = tmp_path / "base"
    with pytest.raises(ExportError, match=said):
        export_portable(make(), base, **{"format": "litert", **options})
    assert not base.exists()


def wide_model():
    config = TextConfig(**SMALL)
    return models.TextClassifier(config, vocabulary=["good"], labels=["+", "-"], wide_features=4)


def half_model():
    x = keras.Input((3,), name="x")
    return keras.Model(x, keras.layers.Dense(2, dtype="mixed_bfloat16")(x))


def model_of_strings():
    line = keras.Input((), dtype="string", name="line")
    return keras.Model(line, keras.layers.Hashing(8)(line))


def model_of_numbers():
    x = keras.Input((3,), name="x")
    return keras.Model(x, keras.layers.Dense(2)(x))


def test_a_missing_converter_is_named_with_its_extra(small, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"needs onnx,.*pip install 'keras-selfattn\[onnx\]'"):
        export_portable(small, tmp_path / "base", "onnx")
    assert not (tmp_path / "base").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--data", "rows.csv"], "--data compares SavedModels. Leave it out with --format litert."),
        (["--precision", "int8-weights"], "With --format litert it can be float32 alone"),
    ],
)
def test_the_command_refuses_options_of_saved_models_first(words, said, tmp_path):
    done = CliRunner().invoke(main, ["export", "no/run", str(tmp_path), "--format", "litert", *words])
    assert done.exit_code == 1
    assert said in " ".join(done.output.split())


def test_a_model_s_own_export_writes_it(model, tmp_path, converted):
    assert (model.export(tmp_path, format="litert") / "model.tflite").is_file()


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (
            "model.onnx",
            "saved_model.pb: its model.onnx is for ONNX Runtime; export the model without --format",
        ),
        ("model.tflite", "saved_model.pb; --prefer_tflite_model takes its model.tflite"),
    ],
)
def test_the_server_says_what_it_lacks(file, said, tmp_path):
    (tmp_path / file).touch()
    assert missing_file(tmp_path) == said


@pytest.mark.parametrize("make", [models.TextEncoder, models.TokenClassifier])
def test_the_examples_show_padding_that_a_text_has(tmp_path, converted, make):
    """As docs/savedmodel.md says: the id `vocabulary_size` where the package gives 0 to a real token."""
    model = make(start=write_folder(tmp_path / "m", MPNET))
    if make is models.TokenClassifier:
        model.adapt([["a", "film"]] * 2, [["A", "B"]] * 2)
    path = export_portable(model, tmp_path / "base", "litert")
    read = Tokenizer.from_file(str(path / "tokenizer.json"))
    last = json.loads((path / "tokenizer_examples.json").read_text("utf-8"))[-1]
    size = read_card(path)["vocabulary_size"]

    def ids_of(text):
        return [size if each == 0 else each for each in read.encode(text).ids]

    assert size == read.get_vocab_size()
    if make is models.TextEncoder:
        assert last["text"] == "a <pad> film"
        assert last["ids"] == ids_of(last["text"]) == [1, 5, size, 8, 2]
    else:
        assert last["tokens"] == ["a", "<pad>", "film"]
        assert last["features"] == [ids_of(token) for token in last["tokens"]] == [[5], [size], [8]]


def features_of(token, settings):
    """The features of a token as docs/savedmodel.md says, hashed by TensorFlow's FarmHash."""
    places = {word: place for place, word in enumerate(settings["vocabulary"], settings["first_id"])}
    lower = token.lower()
    whole = "".join("0" if each.isnumeric() else each for each in lower)
    shape = "".join(
        "X" if each.isupper() else "x" if each.isalpha() else "0" if each.isnumeric() else each
        for each in token
    )
    for sign in "Xx0":
        while 2 * sign in shape:
            shape = shape.replace(2 * sign, sign)
    parts = []
    for count in range(1, 5):
        parts += [f"prefix{count}:{whole[:count]}", f"suffix{count}:{whole[-count:]}"]
    parts += [f"shape:{shape}", f"whole:{whole}"]
    hashed = tf.strings.to_hash_bucket_fast(parts, settings["hash_buckets"] - 1).numpy() + 1
    return [places.get(lower, settings["unknown_id"]), *hashed.tolist()]


def test_token_features_json_and_the_docs_are_enough_to_make_the_features(tmp_path, converted):
    config = {"width": 8, "num_layers": 1, "num_heads": 1, "hash_buckets": 500}
    labels = {"labels": ["B-X", "I-X", "O"], "spans": True}
    labeller = models.TokenClassifier(config, vocabulary=["film", "apollo-11"], **labels)
    path = export_portable(labeller, tmp_path, "litert")
    settings = json.loads((path / "token_features.json").read_text("utf-8"))
    assert settings["features"][:3] == ["word", "prefix1", "suffix1"]
    assert settings["features"][-2:] == ["shape", "whole"]
    rows = [row["tokens"] for row in json.loads((path / "tokenizer_examples.json").read_text("utf-8"))]
    rows.append(["Apollo-11", "FILMS", "x", "1999a"])
    for row in rows:
        assert [features_of(token, settings) for token in row] == labeller.tokenizer(row).numpy().tolist()
    assert read_card(path)["label_rule"] == "valid spans"
