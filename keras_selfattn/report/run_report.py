"""The report of a run: its sections, and the file `report.html` in the run folder."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import first_line
from keras_selfattn.metrics.evaluation import Evaluation
from keras_selfattn.metrics.reliability import CalibrationEffect
from keras_selfattn.metrics.report import Report
from keras_selfattn.metrics.text_answers import CONSTANT, COPYING
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.report.alignments import alignment_section
from keras_selfattn.report.figure_names import name_in_words, value_in_words
from keras_selfattn.report.history import is_of_kept_model, read_history, training_section
from keras_selfattn.report.misread import MISREAD, misread_section
from keras_selfattn.report.page import page_html
from keras_selfattn.report.results import answers_section, confused_most, reliability_section
from keras_selfattn.report.rows import data_section
from keras_selfattn.report.sections import Page, Section
from keras_selfattn.report.settings import settings_section
from keras_selfattn.runs.run_folder import read_config
from keras_selfattn.user_warnings import warn_user

REPORT = "report.html"
"""The file of the report in a run folder."""
_OF_BASELINES = ("_error_of_", f"_of_{COPYING}", f"_of_{CONSTANT}")


@dataclass(frozen=True)
class Findings:
    """All that a report shows besides the settings and the history in the run folder.

    Args:
        figures: of the model on the held-out rows.
        split: the name of these rows, such as "validation".
        evaluation: the answers on them; None leaves their sections out.
        model: the model that gave them, for the attention over texts.
        tables: rows by the name of their split, those of the training first as "train".
        calibrated: the effect of the calibration.
    """

    figures: Report
    split: str
    evaluation: Evaluation | None = None
    model: RawModel | None = None
    tables: Mapping[str, LabelledRows] = field(default_factory=dict)
    calibrated: CalibrationEffect | None = None


def write_run_report(folder: Path, name: Path, findings: Findings) -> None:
    """Write `report.html` into a run folder; a failure is a warning, since it must not cost the training.

    Args:
        folder: the draft of the run folder, with its other files.
        name: the run folder, for the title.
        findings: what is shown.
    """
    file = folder / REPORT
    try:
        file.write_bytes(page_html(run_report(folder, name.name, findings)).encode(errors="replace"))
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  the training is worth more
        with suppress(OSError):
            file.unlink(missing_ok=True)
        why = f"{type(error).__name__}: {first_line(error)}"
        warn_user(f"The report of {name} could not be written: {why}. The run is whole without.")


def run_report(folder: Path, name: str, findings: Findings) -> Page:
    """Return the page about a run.

    Args:
        folder: the run folder.
        name: of the run.
        findings: what is known besides.

    Raises:
        RunError: if a file of the folder cannot be read.
    """
    config = read_config(folder)
    summary = findings.figures.summary()
    # Those of baselines, whose names end in theirs, are in a table.
    shown = {key: value for key, value in summary.items() if not any(each in key for each in _OF_BASELINES)}
    tiles = [(name_in_words(key), value_in_words(key, value)) for key, value in shown.items()]
    tiles += [("rows measured", f"{findings.figures.rows:,}"), *_costs(config)]
    history = training_section(read_history(folder), config, findings.split)
    sections = [history, *_answers(findings, is_of_kept_model(config, findings.split))]
    if findings.tables:
        sections.append(data_section(findings.tables))
    about = [*_about(config, findings), *_confused(findings)]
    return Page(f"Run {name}", about, tiles, [*sections, settings_section(config)])


def _costs(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return time and memory of the training, as far as they were recorded."""
    seconds, memory = config.get("seconds"), config.get("peak_memory_mb")
    found = []
    if isinstance(seconds, int | float):
        found.append(("training time", f"{seconds:,.0f} s" if seconds < 600 else f"{seconds / 60:,.0f} min"))
    if isinstance(memory, int | float):
        found.append(("peak memory", f"{memory:,.0f} MB"))
    return found


def _about(config: Mapping[str, Any], findings: Findings) -> list[str]:
    data = config.get("data") or {}
    trained = data.get("train")
    kind = config.get("kind", "model")
    said = f"A {kind}"
    if isinstance(trained, dict):
        said += f", trained on {trained.get('rows', 0):,} rows of {trained.get('source')}"
    seed = (config.get("training") or {}).get("seed")
    said += f". Its answers are measured on {findings.figures.rows:,} {findings.split} rows"
    return [said + (f"; the seed is {seed}." if seed is not None else ".")]


def _confused(findings: Findings) -> list[str]:
    """Return what a model of classes mixes up most, and where to look next: a reader's first question."""
    said = [] if findings.evaluation is None else confused_most(findings.figures)
    return [f"{each} What to mend is seen best in “{MISREAD}”, row by row." for each in said]


def _answers(findings: Findings, of_kept_model: bool) -> list[Section]:
    """Return the sections of the answers on held-out rows."""
    found = findings.evaluation
    if found is None:
        return [Section("Answers", ["The figures above are all that is measured for this kind of model."])]
    answers = answers_section(found.figures, findings.split, found)
    kept = {"of_kept_model": of_kept_model}
    reliable = reliability_section(found, findings.split, findings.calibrated, **kept)
    misread = misread_section(found.head, found.rows, found.outputs, findings.model)
    aligned = alignment_section(found, findings.model)
    return [each for each in (answers, reliable, misread, aligned) if each is not None]
