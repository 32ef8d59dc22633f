"""The SavedModel of a token classifier answers as the model does, and is asked with rows of any length."""

import dataclasses
import json
import subprocess
import sys
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

from keras_selfattn import models
from keras_selfattn.cli.main import main
from keras_selfattn.export import check, export_saved_model
from keras_selfattn.export.contract import contract_for
from keras_selfattn.export.precision import at_precision
from keras_selfattn.export.signatures.trial_requests import TEXTS
from keras_selfattn.export.trial import IN_FULL, IN_HALF, live_answers
from keras_selfattn.models.tokens.span_labels import all_may_follow
from keras_selfattn.rows.span_schemes import SpanScheme
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig

ROWS = [["Ada", "wrote", "it"], ["yes"], [], ["☃", "\x00", "Größe", "3.14", "x" * 10_000], ["it"] * 700]

RELOAD = """
import json, sys
sys.modules["keras"] = None
import tensorflow as tf
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
answers = serve(tokens=tf.constant(json.loads(sys.argv[2])))
print(json.dumps({"probabilities": answers["probabilities"].numpy().tolist(),
                  "label": [[label.decode() for label in row] for row in answers["label"].numpy()],
                  "score": answers["score"].numpy().tolist()}))
"""


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    config = models.TokenConfig(width=12, num_layers=2, num_heads=3, hash_buckets=64)
    made = models.TokenClassifier(config)
    made.compile(keras.optimizers.Adam(0.02))
    rows = [["Ada", "wrote", "it"], ["she", "saw", "Berlin"], ["yes"], ["it", "is", "Ada"]] * 8
    made.fit(rows, [["N", "V", "P"], ["P", "V", "N"], ["ü"], ["P", "V", "N"]] * 8, epochs=6, verbose=0)
    return made


@pytest.fixture(scope="module")
def version(model, tmp_path_factory):
    return export_saved_model(model, tmp_path_factory.mktemp("base") / "tagger")


@pytest.fixture(scope="module")
def signatures(version):
    loaded = tf.saved_model.load(str(version))
    yield loaded.signatures  # noqa: PT022  they die with `loaded`


def padded(rows):
    longest = max(map(len, rows))
    return [row + [""] * (longest - len(row)) for row in rows]


@pytest.mark.process
def test_a_fresh_process_without_keras_answers_as_the_model_does(model, version):
    command = [sys.executable, "-c", RELOAD, str(version), json.dumps(padded(ROWS))]
    answer = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=120).stdout)
    for place, (row, wanted) in enumerate(zip(ROWS, model.predict(ROWS, verbose=0), strict=True)):
        count = len(row)
        found = np.reshape(answer["probabilities"][place][:count], wanted.shape)
        np.testing.assert_allclose(found, wanted, atol=1e-5)
        assert answer["label"][place][:count] == [model.labels[index] for index in wanted.argmax(-1)]
        np.testing.assert_allclose(answer["score"][place][:count], wanted.max(-1), atol=1e-5)
        assert set(answer["label"][place][count:]) <= {""}, "padding has no label"
        assert not np.any(answer["probabilities"][place][count:])
        assert not np.any(answer["score"][place][count:])


@pytest.mark.process
def test_the_signatures_have_names_dtypes_and_open_shapes(signatures):
    specs = signatures["serving_default"].structured_outputs
    assert {name: (spec.dtype.name, spec.shape.as_list()) for name, spec in specs.items()} == {
        "probabilities": ("float32", [None, None, 4]),
        "label": ("string", [None, None]),
        "score": ("float32", [None, None]),
    }
    specs = signatures["spans"].structured_outputs
    assert {name: (spec.dtype.name, spec.shape.as_list()) for name, spec in specs.items()} == {
        "label": ("string", [None, None]),
        "start": ("int32", [None, None]),
        "end": ("int32", [None, None]),
        "score": ("float32", [None, None]),
        "count": ("int32", [None]),
    }
    assert set(signatures) == {"serving_default", "spans", "explain"}


@pytest.mark.process
@pytest.mark.parametrize(
    "tokens", [np.empty((0, 3), "O"), np.empty((2, 0), "O"), [[b"\xff\xfe", b"a"]], [["", "a", ""]]]
)
def test_no_rows_no_tokens_and_bytes_that_are_no_utf8_are_answered(signatures, tokens):
    tokens = tf.constant(tokens, tf.string)
    answer = signatures["serving_default"](tokens=tokens)
    assert answer["label"].shape == tokens.shape
    np.testing.assert_array_equal(answer["label"] != "", tokens != "")
    assert np.isfinite(answer["probabilities"]).all()


RAW = [
    "Ada wrote it.",
    "",
    " \r\n\t",
    "\r\n😀Ada👩\u200d🚒 saw\r\nBerlin, 東京都 and ภาษา e\u0301!",
    "it is " * 300,
    b"\xffAda\xe6\x9d \xed\xa0\x80it",
]


def spans_in(signature, texts):
    """Spans of each text as a SavedModel answers them, checked to be padded with "" and zeros."""
    answer = {name: value.numpy() for name, value in signature(text=tf.constant(texts, tf.string)).items()}
    counts = answer.pop("count").tolist()
    assert {value.shape for value in answer.values()} == {(len(texts), max(counts, default=0))}
    for row, count in enumerate(counts):
        assert not any(value[row, count:].astype(bool).any() for value in answer.values())
    columns = [answer[name] for name in ("label", "start", "end", "score")]
    rows = [
        zip(*(column[row, :count].tolist() for column in columns), strict=True)
        for row, count in enumerate(counts)
    ]
    return [[(label.decode(), *rest) for label, *rest in row] for row in rows]


def check_spans(model, signature):
    """A SavedModel finds what the model finds, in each text alone and beside others."""
    wanted = model.spans(RAW)
    assert sum(map(len, wanted)) > 20, "else this would show little"
    for raw in (RAW, RAW[::-1], *([text] for text in RAW), [], [""]):
        for text, found in zip(raw, spans_in(signature, raw), strict=True):
            expected = wanted[RAW.index(text)]
            assert [span[:3] for span in found] == [(each.label, each.start, each.end) for each in expected]
            np.testing.assert_allclose(
                [span[3] for span in found], [each.score for each in expected], atol=1e-5
            )
            decoded = text.decode(errors="replace") if isinstance(text, bytes) else text
            assert [decoded[start:end] for _, start, end, _ in found] == [each.text for each in expected]


@pytest.mark.process
def test_equal_neighbours_of_labels_without_marks_are_a_span_of_a_raw_text(model, signatures):
    check_spans(model, signatures["spans"])


@pytest.mark.process
def test_explain_answers_for_the_first_512_tokens(signatures):
    weights = signatures["explain"](tokens=tf.constant([["a", "b", "", ""]]))["weights"].numpy()
    assert weights.shape == (1, 2, 3, 4, 4)
    np.testing.assert_allclose(weights[0, :, :, :2, :2].sum(-1), 1, atol=1e-5)
    assert signatures["explain"](tokens=tf.constant([["a"] * 600]))["weights"].shape == (1, 2, 3, 512, 512)


@pytest.mark.process
def test_the_card_says_what_it_does(model, version):
    card = json.loads((version / "assets.extra" / "model_card.json").read_text())
    assert (card["task"], card["labels"]) == ("token-labelling", model.labels)
    assert card["vocabulary_size"] == model.tokenizer.size
    assert card["config"] == model.config.to_dict()
    assert card["signatures"]["spans"]["note"] == "Raw texts are split as the training rows were."
    assert "spans: Raw texts are split as" in CliRunner().invoke(main, ["inspect", str(version)]).output


@pytest.mark.process
@pytest.mark.usefixtures("unchecked")
def test_bfloat16_and_int8_weights_answer_nearly_as_the_model_does(model, tmp_path):
    for precision in ("bfloat16", "int8-weights"):
        path = export_saved_model(model, tmp_path / precision, precision=precision)
        serve = tf.saved_model.load(str(path)).signatures["serving_default"]
        found = serve(tokens=tf.constant(padded(ROWS[:2])))["probabilities"].numpy()
        for row, wanted in zip(found, model.predict(ROWS[:2], verbose=0), strict=True):
            np.testing.assert_allclose(row[: len(wanted)], wanted, atol=0.1)


@pytest.mark.process
@pytest.mark.parametrize(
    ("labels", "separator", "rule"),
    [("B-A I-A B-B I-B O", "-", "IOB2"), ("B_A I_A L_A B_B L_B O", "_", "IOBES")],
)
def test_labels_that_mark_spans_are_chosen_together_in_the_graph_as_in_the_model(
    tmp_path, unchecked, labels, separator, rule
):
    keras.utils.set_random_seed(0)
    tagger = models.TokenClassifier(models.TokenConfig(width=12, num_layers=1, num_heads=3, hash_buckets=64))
    tagger.adapt([["a"] * len(labels.split())], [labels.split()])
    rows = [["it", "is", "Ada", "x"], ["yes"], [], [f"word {place}" for place in range(40)]]
    chosen = tagger.label(rows)
    found = tagger.predict(rows, verbose=0)
    likeliest = [[tagger.labels[place] for place in row.argmax(-1)] for row in found]
    assert all_may_follow(chosen, SpanScheme(separator), rule)
    assert not all_may_follow(likeliest, SpanScheme(separator), rule), "else this would show nothing"
    loaded = tf.saved_model.load(str(export_saved_model(tagger, tmp_path / "spans")))
    serve = loaded.signatures["serving_default"]
    answer = {name: found.numpy() for name, found in serve(tokens=tf.constant(padded(rows))).items()}
    for place, wanted in enumerate(chosen):
        count = len(wanted)
        assert [label.decode() for label in answer["label"][place][:count]] == wanted
        places = [tagger.labels.index(name) for name in wanted]
        of_labels = answer["probabilities"][place, range(count), places]
        np.testing.assert_array_equal(answer["score"][place][:count], of_labels)
    check_spans(tagger, loaded.signatures["spans"])
    tagger.save(tmp_path / "model.keras")
    assert models.load(tmp_path / "model.keras").label(rows) == chosen


@pytest.mark.process
@pytest.mark.parametrize("tolerance", [IN_FULL, IN_HALF])
def test_trials_of_a_model_that_finds_few_spans_show_their_places(few_spans, tolerance):
    """Places that count bytes, or are off by one, are refused: neither common nor made-up words are spans."""
    assert not any(len(spans) for spans in few_spans.model.spans(list(TEXTS)))
    for name, by in (("start", 0), ("start", 1), ("start", 2), ("end", 1), ("end", 2)):
        reasons = []
        for case in few_spans.cases:
            off = np.where(case.outputs["end"] > 0, case.outputs[name] + by, 0)
            known = {"signature": "spans", "inputs": {}, "outputs": case.outputs, "tolerance": tolerance}
            run = lambda *_, found={**case.outputs, name: off}: found  # noqa: E731
            reasons.append(check.wrong({**known, "margins": case.margins}, run, run))
        assert reasons[-1] == (f"{name} differs from the model's" if by else None)


@pytest.fixture(scope="module")
def few_spans():
    """A model whose commonest words are no names, and the cases of the check of its spans."""
    keras.utils.set_random_seed(0)
    tagger = models.TokenClassifier(models.TokenConfig(width=12, num_layers=1, num_heads=3, hash_buckets=64))
    tagger.compile(keras.optimizers.Adam(0.03))
    names = [f"Name{n}" for n in range(6)]
    words = [f"{chr(97 + n)}{n}" for n in range(24)] * 4 + names * 3
    labels = [["B-PER" if word in names else "O"] for word in words]
    tagger.fit([[word] for word in words], labels, epochs=9, verbose=0)
    contract = contract_for(*at_precision(tagger, None))
    only = {"spans": contract.signatures["spans"]}
    return SimpleNamespace(model=tagger, cases=live_answers(dataclasses.replace(contract, signatures=only)))


@pytest.mark.slow
def test_a_card_tells_that_no_span_was_compared(few_spans):
    """A model without spans says so; a row of the training that has some is asked in its place."""
    tagger = models.TokenClassifier(models.TokenConfig(width=4, num_layers=1, num_heads=1, hash_buckets=16))
    tagger.adapt([["a", "b"], ["c", "d"]], [["B-PER", "O"], ["O", "O"]])
    head = next(layer for layer in reversed(tagger.core.layers) if len(layer.get_weights()) == 2)
    outside = [weight * 0 for weight in head.get_weights()]
    outside[-1][tagger.labels.index("O")] = 9
    head.set_weights(outside)
    note = contract_for(*at_precision(tagger, None)).signatures["spans"].note
    assert "finds no span in the texts that the check of this export asked" in note
    assert "no span" not in contract_for(*at_precision(few_spans.model, None)).signatures["spans"].note


@pytest.fixture(scope="module")
def server(version):
    with Server(ServerConfig("tagger", str(version.parent), port=0)) as running:
        yield running


@pytest.mark.process
def test_the_client_takes_rows_of_different_lengths_and_answers_each_in_its_own(model, server):
    with Client(server.target, model="tagger", timeout=60) as client:
        client.wait_until_ready(60)
        answers = client.label(ROWS)
        for container in (tuple(map(tuple, ROWS)), {"tokens": ROWS}):
            assert [answer.labels for answer in client.label(container)] == [each.labels for each in answers]
        assert client.label([]) == []
        assert client.label([[], []])[1].labels == []
    for answer, wanted in zip(answers, model.predict(ROWS, verbose=0), strict=True):
        assert answer.labels == [model.labels[index] for index in wanted.argmax(-1)]
        np.testing.assert_allclose(answer.scores, wanted.max(-1), atol=1e-5)


@pytest.mark.process
def test_the_client_finds_the_spans_of_raw_texts(model, server):
    with Client(server.target, model="tagger", timeout=60, max_batch_size=2) as client:
        found = client.spans(RAW)
    for spans, wanted in zip(found, model.spans(RAW), strict=True):
        assert [dataclasses.replace(each, score=0) for each in spans] == [
            dataclasses.replace(each, score=0) for each in wanted
        ]


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.jsonl", '{"tokens": ["Ada", "wrote", "it"], "id": 7}\n{"tokens": ["yes"], "id": 8}\n'),
        ("rows.csv", 'tokens,id\nAda wrote it,7\n"[""yes""]",8\n'),
    ],
)
def test_query_reads_rows_of_tokens_from_a_file(server, tmp_path, name, content):
    (tmp_path / name).write_text(content)
    asked = ["query", "tagger", "--target", server.target, "--file", str(tmp_path / name), "--format", "json"]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 0, done.output
    first, second = map(json.loads, done.stdout.splitlines())
    assert (str(first["id"]), first["label"]) == ("7", ["N", "V", "P"])
    assert (second["label"], len(second["score"])) == (["ü"], 1), "without the padding that it was sent with"


@pytest.mark.process
def test_query_takes_tokens_between_blanks(server):
    asked = ["query", "tagger", "it is  Ada", "--target", server.target, "--format", "json"]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["label"] == ["P", "V", "N"]


@pytest.mark.process
def test_query_refuses_what_is_no_row_of_tokens(server, tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"tokens": ["a", null]}\n')
    asked = ["query", "tagger", "--target", server.target, "--file", str(tmp_path / "rows.jsonl")]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code != 0
    assert "line 1: the tokens hold None, which is not a string" in str(done.exception) + done.output
