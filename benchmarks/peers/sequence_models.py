"""Models from texts to texts trained on the same rows: ours, and Phonetisaurus' for pronunciations.

That of torch's modules is in `torch_sequences.py`.
"""

import functools
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers.measured_training import measured
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import TrainingError
from keras_selfattn.files.atomic import write_file


class SequenceRows(NamedTuple):
    """The rows of a set: texts with their right answers.

    test: what is measured, by the name of the part.
    sentences: True if answers are sentences, which BLEU and chrF compare.
    """

    train: LabelledRows
    development: LabelledRows | None
    test: dict[str, LabelledRows]
    sentences: bool = False


def ours(
    rows: SequenceRows,
    config: dict[str, Any],
    given: dict[str, Any],
    seed: int,
    beams: Sequence[int] = (),
    folder: Path | None = None,
) -> dict[str, float]:
    """Train like `keras-selfattn train --task seq2seq`.

    Args:
        rows: of the set.
        config: fields of the model's config.
        given: fields of the training's config that are not the advised ones.
        seed: of weights, order and dropout.
        beams: of further searches for the answers to the part "test".
        folder: where a training that is stopped leaves a checkpoint after each epoch, from which the same
            call goes on; None for none.
    """
    from keras_selfattn.cli.shared.backend import import_tensorflow

    import_tensorflow(batches=True)
    import keras

    from keras_selfattn import models, training

    model = models.SequenceToSequence(config)
    settings = {**model.advised_training(len(rows.train)), **given, "seed": seed}

    with tempfile.TemporaryDirectory() if folder is None else nullcontext(folder) as output:
        used = UsedTime(Path(output, "used.json"))
        train = functools.partial(
            training.train,
            rows.train,
            Path(output, "run"),
            model=model,
            config=training.TrainConfig(**settings),
            validation=rows.development,
            overwrite=True,
            resume=folder is not None,
            callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=used.keep)],
            verbose=0,
        )
        run, figures = measured(train)
    return {
        **used.added_to(figures),
        "best epoch": run.best_epoch,
        **figures_of_answers(run.model, rows, beams),
    }


class UsedTime:
    """Keep the time that a training has taken, for one that goes on from its checkpoint.

    Args:
        file: holds it after each epoch.

    Attributes:
        before: wall and CPU seconds of the stopped trainings before, by the names of their figures.
    """

    def __init__(self, file: Path) -> None:
        self._file, self._begin = file, (time.perf_counter(), time.process_time())
        self.before: dict[str, float] = {"seconds": 0.0, "cpu s": 0.0}
        if file.exists():
            self.before = json.loads(file.read_text(encoding="utf-8"))

    def keep(self, *_: Any) -> None:
        """Write the time so far: a callback of the end of an epoch."""
        wall, cpu = self._begin
        now = {"seconds": time.perf_counter() - wall, "cpu s": time.process_time() - cpu}
        added = {name: seconds + now[name] for name, seconds in self.before.items()}
        write_file(self._file, json.dumps(added).encode())

    def added_to(self, figures: dict[str, float]) -> dict[str, float]:
        """Return the figures of a training with the time of those before."""
        return figures | {name: figures[name] + seconds for name, seconds in self.before.items()}


def phonetisaurus(rows: SequenceRows, *_: Any) -> dict[str, float]:
    """Train Phonetisaurus' joint n-gram transducer of graphemes and phonemes, with its package's settings.

    Sources are letters between blanks; it has no seed, and reads no development rows.
    """
    import phonetisaurus as peer  # pyright: ignore[reportMissingImports]

    with tempfile.TemporaryDirectory() as folder:
        lexicon, model = Path(folder, "lexicon.txt"), Path(folder, "train", "model.fst")
        lexicon.write_text(_lexicon(rows.train), encoding="utf-8")
        # The command of `peer.train`, which hands on thousands of lines that the program prints.
        command = ["phonetisaurus-train", "--lexicon", str(lexicon), "--seq2_del"]
        environment = peer.guess_environment()
        program = shutil.which(command[0], path=environment["PATH"])
        figures = _of_programs(lambda: _quietly([program, *command[1:]], folder, environment))
        for part, tested in rows.test.items():
            words = [_joined(source) for source in tested.inputs]
            found = {word: " ".join(phonemes) for word, phonemes in peer.predict(words, model)}
            figures |= _figures(part, tested, [found.get(word, "") for word in words])
    return figures


def _lexicon(rows: LabelledRows) -> str:
    """Return a line for each right answer: the letters, a tab, and the phonemes."""
    pairs = zip(rows.inputs, rows.targets, strict=True)
    return "".join(f"{_joined(source)}\t{answer}\n" for source, answers in pairs for answer in answers)


def _quietly(command: Sequence[Any], folder: str, environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    if done.returncode:
        raise TrainingError(f"{command[0]}: {done.stderr.decode(errors='replace')[-300:]}")


def _of_programs(work: Callable[[], Any]) -> dict[str, float]:
    """Return the wall and CPU seconds of the first programs that this process runs, and their memory."""
    begin = time.perf_counter()
    work()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": time.perf_counter() - begin,
        "cpu s": used.ru_utime + used.ru_stime,
        "memory MB": used.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6,
    }


def _joined(source: str) -> str:
    return "".join(source.split())


def figures_of_answers(model: Any, rows: SequenceRows, beams: Sequence[int] = ()) -> dict[str, float]:
    """Return the figures of a model's answers to all parts, and of further searches for those to "test".

    Args:
        model: a trained `SequenceToSequence`.
        rows: of the set.
        beams: of each further search.
    """
    figures: dict[str, float] = {}
    for part, tested in rows.test.items():
        figures |= _figures(part, tested, model.predict(tested.inputs, verbose=0), rows.sentences)
    for width in beams:
        tested = rows.test["test"]
        answers = [answer.text for answer in model.generate(tested.inputs, beams=width)]
        figures |= _figures(f"{width} beams", tested, answers, rows.sentences)
    return figures


def _figures(
    part: str, rows: LabelledRows, answers: Sequence[str], sentences: bool = False
) -> dict[str, float]:
    """Return the share of right answers, and the errors by symbol between blanks, of a part.

    Of sentences also BLEU and chrF, 0 to 100.
    """
    from keras_selfattn.metrics.text_answers import edit_rate

    right = [answer in wanted for answer, wanted in zip(answers, rows.targets, strict=True)]
    found = {f"{part} exact": sum(right) / len(right)}
    found[f"{part} symbol errors"] = edit_rate(rows.targets, answers, str.split)
    metrics = corpus_metrics(rows) if sentences else {}
    return found | {
        f"{part} {name}": each.corpus_score(answers, None).score for name, each in metrics.items()
    }


def corpus_metrics(rows: LabelledRows) -> dict[str, Any]:
    """Return sacrebleu's BLEU and chrF without case, of the answers to rows with one right answer each."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    right = [[answers[0] for answers in rows.targets]]
    return {
        "BLEU": BLEU(lowercase=True, tokenize="13a", references=right),
        "chrF": CHRF(lowercase=True, references=right),
    }
