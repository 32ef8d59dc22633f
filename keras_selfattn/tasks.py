"""Tasks that can be learned from a file: the reader and the model of each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_selfattn.data.formats.arrow_tables import ARROW_ENDINGS
from keras_selfattn.data.formats.endings import checked_ending
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import ConfigError, DataError

if TYPE_CHECKING:
    from keras_selfattn.models.raw_model import RawModel

# Settings of all models: fields of `EncoderConfig`.
_SHARED = frozenset({"width", "num_layers", "num_heads", "dropout"})
# Types of readers' arguments; the others are texts.
_TYPES = {"image_size": int, "context": int, "horizon": int, "has_header": bool}


@dataclass(frozen=True)
class Task:
    """One kind of rows with one kind of targets.

    Args:
        name: its name on the command line.
        kind: class name of its model.
        endings: endings of the files for it, unless a task is named.
        reading: arguments of `read`, with their defaults.
        settings: fields of the model's config that a user may set, besides those of all models.
        chosen: fields of the config with other defaults when training from a file.
        read: returns rows from a path and the arguments of `reading`.
    """

    name: str
    kind: str
    endings: frozenset[str]
    reading: Mapping[str, Any]
    settings: frozenset[str]
    read: Callable[..., LabelledRows] = field(repr=False)
    chosen: Mapping[str, Any] = field(default_factory=dict)

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

    @property
    def all_settings(self) -> frozenset[str]:
        """Fields of the model's config that a user may set."""
        return self.settings | _SHARED

    def model(self, given: Mapping[str, Any], start: Any = None) -> "RawModel":
        """Return the untrained model; `given` holds fields of its config, or None for their defaults.

        Args:
            given: the fields.
            start: for text and tokens, the model whose vocabulary and weights it starts from: its path, or
                what `begun` has read there.

        Raises:
            ConfigError: for a field of another task, one out of range, or one that contradicts `start`.
            RunError: for a `start` that is none for the task.
        """
        from keras_selfattn import models

        settings, kind = self.checked_settings(given), getattr(models, self.kind)
        if start is None:
            return kind({**self.chosen, **settings})
        begun = self.begun(start)
        # A pretrained encoder is one, and large.
        foreign = begun.foreign(self.chosen)
        chosen = {name: value for name, value in self.chosen.items() if name not in foreign}
        return kind({**chosen, **settings}, start=begun)

    def begun(self, start: Any) -> Any:
        """Return the model at a path from which one of the task starts.

        Raises:
            ConfigError: if models of the task start from none.
            RunError: for a model from which none of the task can start.
        """
        from keras_selfattn import models

        kind = getattr(models, self.kind)
        if not hasattr(kind, "starting_point"):
            raise ConfigError(
                f"The task is {self.name}: only models of text and tokens begin with others. Leave {start} "
                "out."
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


def _texts(path: Path, **columns: Any) -> LabelledRows:
    from keras_selfattn.data.texts import read_table

    return read_table(path, **columns)


def _images(path: Path, image_size: int | None) -> LabelledRows:
    from keras_selfattn.data.images import read_images

    return read_images(path, image_size)


def _tokens(path: Path, text: str | None, label: str | None, column: str | None) -> LabelledRows:
    from keras_selfattn.data.tagged import read_tagged

    return read_tagged(path, text, label, column)


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
_OF_TABLES = {"separator": None, "has_header": True}
_FRAME_COLUMNS = {"row_id": None, "time": None, "time_format": None, "values": None, **_OF_TABLES}
# If several tasks have the same ending, the first is the default.
TASKS = (
    Task(
        name="text",
        kind="TextClassifier",
        endings=frozenset({".csv", ".tsv", ".jsonl", ".ndjson", *ARROW_ENDINGS}),
        reading={"text": "text", "label": "label", "label_separator": None, **_OF_TABLES},
        settings=frozenset(
            {"tokens", "lowercase", "max_tokens", "training_span", "wide", "members", "frozen_layers"}
        ),
        read=_texts,
        chosen=_MEMBERS,
    ),
    Task(
        name="images",
        kind="ImageClassifier",
        # A folder has no ending.
        endings=frozenset({"", ".npz"}),
        reading={"image_size": None},
        settings=frozenset({"patch_size", "augment"}),
        read=_images,
    ),
    Task(
        name="tokens",
        kind="TokenClassifier",
        endings=frozenset({".conllu", ".conll"}),
        reading={"text": None, "label": None, "column": None},
        settings=frozenset({"members", "frozen_layers"}),
        read=_tokens,
        chosen=_MEMBERS,
    ),
    Task(
        name="series",
        kind="SeriesClassifier",
        endings=frozenset({".ts"}),
        reading={"label": None, **_FRAME_COLUMNS},
        settings=frozenset({"kernel_size", "kernels"}),
        read=_series,
    ),
    Task(
        name="regression",
        kind="SeriesRegressor",
        endings=frozenset(),
        reading={"label": None, **_FRAME_COLUMNS},
        settings=frozenset({"kernel_size"}),
        read=_regression,
    ),
    Task(
        name="forecast",
        kind="SeriesForecaster",
        endings=frozenset(),
        reading={"context": 48, "horizon": 12, **_FRAME_COLUMNS},
        settings=frozenset({"kernel_size", "season"}),
        read=_forecast,
    ),
)
