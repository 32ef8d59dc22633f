"""Tasks: which one a file selects, and which options it knows."""

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
    said = "Give a file ending in .conll, .conllu, .csv, .feather.* --task: text, images, tokens"
    with pytest.raises(DataError, match=f"has no known ending. {said}"):
        task_named(None, written(tmp_path, "t.txt", "x"))


def test_an_argument_that_no_task_knows_is_said_so(tmp_path):
    with pytest.raises(ConfigError, match="No task knows `foo`. The task is text, which knows .*label"):
        task_named("text", tmp_path).rows(tmp_path, {"foo": 1})


def test_the_tasks_that_begin_with_others_are_those_whose_models_can():
    for task in TASKS:
        assert task.begins == hasattr(getattr(models, task.kind), "starting_point"), task.name


def test_a_task_that_begins_with_none_names_those_that_do():
    with pytest.raises(ConfigError, match="models of the tasks text, tokens, score, embedding begin with"):
        task_named("series", None).begun("base")


def test_the_refusal_says_what_to_do():
    images = next(task for task in TASKS if task.name == "images")
    with pytest.raises(ConfigError) as error:
        check_task(images, {"row_id": "machine"})
    assert str(error.value) == (
        "--id is for the task series, regression, forecast. The task is images: leave it out."
    )
