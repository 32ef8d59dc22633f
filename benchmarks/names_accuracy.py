"""How many held-out names are given to the right language: the quickstart's model beside its peers.

    python benchmarks/names_accuracy.py [--seed 0]

All see the same split of the names. Peers: a linear SVM on TF-IDF of character 1- to 4-grams, and py3langid,
a language identifier that is not trained on names, restricted to the same languages (the extra `bench`;
skipped where it is not installed). Printed are accuracy and seconds of training.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from keras_selfattn import training
from keras_selfattn.cli.quickstart import BATCH_SIZE, EPOCHS, HELD_OUT, MODEL_SETTINGS, names_table
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.data.names import LANGUAGES, load_names, split_by_thing
from keras_selfattn.models import TextClassifier, TextConfig

Peer = Callable[[LabelledRows, LabelledRows, LabelledRows, int], Sequence[float] | None]


def ours(rows: LabelledRows, validation: LabelledRows, test: LabelledRows, seed: int) -> Sequence[float]:
    """Accuracy and seconds of the quickstart's model."""
    with tempfile.TemporaryDirectory() as folder:
        run = training.train(
            rows,
            f"{folder}/run",
            model=TextClassifier(TextConfig(**MODEL_SETTINGS)),
            config=training.TrainConfig(epochs=EPOCHS, batch_size=BATCH_SIZE, seed=seed),
            validation=validation,
            test=test,
            verbose=0,
        )
    return run.figures.summary()["accuracy"], run.seconds


def linear(rows: LabelledRows, validation: LabelledRows, test: LabelledRows, seed: int) -> Sequence[float]:
    """Accuracy and seconds of a linear SVM, which needs no validation rows and trains on them too."""
    started = time.perf_counter()
    features = TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 4), sublinear_tf=True, lowercase=False)
    model = make_pipeline(features, LinearSVC(random_state=seed))
    model.fit([*rows.inputs, *validation.inputs], [*rows.targets, *validation.targets])
    seconds = time.perf_counter() - started
    return float(accuracy_score(test.targets, model.predict(test.inputs))), seconds


def identifier(
    rows: LabelledRows, validation: LabelledRows, test: LabelledRows, seed: int
) -> Sequence[float] | None:
    """Accuracy of py3langid, or None where it is not installed."""
    try:
        import py3langid  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    theirs = {"nb": "no"}  # its name for Norwegian Bokmål
    py3langid.set_languages([theirs.get(language, language) for language in LANGUAGES])
    found = [py3langid.classify(text)[0] for text in test.inputs]
    return float(accuracy_score([theirs.get(label, label) for label in test.targets], found)), 0.0


def main() -> None:
    """Trains each in turn and prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="of split and weights")
    seed = parser.parse_args().seed
    names = load_names()
    kept, held_out = split_by_thing(names, HELD_OUT, seed)
    rows, validation = (names_table(part) for part in split_by_thing(kept, HELD_OUT, seed + 1))
    test = names_table(held_out)
    print(f"{len(names):,} names, {len(LANGUAGES)} languages, {len(test):,} held out by what they name")
    print(f"{'':44}{'accuracy':>10}{'training s':>12}")
    peers: dict[str, Peer] = {
        "linear SVM, character 1-4-grams": linear,
        "py3langid, restricted to the languages": identifier,
        "keras-selfattn quickstart": ours,
    }
    for name, peer in peers.items():
        figures = peer(rows, validation, test, seed)
        shown = f"{figures[0]:10.1%}{figures[1]:12.0f}" if figures else "   skipped: not installed"
        print(f"{name:44}{shown}", flush=True)


if __name__ == "__main__":
    main()
