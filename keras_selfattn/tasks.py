"""Tasks that can be learned from a file: the reader, the model, the options and the line of help of each.

The help of the commands is made from here and from `task_options` alone: a new task, or an option of one,
needs no change in `cli`.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_selfattn.data.formats.arrow_tables import ARROW_ENDINGS
from keras_selfattn.data.formats.endings import checked_ending, ending_of
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.data.texts import TABLES
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.options import OptionSpec
from keras_selfattn.rows.targets import (
    ANSWERS,
    LABEL_PER_POSITION,
    NUMBERS,
    ONE_LABEL,
    SIMILARITY,
    TargetKind,
)
from keras_selfattn.task_options import COLUMNS, OPTIONS

if TYPE_CHECKING:
    from keras_selfattn.models.raw_model import RawModel

# Columns of a line of the help that tasks' files take.
_FILES_WIDTH = 21
# Settings of all models: fields of `EncoderConfig`.
_SHARED = frozenset({"width", "num_layers", "num_heads", "dropout"})

# Types of readers' arguments.
_TYPES = {
    option.name: list if option.many else option.kind if option.switch is None else bool
    for option in (*COLUMNS, *OPTIONS)
}


@dataclass(frozen=True)
class Task:
    """One kind of rows with one kind of targets.

    Args:
        name: its name on the command line.
        kind: class name of its model.
        endings: endings of the files for it, unless a task is named.
        files: those endings in words, for the help.
        learned: its rows with their targets in words, for the help.
        reading: arguments of `read`, with their defaults.
        settings: fields of the model's config that a user may set, besides those of all models.
        chosen: fields of the config with other defaults when training from a file.
        target: the kind of its rows' targets; where a model reads several labels a row as well, one label.
        begins: True if its models can begin with others.
        begins_with_folders: True if those can be pretrained models' folders, besides runs.
        module: the module that has its model.
        read: returns rows from a path and the arguments of `reading`.
    """

    name: str
    kind: str
    endings: frozenset[str]
    files: str
    learned: str
    reading: Mapping[str, Any]
    settings: frozenset[str]
    read: Callable[..., LabelledRows] = field(repr=False)
    chosen: Mapping[str, Any] = field(default_factory=dict)
    target: TargetKind = ONE_LABEL
    begins: bool = False
    begins_with_folders: bool = True
    module: str = "keras_selfattn.models"

    @property
    def _beginning(self) -> tuple[str, ...]:
        """Return the names of the options about the model to start from."""
        if not self.begins:
            return ()
        return ("start", "revision") if self.begins_with_folders else ("start",)

    @property
    def options(self) -> tuple[OptionSpec, ...]:
        """Return its options, of those that are for some tasks."""
        own = {*self.reading, *self.settings, *self._beginning}
        return tuple(option for option in OPTIONS if option.name in own)

    def rows(self, path: Path, given: Mapping[str, Any]) -> LabelledRows:
        """Return the rows of a file; `given` holds arguments of `reading` that differ from their defaults.

        Raises:
            ConfigError: for an argument of another task, or of none.
            DataError: for a file that cannot be read.
        """
        arguments = dict(self.reading)
        for name, value in given.items():
            self._check(name, name in self.reading)
            arguments[name] = value
        return self.read(path, **arguments)

    def fitting(self, path: Path, reading: Mapping[str, Any]) -> dict[str, Any]:
        """Return those arguments of the reading of another file that have a meaning for this one."""
        ending = ending_of(path)
        left_out: set[str] = set()
        if ending == ".npz":  # whose images already have one size
            left_out.add("image_size")
        if ending not in (".csv", ".tsv"):
            left_out.update(_OF_TABLES)
        if self.target == ANSWERS and ending not in TABLES:  # a file of lines has no columns
            left_out.add("source")
        return {name: value for name, value in reading.items() if name not in left_out}

    @property
    def all_settings(self) -> frozenset[str]:
        """Fields of the model's config that a user may set."""
        return self.settings | _SHARED

    def model(self, given: Mapping[str, Any], start: Any = None) -> "RawModel":
        """Return the untrained model; `given` holds fields of its config, or None for their defaults.

        Args:
            given: the fields.
            start: the model whose vocabulary and weights it starts from, where `begins` is True: its path, or
                what `begun` has read there.

        Raises:
            ConfigError: for a field of another task, one out of range, or one that contradicts `start`.
            RunError: for a `start` that is none for the task.
        """
        settings, kind = self.checked_settings(given), self.model_type()
        if start is None:
            return kind({**self.chosen, **settings})
        begun = self.begun(start)
        # A pretrained encoder is one, and large.
        foreign = begun.foreign(self.chosen)
        chosen = {name: value for name, value in self.chosen.items() if name not in foreign}
        return kind({**chosen, **settings}, start=begun)

    def model_type(self) -> Any:
        """Return the class of its model; it is imported here, since the help needs none."""
        return getattr(importlib.import_module(self.module), self.kind)

    def begun(self, start: Any) -> Any:
        """Return the model at a path from which one of the task starts.

        Raises:
            ConfigError: if models of the task start from none.
            RunError: for a model from which none of the task can start.
        """
        kind = self.model_type()
        if not hasattr(kind, "starting_point"):
            others = ", ".join(task.name for task in TASKS if task.begins)
            raise ConfigError(
                f"The task is {self.name}: only models of the tasks {others} begin with others. Leave "
                f"{start} out."
            )
        return kind.starting_point(start)

    def checked_settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the given fields of the model's config, without those that are None.

        Raises:
            ConfigError: for a field of another task.
        """
        settings = {name: value for name, value in given.items() if value is not None}
        for name in settings:
            self._check(name, name in self.all_settings)
        return settings

    def takes(self, name: str, value: Any) -> bool:
        """Return True if a JSON value is valid for an argument of `reading`."""
        return name in self.reading and (value is None or type(value) is _TYPES.get(name, str))

    def _check(self, name: str, known: bool) -> None:
        if not known:
            others = ", ".join(task.name for task in TASKS if name in {*task.reading, *task.settings})
            if not others:
                names = ", ".join(sorted({*self.reading, *self.settings, *_SHARED}))
                raise ConfigError(f"No task knows `{name}`. The task is {self.name}, which knows {names}.")
            raise ConfigError(
                f"`{name}` is for the task {others}. The task is {self.name}: leave it out, or name the task."
            )


def task_named(name: str | None, path: Path) -> Task:
    """Return the task of that name or, without one, the first task for a file's ending.

    Raises:
        DataError: for an ending without a task, or if there is no such file.
    """
    if name is not None:
        return next(task for task in TASKS if task.name == name)
    known = sorted({each for task in TASKS for each in task.endings} - {""})
    try:
        ending = "" if path.is_dir() else checked_ending(path, known)
    except DataError as error:
        if not path.exists():
            raise
        names = ", ".join(task.name for task in TASKS)
        raise DataError(f"{error} Or name what is learned from it, with --task: {names}.") from None
    return next(task for task in TASKS if ending in task.endings)


def tasks_of(name: str) -> tuple[str, ...]:
    """Return the tasks that an option is for, by the parameter's name; none if it is for all tasks.

    Example:
        >>> tasks_of("horizon"), tasks_of("members"), tasks_of("width")
        (('forecast',), ('text', 'tokens', 'score'), ())
    """
    return tuple(
        task.name
        for task in TASKS
        if name in task.reading or name in {option.name for option in task.options}
    )


def check_task(task: Task, options: Mapping[str, Any], instead: str = "") -> None:
    """Refuse given options that are for other tasks.

    Args:
        task: the task.
        options: by name, None where they are not given.
        instead: an alternative to leaving the option out, for the message.

    Raises:
        ConfigError: for the first such option.
    """
    for name, value in options.items():
        tasks = tasks_of(name)
        if value is not None and tasks and task.name not in tasks:
            raise ConfigError(
                f"{_flag(name)} is for the task {', '.join(tasks)}. The task is {task.name}: "
                f"leave it out{instead}."
            )


def _flag(name: str) -> str:
    return next(option.flag for option in (*COLUMNS, *OPTIONS) if option.name == name)


def tasks_in_words() -> str:
    """Return a line for each task: its name, its files, and what it learns from them."""
    # In the order of their first options, as the headings of the options.
    listed = sorted(TASKS, key=lambda task: OPTIONS.index(task.options[0]) if task.options else len(OPTIONS))
    names = max(len(task.name) for task in listed) + 2
    return "\n".join(f"{task.name:<{names}}{_files_in_words(task)}" for task in listed)


def _files_in_words(task: Task) -> str:
    long = len(task.files) >= _FILES_WIDTH
    return f"{task.files}: {task.learned}" if long else f"{task.files:<{_FILES_WIDTH}}{task.learned}"


def _texts(path: Path, **columns: Any) -> LabelledRows:
    from keras_selfattn.data.texts import read_table

    return read_table(path, **columns)


def _scores(path: Path, **columns: Any) -> LabelledRows:
    from keras_selfattn.data.scores import read_scores

    return read_scores(path, **columns)


def _groups(path: Path, **columns: Any) -> LabelledRows:
    from keras_selfattn.data.text_groups import read_groups

    return read_groups(path, **columns)


def _answers(path: Path, **columns: Any) -> LabelledRows:
    from keras_selfattn.data.text_answers import read_answers

    return read_answers(path, **columns)


def _images(path: Path, image_size: int | None) -> LabelledRows:
    from keras_selfattn.data.images import read_images

    return read_images(path, image_size)


def _audio(path: Path, **columns: Any) -> LabelledRows:
    from keras_selfattn.data.audio import read_audio

    return read_audio(path, **columns)


def _tokens(path: Path, **reading: Any) -> LabelledRows:
    from keras_selfattn.data.tagged import read_tagged

    return read_tagged(path, **reading)


def _series(path: Path, **columns: Any) -> LabelledRows:
    from keras_selfattn.data.series import read_series

    return read_series(path, **columns)


def _regression(path: Path, **columns: Any) -> LabelledRows:
    from keras_selfattn.data.series import read_regression

    return read_regression(path, **columns)


def _forecast(path: Path, context: int, horizon: int, **columns: Any) -> LabelledRows:
    from keras_selfattn.data.series import read_long_series
    from keras_selfattn.data.windows import cut_windows

    return cut_windows(read_long_series(path, **columns), context, horizon, str(path))


# On held-out rows two encoders were as good as one, or half a point better; each takes the same time again.
_MEMBERS = {"members": 2}
_OF_TEXTS = frozenset(
    {
        "tokens",
        "lowercase",
        "max_tokens",
        "training_span",
        "wide",
        "symmetric",
        "members",
        "frozen_layers",
    }
)
_OF_TABLES = {"separator": None, "has_header": True}
_FRAME_COLUMNS = {"row_id": None, "time": None, "time_format": None, "values": None, **_OF_TABLES}
# If several tasks have the same ending, the first is the default.
TASKS = (
    Task(
        name="text",
        kind="TextClassifier",
        endings=frozenset({".csv", ".tsv", ".jsonl", ".ndjson", *ARROW_ENDINGS}),
        files=".csv, .tsv, .jsonl, .parquet, .feather",
        learned="labelled texts, or pairs",
        reading={
            "text": "text",
            "text_pair": None,
            "label": "label",
            "label_separator": None,
            **_OF_TABLES,
        },
        settings=_OF_TEXTS,
        read=_texts,
        chosen=_MEMBERS,
        begins=True,
    ),
    Task(
        name="images",
        kind="ImageClassifier",
        # A folder has no ending.
        endings=frozenset({"", ".npz"}),
        files="a folder, .npz",
        learned="images in a folder a class; arrays x and y",
        reading={"image_size": None},
        settings=frozenset({"patch_size", "augment"}),
        read=_images,
    ),
    Task(
        name="audio",
        kind="AudioClassifier",
        endings=frozenset(),
        files="only with --task",
        learned="recordings in a folder a class, or a table",
        reading={"audio": None, "label": None, "label_separator": None, "group": None, **_OF_TABLES},
        settings=frozenset({"sample_rate", "augment", "kernels"}),
        read=_audio,
    ),
    Task(
        name="tokens",
        kind="TokenClassifier",
        endings=frozenset({".conllu", ".conll"}),
        files=".conllu, .conll",
        learned="tokens with a label each",
        reading={"text": None, "label": None, "column": None, "offsets": None, "skip_unfit_texts": False},
        settings=frozenset({"members", "frozen_layers"}),
        read=_tokens,
        chosen=_MEMBERS,
        target=LABEL_PER_POSITION,
        begins=True,
    ),
    Task(
        name="series",
        kind="SeriesClassifier",
        endings=frozenset({".ts"}),
        files=".ts",
        learned="series with a class each",
        reading={"label": None, **_FRAME_COLUMNS},
        settings=frozenset({"kernel_size", "kernels", "positions"}),
        read=_series,
    ),
    Task(
        name="regression",
        kind="SeriesRegressor",
        endings=frozenset(),
        files="only with --task",
        learned="series with a number each",
        reading={"label": None, **_FRAME_COLUMNS},
        settings=frozenset({"kernel_size", "positions"}),
        read=_regression,
        target=NUMBERS,
    ),
    Task(
        name="forecast",
        kind="SeriesForecaster",
        endings=frozenset(),
        files="only with --task",
        learned="long series, to be continued",
        reading={"context": 48, "horizon": 12, **_FRAME_COLUMNS},
        settings=frozenset({"kernel_size", "season"}),
        read=_forecast,
        target=NUMBERS,
    ),
    Task(
        name="score",
        kind="TextRegressor",
        endings=frozenset(),
        files="only with --task",
        learned="texts, or pairs, with a number each",
        reading={"text": "text", "text_pair": None, "label": "label", **_OF_TABLES},
        settings=_OF_TEXTS | {"bounded"},
        read=_scores,
        chosen=_MEMBERS,
        target=NUMBERS,
        begins=True,
    ),
    Task(
        name="embedding",
        kind="TextEncoder",
        endings=frozenset(),
        files="only with --task",
        learned="vectors, from pairs of texts and --from",
        reading={"text": "text", "text_pair": "text_pair", "label": None, "negatives": None, **_OF_TABLES},
        settings=frozenset({"max_tokens", "frozen_layers", "score_loss"}),
        read=_groups,
        target=SIMILARITY,
        begins=True,
    ),
    Task(
        name="seq2seq",
        kind="SequenceToSequence",
        endings=frozenset(),
        files="only with --task",
        learned="texts, with the texts to answer them by",
        reading={"source": "source", "target": "target", "alternatives": None, **_OF_TABLES},
        settings=frozenset({"tokens", "decoder_layers", "max_tokens", "max_new_tokens", "beams"}),
        read=_answers,
        target=ANSWERS,
        begins=True,
        begins_with_folders=False,
    ),
)
FILES_BESIDES = (
    "With --task, tokens are read from .jsonl, .parquet, .feather, .iob and .txt files as well, and from "
    "texts with spans: doccano's and Prodigy's .jsonl, Label Studio's .json, brat's folders; texts from .txt "
    "files in fastText's form; scores, embedding and seq2seq from the tables that texts are read from; and "
    "series, regression and forecast from .ts, .csv, .tsv, .jsonl, .txt and .npz files."
)
"""The sentence of the help about files whose ending does not tell their task."""
