"""Classes that a Parquet or Feather file numbers have the names that its schema gives them.

The features are as datasets 5.2.0 (`List`, `LargeList`) and 2.14 (`Sequence`, "length", "id") write them.
"""

import json

import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from keras_selfattn.data.tagged import read_tagged
from keras_selfattn.data.texts import read_corpus, read_table
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.tasks import task_named

WRITE = {".parquet": parquet.write_table, ".feather": feather.write_feather}
TEXT = {"dtype": "string", "_type": "Value"}
OPINION = {"names": ["neg", "pos"], "_type": "ClassLabel"}
TOPICS = ["speed", "price", "looks"]
LISTS = {
    "List": {"feature": {"names": TOPICS, "_type": "ClassLabel"}, "_type": "List"},
    "List of two": {"feature": {"names": TOPICS, "_type": "ClassLabel"}, "length": 2, "_type": "List"},
    "LargeList": {"feature": {"names": TOPICS, "_type": "ClassLabel"}, "_type": "LargeList"},
    "Sequence": {
        "feature": {"num_classes": 3, "names": TOPICS, "id": None, "_type": "ClassLabel"},
        "length": -1,
        "id": None,
        "_type": "Sequence",
    },
    "a list": [{"names": TOPICS, "_type": "ClassLabel"}],
}


def table(folder, columns, features, ending=".parquet", content=None):
    content = json.dumps({"info": {"features": features}}) if content is None else content
    file = folder / f"t{ending}"
    WRITE[ending](pa.table(columns).replace_schema_metadata({"huggingface": content}), file)
    return file


@pytest.mark.parametrize("ending", WRITE)
def test_the_label_of_a_row_is_the_name_of_its_class(tmp_path, ending):
    columns = {"text": ["good", "bad", "fine"], "label": [1, 0, 1]}
    file = table(tmp_path, columns, {"text": TEXT, "label": OPINION}, ending)
    assert read_table(file).targets == ["pos", "neg", "pos"]
    assert read_corpus(file) == ["good", "bad", "fine"]


@pytest.mark.parametrize("form", LISTS)
@pytest.mark.parametrize("ending", WRITE)
def test_a_list_of_classes_is_a_list_of_names_in_every_form_of_the_features(tmp_path, form, ending):
    columns = {"text": ["a", "b", "c"], "label": [[0, 2], [], [1]]}
    file = table(tmp_path, columns, {"text": TEXT, "label": LISTS[form]}, ending)
    assert read_table(file).targets == [["speed", "looks"], [], ["price"]]


def test_names_that_are_numbers_are_not_their_places(tmp_path):
    stars = {"names": ["5", "1"], "_type": "ClassLabel"}
    file = table(tmp_path, {"text": ["a", "b"], "label": [0, 1]}, {"label": stars})
    assert read_table(file).targets == ["5", "1"]


def test_a_class_of_minus_one_is_a_missing_label(tmp_path):
    columns = {"text": ["a", "b", "c"], "label": [1, -1, None]}
    file = table(tmp_path, columns, {"label": OPINION})
    with pytest.raises(DataError, match="2 of 3 rows have no 'label', the first at line 2"):
        read_table(file)


@pytest.mark.parametrize("number", [2, -2, 255])
def test_a_number_without_a_name_is_an_error(tmp_path, number):
    file = table(tmp_path, {"text": ["a", "b"], "label": [1, number]}, {"label": OPINION})
    with pytest.raises(DataError, match=f"'label' in row 2 is class {number}, .* names 2 classes, from 0 on"):
        read_table(file)


@pytest.mark.parametrize("content", ["{", "\x80", "[" * 100_000])
def test_metadata_that_cannot_be_read_is_an_error(tmp_path, content):
    content = content.encode("latin1")
    file = table(tmp_path, {"text": ["a", "b"], "label": [1, 0]}, {}, content=content)
    with pytest.raises(DataError, match="t.parquet: its schema's metadata .huggingface., .* cannot be read"):
        read_table(file)


@pytest.mark.parametrize(
    "content", ["{}", "[]", '{"info": {"features": null}}', '{"info": {"features": {"other": {}}}}']
)
def test_metadata_without_names_for_the_labels_leaves_numbers(tmp_path, content):
    file = table(tmp_path, {"text": ["a", "b"], "label": [1, 0]}, {}, content=content)
    assert read_table(file).targets == ["1", "0"]


@pytest.mark.parametrize("ending", WRITE)
def test_columns_of_a_dictionary_hold_their_names_already(tmp_path, ending):
    """As pandas' Categorical, and Categorical and Enum of Polars, are written."""
    labels = pa.array(["+", "-", "+"]).dictionary_encode()
    file = tmp_path / f"t{ending}"
    WRITE[ending](pa.table({"text": ["a", "b", "c"], "label": labels}), file)
    assert read_table(file).targets == ["+", "-", "+"]


TAGS = {"feature": {"names": ["O", "B-PER"], "_type": "ClassLabel"}, "_type": "List"}


@pytest.mark.parametrize("ending", WRITE)
def test_tokens_are_read_with_the_names_of_their_classes(tmp_path, ending):
    columns = {"tokens": [["Ada", "wrote"], ["She"]], "ner_tags": [[1, 0], [0]]}
    file = table(tmp_path, columns, {"ner_tags": TAGS}, ending)
    rows = task_named("tokens", file).rows(file, {"label": "ner_tags"})
    assert (rows.inputs, rows.targets) == ([["Ada", "wrote"], ["She"]], [["B-PER", "O"], ["O"]])
    assert [rows.place(row) for row in range(2)] == [1, 2]
    assert task_named(None, file).name == "text", "the ending alone stands for texts"
    with pytest.raises(DataError, match="has no column 'labels'. Its columns are 'tokens', 'ner_tags'"):
        read_tagged(file)
    with pytest.raises(ConfigError, match="`column` is for files ending in .conllu"):
        read_tagged(file, column="xpos")


def test_tokens_of_plain_strings_need_no_names(tmp_path):
    file = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"tokens": [["a", "b"]], "labels": [["x", "y"]]}), file)
    assert read_tagged(file).targets == [["x", "y"]]


@pytest.mark.parametrize("number", [-1, -100, 2])
def test_a_token_without_a_class_is_an_error(tmp_path, number):
    columns = {"tokens": [["Ada"], ["She", "wrote"]], "labels": [[1], [0, number]]}
    file = table(tmp_path, columns, {"labels": TAGS})
    with pytest.raises(DataError, match=r"'labels' in (line|row) 2"):
        read_tagged(file)
