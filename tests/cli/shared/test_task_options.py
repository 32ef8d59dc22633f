"""Options of tasks: their headings in the help, and their refusal for other tasks."""

import dataclasses
import re

import click
import pytest
from click.testing import CliRunner

from keras_selfattn.cli.main import main
from keras_selfattn.cli.shared.task_options import TRAINING
from keras_selfattn.tasks import TASKS, tasks_of
from keras_selfattn.training.config import TrainConfig

NAMES = [task.name for task in TASKS]


# Of several tasks, and wanted by most: these stand first, whatever the task.
FIRST = {"text", "label", "separator", "has_header"}


def command(name):
    found = main.get_command(click.Context(main), name)
    assert found is not None
    return found


def helped(name, width=80):
    done = CliRunner().invoke(main, [name, "--help"], terminal_width=width)
    assert done.exit_code == 0, done.output
    return done.output


def printed_panels(name):
    """The flags in the help, by heading, as a reader sees them."""
    panels, heading = {}, None
    for line in helped(name).splitlines():
        if found := re.fullmatch(r"(\S.*):", line):
            heading = found[1]
            panels[heading] = []
        elif heading and (found := re.match(r"  (?:-h, )?(--\w[\w-]*)", line)):
            panels[heading].append(found[1])
    return panels


def tasks_of_heading(heading):
    """The tasks that a heading names; all of them where it names none."""
    found = re.fullmatch(r"Only for the tasks? (.+)", heading)
    return re.split(r", | and ", found[1]) if found else NAMES


def refused(option, task):
    """Return True if `train` refuses an option for a task before it reads its file, which is missing."""
    words = [option.opts[0]]
    if not option.is_flag:
        least = str(getattr(option.type, "min", None) or 1)
        words.append(option.type.choices[0] if isinstance(option.type, click.Choice) else least)
    done = CliRunner().invoke(main, ["train", "no.csv", "--output", "no/run", "--task", task, *words])
    assert done.exit_code == 1, done.output
    said = f"{option.opts[0]} is for "
    assert (said in done.output) == ("is for" in done.output), done.output
    return said in done.output


@pytest.mark.parametrize("name", ["train", "evaluate", "export"])
def test_the_options_of_a_task_stand_under_its_heading(name):
    panels = printed_panels(name)
    by_flag = {each.opts[0]: each.name for each in command(name).params if isinstance(each, click.Option)}
    # What `export` reads may have a name in the hub before a task is known.
    first = FIRST | {"revision"} if name == "export" else FIRST
    for heading, flags in panels.items():
        for flag in set(flags) - {"--help"}:
            if by_flag[flag] not in first:
                assert tuple(tasks_of_heading(heading)) == (tasks_of(by_flag[flag]) or tuple(NAMES)), flag
    assert panels["Only for the task images"][0] == "--image-size"


def test_train_refuses_an_option_exactly_for_the_tasks_that_its_heading_leaves_out():
    known = {each.opts[0]: each for each in command("train").params}
    for heading, flags in printed_panels("train").items():
        if heading.startswith("Only for"):
            assert flags
            for flag in flags:
                found = [task for task in NAMES if not refused(known[flag], task)]
                assert found == tasks_of_heading(heading), flag


def test_train_has_every_option_that_a_task_knows():
    known = {each.name for each in command("train").params}
    assert {name for task in TASKS for name in (*task.reading, *task.all_settings)} <= known


def test_every_option_that_is_a_setting_of_a_training_reaches_it():
    """One that is left out there would be accepted, and change nothing."""
    train = main.get_command(click.Context(main), "train")
    assert train is not None
    known = {field.name for field in dataclasses.fields(TrainConfig)}
    assert set(TRAINING) == known & {option.name for option in train.params}
