"""Before a training begins: its arguments and rows are checked, validation rows held out, digests made."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import keras

from keras_selfattn import __version__
from keras_selfattn.data.labelled import LabelledRows, as_rows
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.metrics.evaluation import read_labelled_rows, source_named, split_unknown_labels
from keras_selfattn.models.config import check_flag, is_number
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.training.config import TrainConfig
from keras_selfattn.training.processes.clusters import SideBySide
from keras_selfattn.training.processes.digests import digest_of, digest_of_files
from keras_selfattn.training.processes.group import ProcessGroup
from keras_selfattn.training.tuning import Limits
from keras_selfattn.user_warnings import warn_user


def limits_of(tune: Any, trials: Any, side_by_side: SideBySide | None) -> Limits | None:
    """Return the limits of a search for settings, or None if none is asked for."""
    if not (is_number(tune) and tune >= 0):
        raise ConfigError(f"`tune` must be seconds, 0 or more. Received {tune!r}.")
    if isinstance(trials, bool) or not isinstance(trials, int) or trials < 0:
        raise ConfigError(f"`trials` must be an integer, 0 or more. Received {trials!r}.")
    if tune or trials:
        return Limits(tune or math.inf, trials or math.inf)
    if side_by_side is not None:
        raise ConfigError(
            "`side_by_side` (--ray) trains the trials of a search for settings: give `tune` (--tune) or "
            "`trials` (--trials) as well."
        )
    return None


def check_resume(resume: Any, searches: bool = False) -> None:
    """Raise ConfigError for a `resume` that is no flag, or of a search for settings, which keeps none."""
    check_flag("resume", resume)
    if resume and searches:
        raise ConfigError(
            "`resume` (--resume) goes on with one training; `tune` (--tune) and `trials` (--trials) make "
            "many. Leave one of them out."
        )


def check_plots(plots: bool) -> None:
    """Warn of pictures that are not written any more."""
    if plots:
        warn_user(
            "`plots` writes no PNG files any more. The figures are in report.html of the run folder, as SVG; "
            "`keras_selfattn.plots` draws training_curves, confusion_matrix and reliability for a script."
        )


def check_group(group: ProcessGroup | None, searches: bool) -> None:
    """Raise ConfigError for a group of processes in a search for settings."""
    if group is not None and searches:
        raise ConfigError(
            "`group` (--processes, --coordinator) is for one training; `tune` (--tune) and `trials` "
            "(--trials) make many, which `side_by_side` (--ray) spreads. Leave one of them out."
        )


def training_digests(
    model: RawModel, config: TrainConfig, rows: LabelledRows, validation: LabelledRows
) -> dict[str, str]:
    """Return the digests of all that a training depends on, by the name for messages."""
    described = [type(model).__name__, model.config.to_dict()]
    start = model.get_config().get("start")
    return {
        "rows": digest_of([rows.inputs, rows.targets]),
        "validation rows": digest_of([validation.inputs, validation.targets]),
        "settings": digest_of([described, dataclasses.asdict(config)]),
        "files to start from (--from)": "" if start is None else digest_of_files(Path(start)),
        "backend or version of Keras": f"{keras.backend.backend()} {keras.__version__}",
        "version of keras-selfattn": __version__,
    }


def split_tables(
    model: RawModel, rows: LabelledRows, validation: Any, test: Any, config: TrainConfig
) -> dict[str, LabelledRows]:
    """Hold out the validation rows, unless they are given, and check all.

    Returns:
        "all" rows, those to "train" on, "validation", its "monitored" part, and "test".

        All are as the model reads them. The "monitored" rows have no labels that training lacks.
    """
    kind, of_rows = model.head_type(rows.targets), model.row_kind
    rows = read_labelled_rows(model, rows, kind)
    with source_named(rows.source):
        _check_settings(kind.from_targets(rows.targets), rows, config)
    if validation is None:
        kept, held_out = rows.split(config.validation, config.seed)
    else:
        held_out = read_labelled_rows(model, as_rows(validation, "validation rows", of_rows), kind)
        kept = rows
    tables = {"all": rows, "train": kept, "validation": held_out}
    if test is not None:
        tables["test"] = read_labelled_rows(model, as_rows(test, "test rows", of_rows), kind)
    labels = kept.labels()
    for name in ("validation", "test"):
        if name in tables:
            known, unknown = split_unknown_labels(tables[name], labels, f"{name} rows")
            _check_measurable(known if name == "validation" else tables[name], kind, name)
            if unknown:
                decide = " They do not decide when to stop, and" if name == "validation" else " They"
                warn_user(f"{unknown}{decide} count as wrong in the figures.")
            tables.setdefault("monitored", known)
    return tables


def _check_settings(head: Head, rows: LabelledRows, config: TrainConfig) -> None:
    """Raise ConfigError for settings of a training that are not for such targets."""
    head.class_weights(config.class_weight, rows.targets)
    if config.label_smoothing and not head.target_kind.has_labels:
        raise ConfigError(
            f"`label_smoothing` (--label-smoothing) is for labels. The task is {head.task}: leave it out."
        )


def _check_measurable(rows: LabelledRows, kind: type[Head], name: str) -> None:
    if not len(rows):
        raise DataError(
            f"{rows.source}: no {name} row is without a label that training lacks. Give others, or none."
        )
    if kind.per_position and not any(len(target) for target in rows.targets):
        raise DataError(
            f"{rows.source}: all {len(rows)} {name} rows are empty, so that nothing can be measured on them. "
            "Give others, or leave rows without tokens out."
        )
