"""Models from texts to texts trained on the same rows: ours, and Phonetisaurus' for pronunciations."""

import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers.measured_training import measured
from keras_selfattn.data.labelled import LabelledRows


class SequenceRows(NamedTuple):
    """The rows of a set: texts with their right answers.

    test: what is measured, by the name of the part.
    """

    train: LabelledRows
    development: LabelledRows | None
    test: dict[str, LabelledRows]


def ours(rows: SequenceRows, config: dict[str, Any], given: dict[str, Any], seed: int) -> dict[str, float]:
    """Train like `keras-selfattn train --task seq2seq`.

    Args:
        rows: of the set.
        config: fields of the model's config.
        given: fields of the training's config that are not the advised ones.
        seed: of weights, order and dropout.
    """
    from keras_selfattn.cli.shared.backend import import_tensorflow

    import_tensorflow(batches=True)
    from keras_selfattn import models, training

    model = models.SequenceToSequence(config)
    settings = {**model.advised_training(len(rows.train)), **given, "seed": seed}

    def train() -> Any:
        with tempfile.TemporaryDirectory() as output:
            return training.train(
                rows.train,
                f"{output}/run",
                model=model,
                config=training.TrainConfig(**settings),
                validation=rows.development,
                verbose=0,
            )

    run, figures = measured(train)
    figures["best epoch"] = run.best_epoch
    for part, tested in rows.test.items():
        figures |= _figures(part, tested, run.model.predict(tested.inputs, verbose=0))
    return figures


def phonetisaurus(rows: SequenceRows, *_: Any) -> dict[str, float]:
    """Train Phonetisaurus' joint n-gram transducer of graphemes and phonemes, with its defaults.

    Sources are letters between blanks; it has no seed, and reads no development rows.
    """
    import phonetisaurus as peer  # pyright: ignore[reportMissingImports]

    lexicon: dict[str, list[list[str]]] = defaultdict(list)
    for source, answers in zip(rows.train.inputs, rows.train.targets, strict=True):
        lexicon[_joined(source)] += [answer.split() for answer in answers]
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "model.fst")
        _, figures = measured(lambda: peer.train(lexicon, model))
        for part, tested in rows.test.items():
            words = [_joined(source) for source in tested.inputs]
            found = {word: " ".join(phonemes) for word, phonemes in peer.predict(words, model)}
            figures |= _figures(part, tested, [found.get(word, "") for word in words])
    return figures


def _joined(source: str) -> str:
    return "".join(source.split())


def _figures(part: str, rows: LabelledRows, answers: Sequence[str]) -> dict[str, float]:
    """Return the share of right answers, and the errors by symbol between blanks, of a part."""
    from keras_selfattn.metrics.text_answers import edit_rate

    right = [answer in wanted for answer, wanted in zip(answers, rows.targets, strict=True)]
    found = {f"{part} exact": sum(right) / len(right)}
    return found | {f"{part} symbol errors": edit_rate(rows.targets, answers, str.split)}
