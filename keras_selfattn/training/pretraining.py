"""Pretrain a model on texts without labels, and write its run folder; classifiers can start from it."""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import keras

from keras_selfattn.metrics.masked_tokens import evaluate_pretrained, text_rows
from keras_selfattn.models.text.masked_model import MaskedTokenModel
from keras_selfattn.report.run_report import Findings, write_run_report
from keras_selfattn.runs.run_folder import as_json, data_record, draft_run, peak_memory, write_run, writing
from keras_selfattn.training.checkpoints import Checkpoints, checkpoint_folder, training_digests
from keras_selfattn.training.config import TrainConfig
from keras_selfattn.training.fitting import fit_with_validation
from keras_selfattn.training.training import Run, check_plots, check_resume


def pretrain(
    texts: Sequence[str],
    output: str | Path,
    *,
    model: MaskedTokenModel | None = None,
    config: TrainConfig | None = None,
    validation: Sequence[str] | None = None,
    source: str = "texts",
    reading: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    resume: bool = False,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    verbose: str | int = "auto",
    report: Callable[[str], None] = lambda _line: None,
    plots: bool = False,
) -> Run:
    """Train a model to predict hidden tokens of texts, and write its run folder.

    `TextClassifier(start=output)` then starts from its weights.

    Args:
        texts: in any container. Texts of over 1,024 characters are split at spaces into several rows.
        output: the run folder; it appears when all of it is written.
        model: the model to train, which has seen no texts yet.
        config: the settings of training; by default those that the model advises.
        validation: texts that select the weights to keep; by default some of the rows are held out.
        source: the name of the texts' source, for messages and records.
        reading: the arguments of their reader, such as the column.
        overwrite: True replaces an existing run folder, once the new one is whole.
        resume: True goes on from the checkpoint of the same call, as in `train`.
        callbacks: more Keras callbacks, such as a progress bar.
        verbose: as in `keras.Model.fit`.
        report: called with a line if the training goes on from a checkpoint.
        plots: as in `train`.

    Raises:
        ConfigError: for `reading` that is not JSON, or settings of labels, such as `class_weight`.
        DataError: for no texts, too few to hold some of them out, or values that are not texts.
        RunError: if `output` cannot be written, exists without `overwrite`, or is not a run folder.
        TrainingError: if the loss became NaN or infinite.

    Example:

        >>> import tempfile
        >>> from keras_selfattn.models import TextConfig
        >>> small = MaskedTokenModel(TextConfig(width=8, num_heads=1))
        >>> texts = [f"a good film, number {n}" for n in range(40)]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = pretrain(texts, f"{folder}/base", model=small, config=TrainConfig(epochs=1), verbose=0)
        >>> run.figures.rows
        4
    """
    check_plots(plots)
    model = MaskedTokenModel() if model is None else model
    rows = text_rows(texts, source)
    config = config or TrainConfig(**model.advised_training(len(rows)))
    if validation is None:
        rows, held_out = rows.split(config.validation, config.seed)
    else:
        held_out = text_rows(validation, "validation texts")
    settings = {
        "training": dataclasses.asdict(config),
        "data": {"train": data_record(rows), "validation": data_record(held_out)},
        "reading": as_json("reading", dict(reading or {})),
    }
    check_resume(resume)
    kept_in = checkpoint_folder(Path(output)) if resume else nullcontext()
    with kept_in as kept, draft_run(Path(output), overwrite=overwrite) as draft:
        started = time.perf_counter()
        checkpoints = kept and Checkpoints(kept, training_digests(model, config, rows, held_out), report)
        found = fit_with_validation(
            model, rows, held_out, config, callbacks, verbose, checkpoints=checkpoints
        )
        seconds = time.perf_counter() - started
        figures = evaluate_pretrained(model, held_out.inputs, config.batch_size)
        settings |= {"best_epoch": found.best_epoch, "trained_on": len(rows), "seconds": round(seconds, 1)}
        settings["peak_memory_mb"] = peak_memory()
        with writing(Path(output)):
            write_run(draft, model, figures, split="validation", history=found.history, settings=settings)
        findings = Findings(figures, "validation", tables={"train": rows, "validation": held_out})
        write_run_report(draft, Path(output), findings)
    best = found.best_epoch
    return Run(Path(output), model, figures, best, seconds, rows=len(rows), again=False, changes={})
