"""Tasks: which one a file selects, and which options it knows."""

from pathlib import Path

import pytest

from keras_selfattn import models
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.tasks import TASKS, check_task, task_named


def written(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_task_is_chosen_by_what_is_there(tmp_path):
    assert task_named(None, tmp_path).name == "images"
    assert task_named(None, tmp_path / "missing.csv").name == "text"
    with pytest.raises(DataError, match="There is no file .*nosuch"):
        task_named(None, tmp_path / "nosuch")
    said = "Give a file ending in .conll, .conllu, .csv, .feather.* --task: text, images, audio, tokens"
    with pytest.raises(DataError, match=f"has no known ending. {said}"):
        task_named(None, written(tmp_path, "t.txt", "x"))


def test_an_argument_that_no_task_knows_is_said_so(tmp_path):
    with pytest.raises(ConfigError, match="No task knows `foo`. The task is text, which knows .*label"):
        task_named("text", tmp_path).rows(tmp_path, {"foo": 1})


def test_the_tasks_that_begin_with_others_are_those_whose_models_can():
    for task in TASKS:
        assert task.begins == hasattr(getattr(models, task.kind), "starting_point"), task.name


def test_a_task_that_begins_with_none_names_those_that_do():
    with pytest.raises(ConfigError, match="tasks text, tokens, score, embedding, seq2seq begin with"):
        task_named("series", None).begun("base")


def test_the_reading_of_another_file_keeps_what_its_form_has():
    answers, texts = task_named("seq2seq", Path()), task_named("text", Path())
    reading = {"source": "en", "target": "de", "separator": ";"}
    assert answers.fitting(Path("test.tsv"), reading) == reading
    assert answers.fitting(Path("test.jsonl"), reading) == {"source": "en", "target": "de"}
    assert answers.fitting(Path("test.parquet"), reading) == {"source": "en", "target": "de"}
    assert answers.fitting(Path("test.en"), reading) == {"target": "de"}
    assert texts.fitting(Path("rows.txt"), {"text": "body"}) == {"text": "body"}


def test_the_refusal_says_what_to_do():
    images = next(task for task in TASKS if task.name == "images")
    with pytest.raises(ConfigError) as error:
        check_task(images, {"row_id": "machine"})
    assert str(error.value) == (
        "--id is for the task series, regression, forecast. The task is images: leave it out."
    )
