"""The help of the commands: options under headings, within the width of a terminal, and true defaults."""

import dataclasses
import re
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from keras_selfattn import models
from keras_selfattn.cli.main import main
from keras_selfattn.models.pretrained_folders.pretrained_config import PretrainedConfig
from keras_selfattn.tasks import TASKS, tasks_of

COMMANDS = main.list_commands(click.Context(main))


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


def refused(option, task):
    """Return True if `train` refuses an option for a task before it reads its file, which is missing."""
    words = [option.opts[0]]
    if not option.is_flag:
        words.append(option.type.choices[0] if isinstance(option.type, click.Choice) else "1")
    done = CliRunner().invoke(main, ["train", "no.csv", "--output", "no/run", "--task", task, *words])
    assert done.exit_code == 1, done.output
    said = f"{option.opts[0]} is for "
    assert (said in done.output) == ("is for" in done.output), done.output
    return said in done.output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_stands_under_exactly_one_heading(name):
    shown = [flag for flags in printed_panels(name).values() for flag in flags]
    known = [each.opts[0] for each in command(name).params if isinstance(each, click.Option)]
    assert sorted(shown) == sorted([*known, "--help"])


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("width", [80, 120])
def test_no_line_of_a_help_is_wider_than_the_terminal(name, width):
    for line in helped(name, width).splitlines():
        assert len(line) <= width or re.fullmatch(r"  --\S+( \S+)*", line), line


def test_the_help_of_train_lists_every_task_with_its_endings():
    text = helped("train")
    for task in TASKS:
        line = re.search(rf"^  {task.name} +(.*)$", text, re.MULTILINE)[1]
        # .ndjson is .jsonl by another name, and a folder has no ending.
        assert {ending for ending in task.endings if ending not in ("", ".ndjson")} == set(
            re.findall(r"\.\w+", line)
        )


NEW_TASK = """
import dataclasses, sys
from keras_selfattn import task_options
from keras_selfattn.options import OptionSpec
from keras_selfattn.rows.targets import NUMBERS

pitch = OptionSpec("--pitch", "Hertz that are heard.", kind=int, least=1)
task_options.OPTIONS = (*task_options.OPTIONS, pitch)
from keras_selfattn import tasks
forecast = tasks.TASKS[-1]
fields = {"name": "sound", "files": ".wav", "learned": "sounds with a label each", "target": NUMBERS}
sound = dataclasses.replace(forecast, **fields, settings=frozenset({"pitch", "wide"}), reading={})
tasks.TASKS = (*tasks.TASKS, sound)
from keras_selfattn.cli.main import main
main(sys.argv[1:])
"""


@pytest.mark.process
def test_a_new_task_is_in_the_help_and_refuses_options_without_a_change_of_the_commands():
    def run(*words):
        command = [sys.executable, "-c", NEW_TASK, "train", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    text = run("--help").stdout
    assert re.search(r"^  sound       \.wav                 sounds with a label each$", text, re.MULTILINE)
    panel = text.partition("Only for the task sound:\n")[2].partition("\n\n")[0]
    assert panel.split() == ["--pitch", "N", "Hertz", "that", "are", "heard."]
    assert "Only for the tasks text, score and sound:\n  --no-wide " in text
    refused = run("x.csv", "--output", "run", "--task", "text", "--pitch", "3").stderr
    assert refused.startswith("Error: --pitch is for the task sound. The task is text: leave it out")
    refused = run("x.csv", "--output", "run", "--task", "sound", "--balanced").stderr
    assert refused == "Error: --balanced is for one label a row. The task is sound: leave it out.\n"


def test_the_defaults_in_the_help_of_train_are_those_of_the_models():
    options = {each.name: each for each in command("train").params if isinstance(each, click.Option)}
    checked = set()
    for task in TASKS:
        kind = getattr(models, task.kind).config_type
        config = dataclasses.asdict(kind())
        if issubclass(kind, PretrainedConfig):  # whose fields a folder determines
            of_folder = dataclasses.asdict(PretrainedConfig())
            config = {name: value for name, value in config.items() if name not in of_folder}
        for name, value in {**task.reading, **config, **task.chosen}.items():
            if task.name in tasks_of(name) and value is not None and not isinstance(value, bool):
                told = options[name].without
                own = f"of {task.name} {value}" in told
                assert own or re.split("[;,]", told)[0] == str(value), (task.name, name)
                checked.add(name)
    assert {"tokens", "members", "kernels", "kernel_size", "context", "season"} <= checked


def test_the_help_of_query_says_which_version_is_asked_by_default():
    assert re.search(r"--version N +Version to ask\. +\[default: the latest\]", helped("query"))
