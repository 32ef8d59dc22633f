"""`benchmarks sound`: spoken digits, of known voices and of voices that nobody has heard in training."""

import hashlib
import statistics
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.ours import tested
from benchmarks.accuracy.own_process import in_own_process
from benchmarks.accuracy.peer import accuracy, timed
from benchmarks.accuracy.served import measure_served
from benchmarks.accuracy.sets import Split
from benchmarks.accuracy.store import Key, Store, fingerprint
from benchmarks.machine import versions
from benchmarks.process import one_thread
from benchmarks.results import Result, Table
from benchmarks.rounds import Settings
from keras_selfattn.data.grouped import GroupedRows
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import DataError
from keras_selfattn.rows.recordings import RECORDINGS, as_recordings
from keras_selfattn.rows.targets import ONE_LABEL

FIGURE = "accuracy"
AUTHORS = "the authors' split"
# Recordings of a digit and a voice whose index is below it are the authors' test rows.
_AUTHORS_TEST = 5
_QUICK = 8  # every so many recordings are read
_NOTES = [
    "Free Spoken Digit Dataset, four voices: mean accuracy over seeds. The authors' split tests 200 "
    "of 2,000 recordings, of voices that are learned; the others hold out all 500 of a voice, and trainings "
    "have the voices as groups (`--group`): all epochs are taken.",
    "The convolutional network has the log-mel frames, their random changes, batches, optimizer, epochs and "
    "about the trained weights of ours. Random kernels are the readout beside our attention, alone. All have "
    "one thread, the defaults of `train`, and the model of the last fit, on all training rows.",
]


def ours(split: Split, seed: int, epochs: int | None) -> dict[str, float]:
    """Train `AudioClassifier` as `train` does, and return its figures on the test rows."""
    from keras_selfattn import models

    return _trained(models.AudioClassifier(), split, seed, epochs, is_served=True)


def convolutional(split: Split, seed: int, epochs: int | None) -> dict[str, float]:
    """Train the convolutional network in the same way."""
    from benchmarks.peers.convolutional_sound import ConvolutionalClassifier

    return _trained(ConvolutionalClassifier({"kernels": 0}), split, seed, epochs)


def random_kernels(split: Split, seed: int, _epochs: int | None) -> dict[str, float]:
    """Fit the readout of random convolutions alone."""
    import keras

    from keras_selfattn import models

    keras.utils.set_random_seed(seed)
    model = models.AudioClassifier()
    _, seconds = timed(lambda: model.adapt(split.train.inputs, split.train.targets))
    readout = keras.Model(model.core.input, model.core.get_layer("readout").output)
    frames = model._features(model.read_inputs(split.test.inputs))
    logits = np.concatenate([np.asarray(readout(row[None])) for row in frames])
    found = np.array(model.labels)[logits.argmax(axis=1)].tolist()
    return {FIGURE: accuracy(split.test.targets, found), "cpu s": seconds[1], "seconds": seconds[0]}


CONTESTANTS: dict[str, Callable[..., dict[str, float]]] = {
    "ours": ours,
    "convolutional network": convolutional,
    "random kernels": random_kernels,
}


def run(settings: Settings, data: Path, seeds: int, epochs: int | None, store: Store | None = None) -> Table:
    """Return the accuracy of each contestant on each split.

    Args:
        settings: of the measurement.
        data: the folder of the set, with its `recordings.zip`.
        seeds: trainings of each contestant.
        epochs: at most; None for those of `train`.
        store: the known results, which are not measured again; new ones are added.
    """
    results = []
    for name, split in _splits(data, settings.quick):
        for contestant in CONTESTANTS:
            if not settings.chosen(name, contestant):
                continue
            found = []
            for seed in range(1 if settings.quick else seeds):
                settings.progress(f"{name}, seed {seed}: {contestant}")
                found.append(_figures(name, contestant, split, seed, epochs, store))
            means = {figure: statistics.mean(each[figure] for each in found) for figure in found[0]}
            least, most = (pick(each[FIGURE] for each in found) for pick in (min, max))
            note = f"{least:.1%} to {most:.1%}" if len(found) > 1 else ""
            results.append(Result(name, contestant, means, note))
    return Table(results, list(_NOTES))


def _figures(
    name: str, contestant: str, split: Split, seed: int, epochs: int | None, store: Store | None
) -> dict[str, float]:
    by_voice = {"by_voice": True} if isinstance(split.train, GroupedRows) else {}
    configuration = fingerprint(epochs=epochs, data=_digest(split), versions=versions(), **by_voice)
    key = Key(name, contestant, seed, 0, configuration)
    if store is not None and (known := store.get(key)) is not None:
        return known["figures"]
    with one_thread():
        figures = in_own_process(CONTESTANTS[contestant], split, seed, epochs)
    if store is not None:
        store.add(key, {"figures": figures})
    return figures


def _digest(split: Split) -> str:
    """Return a digest of recordings and labels."""
    found = hashlib.sha256()
    for part in (split.train, split.test):
        for row, label in zip(part.inputs, part.targets, strict=True):
            found.update(f"{label} {row.rate} {len(row.samples)}".encode())
            found.update(np.ascontiguousarray(row.samples).tobytes())
    return found.hexdigest()[:16]


def _trained(
    model: Any, split: Split, seed: int, epochs: int | None, *, is_served: bool = False
) -> dict[str, float]:
    from keras_selfattn import training

    advised = model.advised_training(len(split.train))
    given = advised if epochs is None else {**advised, "epochs": min(epochs, advised["epochs"])}
    config = training.TrainConfig(**given, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        trained, seconds = timed(
            lambda: training.train(split.train, f"{folder}/run", model=model, config=config, verbose=0)
        )
    weights = float(sum(np.prod(each.shape) for each in trained.model.core.trainable_weights))
    found = {FIGURE: tested(trained.model, split)["accuracy"], "trained weights": weights}
    found |= {"cpu s": seconds[1], "seconds": seconds[0]}
    if is_served:
        found["cpu ms of one"] = measure_served(trained.model, split.test.inputs)["cpu ms of one"]
    return found


def _splits(data: Path, quick: bool) -> Iterator[tuple[str, Split]]:
    """Yield the authors' split, then one without each voice."""
    digits, voices, numbers, contents = zip(*_recordings(data), strict=True)
    recordings = as_recordings(list(contents))
    chosen = range(0, len(recordings), _QUICK if quick else 1)

    def rows(places: list[int], *, by_voice: bool) -> LabelledRows:
        inputs, targets = [recordings[place] for place in places], [digits[place] for place in places]
        kinds: dict[str, Any] = {"kind": RECORDINGS, "target_kind": ONE_LABEL}
        if not by_voice:
            return LabelledRows(inputs, targets, str(data), **kinds)
        groups = [voices[place] for place in places]
        return GroupedRows(inputs, targets, str(data), groups=groups, group="voice", **kinds)

    held_out: dict[str, Callable[[int], bool]] = {AUTHORS: lambda place: numbers[place] < _AUTHORS_TEST}
    for voice in sorted(set(voices)):
        held_out[f"without the voice of {voice}"] = lambda place, voice=voice: voices[place] == voice
    for name, is_test in held_out.items():
        train = [place for place in chosen if not is_test(place)]
        test = [place for place in chosen if is_test(place)]
        by_voice = name != AUTHORS
        yield name, Split(rows(train, by_voice=by_voice), None, rows(test, by_voice=by_voice))


def _recordings(data: Path) -> list[tuple[str, str, int, bytes]]:
    """Return digit, voice, index and content of each recording, in the order of their names."""
    file = data / "recordings.zip"
    try:
        with zipfile.ZipFile(file) as archive:
            found = {name: archive.read(name) for name in sorted(archive.namelist()) if name.endswith(".wav")}
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{file} cannot be read: {error}.") from error
    if not found:
        raise DataError(f"{file} has no .wav files, named DIGIT_VOICE_INDEX.wav.")
    parts = {name: Path(name).stem.split("_") for name in found}
    return [(digit, voice, int(index), found[name]) for name, (digit, voice, index) in parts.items()]
