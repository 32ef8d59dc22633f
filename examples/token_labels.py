"""Learns to mark persons, places, dates and amounts in sentences, and asks the served model about new ones.

    python examples/token_labels.py [--output token-labels]

The sentences are made up from templates. No name of a person or place occurs both in training and in the
test, so what the model finds there it finds by spelling and by what stands around.
"""

import argparse
import random
from collections.abc import Sequence
from pathlib import Path

from keras_selfattn import training
from keras_selfattn.data import LabelledRows
from keras_selfattn.export import export_saved_model
from keras_selfattn.models import TokenClassifier, TokenConfig
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig

TEMPLATES = (
    "PERSON paid AMOUNT to PERSON on DATE",
    "On DATE PERSON moved from PLACE to PLACE",
    "The rent in PLACE rose to AMOUNT last year",
    "PERSON , who lives in PLACE , owes us AMOUNT",
    "Nobody in PLACE has heard of PERSON since DATE",
    "Please send AMOUNT before DATE , PERSON wrote",
    "We met in PLACE on DATE and talked about the weather",
    "PERSON and PERSON left",
)
FIRST = ("Maria", "Alrik", "Rosa", "Jonas", "Elin", "Karim", "Selma", "Viktor", "Tilda", "Bert")
# Endings of families and towns; for the last two, only the sentence shows which it is.
FAMILY = ("sson", "mann", "ova", "escu", "berg", "ford")
TOWN = ("burg", "ville", "stadt", "minster", "berg", "ford")
MONTHS = ("January", "March", "April", "June", "July", "August", "October", "December")
SYLLABLES = ("ka", "lo", "mi", "ter", "sa", "vin", "ro", "del", "bu", "nor", "pe", "ga")


def made_up(count: int, seed: int, held_out: bool) -> LabelledRows:
    """Return sentences as rows of tokens with BIO labels; held-out sentences have names of their own."""
    draw = random.Random(seed)
    rows, targets = [], []
    for _ in range(count):
        tokens, labels = [], []
        for word in draw.choice(TEMPLATES).split():
            found = _filled(word, draw, held_out)
            tokens += found
            kind = word if word.isupper() else ""
            labels += [f"{'I' if place else 'B'}-{kind}" if kind else "O" for place in range(len(found))]
        rows.append(tokens)
        targets.append(labels)
    return LabelledRows(rows, targets, "made up")


def _filled(word: str, draw: random.Random, held_out: bool) -> list[str]:
    """Return the tokens that a template's word stands for."""
    if word == "PERSON":
        first = [draw.choice(FIRST)] if draw.random() < 0.6 else []
        return [*first, _name(draw, held_out) + draw.choice(FAMILY)]
    if word == "PLACE":
        return [*(["New"] if draw.random() < 0.2 else []), _name(draw, held_out) + draw.choice(TOWN)]
    if word == "DATE":
        day, year = str(draw.randint(1, 28)), str(draw.randint(1950, 2030))
        return [day, draw.choice(MONTHS), year] if draw.random() < 0.5 else [f"{year}-0{day[-1]}-{day:0>2}"]
    if word == "AMOUNT":
        number = f"{draw.randint(1, 90)},{draw.randint(100, 999)}.{draw.randint(10, 99)}"
        return ["$", number] if draw.random() < 0.5 else [number, "euros"]
    return [word]


def _name(draw: random.Random, held_out: bool) -> str:
    """Return the beginning of a name: an odd number of letters if held out, otherwise an even number."""
    while True:
        name = "".join(draw.choices(SYLLABLES, k=draw.randint(1, 3))).capitalize()
        if len(name) % 2 == held_out:
            return name


def run(folder: Path, sentences: int = 800, epochs: int = 8) -> float:
    """Train, measure, export, serve and send requests; return the F1 of the test's spans."""
    train, validation = made_up(sentences, 0, False), made_up(sentences // 8, 1, False)
    test = made_up(300, 2, True)
    done = training.train(
        train,
        folder / "run",
        model=TokenClassifier(TokenConfig(width=64)),
        config=training.TrainConfig(epochs=epochs, batch_size=32, learning_rate=3e-3),
        validation=validation,
        test=test,
        overwrite=True,
        verbose=0,
    )
    figures = done.figures.summary()
    print(f"On {len(test)} sentences with names never seen, after {done.seconds:.0f} s of training:")
    print(f"  accuracy of tokens {figures['accuracy']:.1%}, F1 of spans {figures['span_f1']:.3f}")
    export_saved_model(done.model, folder / "models")
    with (
        Server(ServerConfig("names", str(folder / "models"), port=0)) as server,
        Client(server.target, model="names", timeout=60) as client,
    ):
        client.wait_until_ready(60)
        for tokens, answer in zip(test.inputs[:5], client.label(test.inputs[:5]), strict=True):
            print(" ", _marked(tokens, answer.labels))
    return figures["span_f1"]


def _marked(tokens: Sequence[str], labels: Sequence[str]) -> str:
    """Return a sentence with its spans in brackets."""
    found = ""
    for token, label, after in zip(tokens, labels, [*labels[1:], "O"], strict=True):
        begin = "[" if label.startswith("B-") else ""
        end = f" {label[2:]}]" if label != "O" and not after.startswith("I-") else ""
        found += f"{begin}{token}{end} "
    return found.rstrip()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("token-labels"), help="folder to write to")
    run(parser.parse_args().output)
