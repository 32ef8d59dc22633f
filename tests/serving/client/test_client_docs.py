"""docs/client.md runs, and proves what it says."""

import re
from pathlib import Path

import grpc
import numpy as np
import pytest
import tensorflow as tf
from stock_serving import StockServing, StockSignature

PAGE = Path(__file__).parents[3] / "docs" / "client.md"


def reviews():
    """A classifier as our exports are, always of one mind."""

    def answer(arrays):
        count = len(arrays["text"])
        return {
            "label": np.full(count, b"pos", object),
            "score": np.full(count, 0.98, np.float32),
            "probabilities": np.tile(np.float32([0.02, 0.98]), (count, 1)),
        }

    def classify(arrays):
        names = np.tile(np.array([b"neg", b"pos"], object), (len(arrays["inputs"]), 1))
        return {"classes": names, "scores": np.zeros(names.shape, np.float32)}

    text = (tf.string, (None,))
    outputs = {"label": text, "score": (tf.float32, (None,)), "probabilities": (tf.float32, (None, 2))}
    classes = {"classes": (tf.string, (None, 2)), "scores": (tf.float32, (None, 2))}
    return {
        "serving_default": StockSignature({"text": text}, answer, outputs),
        "classify": StockSignature({"inputs": text}, classify, classes),
    }


def answers():
    """A classifier of pairs that knows when it opens."""

    def answer(arrays):
        yes = np.float32([0.9 if b"nine" in text else 0.1 for text in arrays["text_pair"]])
        label = np.array([b"yes" if each > 0.5 else b"no" for each in yes], object)
        return {"label": label, "score": yes, "probabilities": np.stack([1 - yes, yes], -1)}

    def classify(arrays):
        names = np.tile(np.array([b"no", b"yes"], object), (len(arrays["inputs"]), 1))
        return {"classes": names, "scores": np.zeros(names.shape, np.float32)}

    text, known = (tf.string, (None,)), reviews()
    both = {"text": text, "text_pair": text}
    return {
        "serving_default": StockSignature(both, answer, known["serving_default"].outputs),
        "classify": StockSignature({"inputs": text}, classify, known["classify"].outputs),
    }


def dates():
    """A model that writes one date."""

    def answer(arrays):
        count = len(arrays["text"])
        date, score = np.full(count, b"2021-03-03", object), np.full(count, -0.02, np.float32)
        best = {"text": date, "score": score, "ended": np.ones(count, bool)}
        return best | {"candidates": date[:, None], "candidate_scores": score[:, None]}

    text, candidates = (tf.string, (None,)), (tf.string, (None, 1))
    outputs = {"text": text, "score": (tf.float32, (None,)), "ended": (tf.bool, (None,))}
    outputs |= {"candidates": candidates, "candidate_scores": (tf.float32, (None, 1))}
    settings = {"prefix": text, "length_penalty": (tf.float32, (None,))}
    settings |= dict.fromkeys(("beams", "max_new_tokens"), (tf.int32, (None,)))
    return {
        "serving_default": StockSignature({"text": text}, answer, outputs),
        "generate": StockSignature({"text": text, **settings}, answer, outputs),
    }


def test_the_python_of_the_page_runs(stock_server, capsys):
    targets = [stock_server(StockServing(reviews(), version=number)) for number in (7, 7)]
    others = {"answers": stock_server(StockServing(answers())), "dates": stock_server(StockServing(dates()))}
    names = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        here = code
        for name, target in others.items():
            here = here.replace(f'"localhost:8500", model="{name}"', f'"{target}", model="{name}"')
        here = here.replace("localhost:8500", targets[0]).replace("localhost:8501", targets[1])
        exec(compile(here, "client.md", "exec"), names)
    assert names["labels"] == ["pos", "pos"]
    assert [(row.label, row.score) for row in names["tested"]] == [("pos", 0.75), ("neg", 0.75)]
    assert names["asked"] == ["surprisingly good", "a bore"]
    said = capsys.readouterr().out
    assert "pos 0.98" in said
    assert "1 It opens at nine." in said
    assert "2021-03-03 -0.019999" in said
    assert "True\n['2021-03-03']" in said
    assert "serving_default: (text: string [None])" in said
    assert names["outputs"]["label"].tolist() == ["pos"] * 1000


def rows():
    """The cells of the table of features."""
    table = PAGE.read_text(encoding="utf-8").split("## Beside others")[1].split("## Measured")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ") and "---" not in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_every_row_is_true_and_has_the_test_that_proves_it():
    assert len(rows()) >= 30
    for row in rows():
        assert len(row) == 9, row
        assert row[1].startswith("✓") or row[0].startswith("import"), row
        if "bench" in row[8]:
            continue
        file, test = re.fullmatch(r"`([\w/]+\.py)::(test_\w+)`", row[8]).groups()
        assert f"\ndef {test}(" in (Path(__file__).parents[2] / file).read_text(encoding="utf-8"), row


def test_the_error_of_the_page_is_the_error(stock_server):
    from keras_selfattn.serving.client import Client
    from keras_selfattn.serving.errors import InvalidInputError

    spec = {"x": (tf.float32, (None, 3))}
    target = stock_server(
        StockServing({"serving_default": StockSignature(spec, lambda arrays: arrays, spec)})
    )
    with Client(target, "motion") as client, pytest.raises(InvalidInputError) as caught:
        client.predict([1, 2, 3])
    shown = re.search(r"InvalidInputError: (.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    assert str(caught.value).replace(target, "localhost:8500") == " ".join(shown.split())


def test_the_exit_statuses_of_the_page_are_all_there_are():
    from keras_selfattn.asking import exit_status

    table = PAGE.read_text(encoding="utf-8").split("| exit status |")[1].split("## Beside")[0]
    listed = {int(number) for number in re.findall(r"^\| (\d) \|", table, re.MULTILINE)}
    statuses = {
        value for name, value in vars(exit_status).items() if name.isupper() and isinstance(value, int)
    }
    assert listed == {0, *statuses}


def test_the_deadline_of_the_page_is_the_default():
    import inspect

    from keras_selfattn.serving.client import Client

    assert inspect.signature(Client).parameters["timeout"].default == 10.0
    assert "10 seconds, the client's `timeout=`" in PAGE.read_text(encoding="utf-8")
    assert grpc.StatusCode.UNAVAILABLE.name in PAGE.read_text(encoding="utf-8")
