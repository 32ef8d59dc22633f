"""Accuracy on names and sentences of 50 languages: the quickstart's model beside its peers.

    python benchmarks/languages_accuracy.py [--seed 0] [--sentences FILE ...] [--per-language 200]

All answer the same rows: the held-out names, each of a thing that training names in no language, and the
sentences of every file, none of which was in training. Each line of a file has a language, a tab and a
sentence; without a file, the test file of the eld package, of 60 languages, is used. Peers: a linear SVM on
TF-IDF of character 1- to 4-grams, on the same training rows; and py3langid, an identifier that is already
trained, restricted to the same languages. eld and py3langid come with the extra `bench`, and are skipped if
they are not installed. It prints seconds of training and accuracies; for sentences the mean over the
languages, and the worst languages.
"""

import argparse
import os
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from keras_selfattn import training
from keras_selfattn.cli.quickstart import BATCH_SIZE, EPOCHS, LEARNING_RATE, MODEL_SETTINGS
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.data.quickstart.languages import LanguageRows, language_rows, names_table
from keras_selfattn.data.quickstart.multilingual_names import LANGUAGES
from keras_selfattn.models import TextClassifier, TextConfig

# Returns the language of each text.
Identifier = Callable[[Sequence[str]], Sequence[str]]
# The peers' name for Norwegian Bokmål.
_THEIRS = {"nb": "no"}
_OURS = {theirs: ours for ours, theirs in _THEIRS.items()}
_WORST = 5  # languages shown


def ours(rows: LanguageRows, seed: int) -> Identifier:
    """Train the quickstart's model."""
    with tempfile.TemporaryDirectory() as folder:
        run = training.train(
            rows.train,
            f"{folder}/run",
            model=TextClassifier(TextConfig(**MODEL_SETTINGS)),
            config=training.TrainConfig(
                epochs=EPOCHS, batch_size=BATCH_SIZE, learning_rate=LEARNING_RATE, seed=seed
            ),
            validation=rows.validation,
            test=names_table(rows.held_out),
            verbose=0,
        )

    def identify(texts: Sequence[str]) -> Sequence[str]:
        best = run.model.predict(list(texts), batch_size=256, verbose=0).argmax(axis=1)
        return [run.model.labels[index] for index in best]

    return identify


def linear(rows: LanguageRows, seed: int) -> Identifier:
    """Train a linear SVM, which needs no validation rows and learns from them too."""
    features = TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 4), sublinear_tf=True, lowercase=False)
    model = make_pipeline(features, LinearSVC(random_state=seed))
    model.fit([*rows.train.inputs, *rows.validation.inputs], [*rows.train.targets, *rows.validation.targets])
    return lambda texts: model.predict(list(texts)).tolist()


def identifier(rows: LanguageRows, seed: int) -> Identifier | None:
    """Return py3langid, or None if it is not installed."""
    try:
        import py3langid  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    py3langid.set_languages([_THEIRS.get(language, language) for language in LANGUAGES])

    def identify(texts: Sequence[str]) -> Sequence[str]:
        answers = [str(py3langid.classify(text)[0]) for text in texts]
        return [_OURS.get(answer, answer) for answer in answers]

    return identify


def sentences(path: Path, per_language: int) -> LabelledRows:
    """Return at most `per_language` sentences of each of the fifty languages, drawn from a file."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        language, _, text = line.partition("\t")
        if text and _OURS.get(language, language) in LANGUAGES:
            found[_OURS.get(language, language)].append(text)
    draw = random.Random(0)
    drawn = {name: draw.sample(texts, min(per_language, len(texts))) for name, texts in sorted(found.items())}
    targets = [name for name, texts in drawn.items() for _ in texts]
    return LabelledRows([text for texts in drawn.values() for text in texts], targets, path.name)


def eld_sentences() -> list[Path]:
    """Return the test file of the eld package, if it is installed; importing it would load a model."""
    package = find_spec("eld")
    roots = (package and package.submodule_search_locations) or []
    return [path for root in roots if (path := Path(root) / "tests" / "data" / "big-test.txt").is_file()]


def described(identify: Identifier, rows: LabelledRows) -> str:
    """Return the mean of the languages' accuracies, and the lowest of them."""
    right: defaultdict[str, list[bool]] = defaultdict(list)
    for answer, target in zip(identify(rows.inputs), rows.targets, strict=True):
        right[target].append(answer == target)
    shares = sorted((float(np.mean(each)), name) for name, each in right.items())
    worst = ", ".join(f"{name} {share:.0%}" for share, name in shares[:_WORST])
    return f"{np.mean([share for share, _ in shares]):6.1%}  ({worst})"


def main() -> None:
    """Train each in turn, and print its accuracies."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="of split and weights")
    parser.add_argument("--sentences", type=Path, nargs="*", help="files of language, tab, sentence")
    parser.add_argument("--per-language", type=int, default=200, help="sentences of a language, at most")
    arguments = parser.parse_args()
    rows = language_rows(seed=arguments.seed)
    names = names_table(rows.held_out)
    files = eld_sentences() if arguments.sentences is None else arguments.sentences
    asked = [sentences(path, arguments.per_language) for path in files]
    print(f"{len(rows.train):,} rows of training, {len(names):,} held-out names")
    for each in asked:
        print(f"{each.source}: {len(each):,} sentences in {len(set(each.targets))} languages")
    peers = {
        "linear SVM, character 1-4-grams": linear,
        "py3langid, restricted to the languages": identifier,
        "keras-selfattn quickstart": ours,
    }
    for name, peer in peers.items():
        started = time.perf_counter()
        identify = peer(rows, arguments.seed)
        seconds = time.perf_counter() - started
        if identify is None:
            print(f"{name}: skipped, not installed")
            continue
        right = np.mean([a == b for a, b in zip(identify(names.inputs), names.targets, strict=True)])
        print(f"{name}: ready after {seconds:.0f} s; names {right:.1%}", flush=True)
        for each in asked:
            print(f"    {each.source:20}{described(identify, each)}", flush=True)


if __name__ == "__main__":
    main()
