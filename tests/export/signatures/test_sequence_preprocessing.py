"""The graph of a model that writes texts: the answers of `generate`, alone and in any batch."""

import sys
import unicodedata
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from small_writer import ASKED, asked, made, signature_of

from keras_selfattn import export
from keras_selfattn.errors import ExportError
from keras_selfattn.export.contract import contract_for
from keras_selfattn.export.saved_weights import NarrowWeights, Weights
from keras_selfattn.export.signatures import sequence_graphs, sequence_preprocessing
from keras_selfattn.export.signatures.raw_models import raw_front
from keras_selfattn.export.signatures.sequence_margins import WatchedSearch, _gaps
from keras_selfattn.models.sequences.search import SearchSettings
from keras_selfattn.models.sequences.symbols import BEGIN, END

OUTPUTS = {"text", "score", "ended", "candidates", "candidate_scores"}


@pytest.fixture(scope="module", params=[1, 4])
def model(request):
    return made(request.param)


@pytest.fixture(scope="module")
def graphs(model):
    return contract_for(model, Weights(model)).signatures


def row_of(answer, row):
    return {name: value.tolist()[row] for name, value in answer.items()}


@pytest.mark.slow
def test_the_graph_gives_the_answers_of_generate(model, graphs):
    answer = asked(graphs["serving_default"], text=ASKED)
    assert set(answer) == OUTPUTS
    wanted = model.generate(ASKED)
    beams = model.config.beams
    assert answer["candidates"].shape == answer["candidate_scores"].shape == (len(ASKED), beams)
    for row, each in enumerate(wanted):
        assert answer["text"][row].decode() == each.text
        assert answer["ended"][row] == each.ended
        np.testing.assert_allclose(answer["score"][row], each.score, atol=1e-5)
        there = answer["candidate_scores"][row] > -np.inf
        assert [text.decode() for text in answer["candidates"][row][there]] == list(each.candidates)
        np.testing.assert_allclose(answer["candidate_scores"][row][there], each.candidate_scores, atol=1e-5)
    assert {each.ended for each in wanted} == {True, False}


@pytest.mark.slow
def test_a_row_has_the_same_answer_alone_in_any_order_and_in_groups(model, graphs, monkeypatch):
    serve = graphs["serving_default"]
    together = asked(serve, text=ASKED)
    alone = [asked(serve, text=[text]) for text in ASKED]
    back = asked(serve, text=ASKED[::-1])
    monkeypatch.setattr(sequence_preprocessing, "_BYTES", 1)
    one_by_one = asked(signature_of(model), text=ASKED)
    monkeypatch.undo()
    monkeypatch.setattr(sequence_graphs, "_PADDING", -1000)
    by_length = asked(signature_of(model), text=ASKED)
    for row in range(len(ASKED)):
        wanted = row_of(together, row)
        others = [(alone[row], 0), (back, -1 - row), (one_by_one, row), (by_length, row)]
        for found in (row_of(*each) for each in others):
            assert found["candidates"] == wanted["candidates"]
            assert found["text"] == wanted["text"] == wanted["candidates"][0]
            assert found["ended"] == wanted["ended"]
            np.testing.assert_allclose(found["candidate_scores"], wanted["candidate_scores"], atol=1e-5)
            np.testing.assert_allclose(found["score"], wanted["score"], atol=1e-5)


@pytest.mark.slow
def test_odd_texts_have_answers(model, graphs):
    serve = graphs["serving_default"]
    nothing = asked(serve, text=[])
    assert {name: value.shape[0] for name, value in nothing.items()} == dict.fromkeys(OUTPUTS, 0)
    blank = asked(serve, text=["", " ", "\u3000\n"])
    assert blank["text"].tolist() == [b""] * 3
    assert (blank["score"].tolist(), blank["ended"].tolist()) == ([0] * 3, [True] * 3)
    assert blank["candidate_scores"][:, 1:].max(initial=-np.inf) == -np.inf
    # Bytes that are no UTF-8 are read as U+FFFD, and all that comes out is UTF-8.
    broken = asked(serve, text=[b"\xff a \xc3", "\ufffd a \ufffd".encode()])
    assert broken["text"][0] == broken["text"][1]
    # The place of a row in a batch may round its score otherwise.
    assert broken["score"][0] == pytest.approx(broken["score"][1], rel=1e-5)
    assert all(text.decode() is not None for text in broken["candidates"].reshape(-1))
    # A source is cut at `max_tokens`, the end symbol included.
    cut = asked(serve, text=["abc" * 40_000, ("abc" * 7)[:19]])
    assert cut["text"][0] == cut["text"][1]
    assert cut["score"][0] == pytest.approx(cut["score"][1], rel=1e-5)


def test_blanks_are_those_of_python():
    pattern = sequence_preprocessing._BLANK
    every = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) != "Cs"]
    found = tf.strings.regex_full_match(tf.constant(every), pattern).numpy()
    assert [each for each, blank in zip(every, found, strict=True) if blank] == [
        each for each in every if not each.strip()
    ]


@pytest.mark.parametrize("model", [4], indirect=True)
@pytest.mark.slow
def test_given_answers_have_the_log_probabilities_of_the_core(model, graphs, monkeypatch):
    sources, targets = ["abc", "a two", "", "film"], ["cba good", "", "acb", "y x z what is longer than nine"]
    found = asked(graphs["score_target"], text=sources, target=targets)
    assert found["tokens"].shape == found["log_probabilities"].shape == (4, 9)
    ids = [np.append(model.symbols.rows([target])[0][0][:-1], END)[:9] for target in targets]
    for row, (source, labels) in enumerate(zip(sources, ids, strict=True)):
        read = np.concatenate([[BEGIN], labels[:-1]])
        logits = model.core([model.symbols.rows([source])[0][0][None], read[None]])[0]
        logs = ops.log_softmax(logits).numpy()[np.arange(len(labels)), labels]
        np.testing.assert_allclose(found["log_probabilities"][row, : len(labels)], logs, rtol=1e-5, atol=1e-5)
        names = [token.decode() for token in found["tokens"][row]]
        assert names == [model.symbols.names[each] for each in labels] + [""] * (9 - len(labels))
        assert not found["log_probabilities"][row, len(labels) :].any()
    monkeypatch.setattr(sequence_graphs, "_BYTES", 1)
    apart = asked(signature_of(model, "score_target"), text=sources, target=targets)
    np.testing.assert_allclose(apart["log_probabilities"], found["log_probabilities"], rtol=1e-5, atol=1e-5)
    with pytest.raises(tf.errors.InvalidArgumentError, match="inputs text and target differ in number"):
        asked(graphs["score_target"], text=sources, target=targets[:1])


@pytest.mark.parametrize("model", [1], indirect=True)
@pytest.mark.slow
def test_the_score_of_an_answer_is_the_mean_of_its_log_probabilities(model, graphs):
    texts = [text for text in ASKED if text.strip()]
    answer = asked(graphs["serving_default"], text=texts)
    given = asked(graphs["score_target"], text=texts, target=answer["text"])
    for row, ended in enumerate(answer["ended"]):
        logs = given["log_probabilities"][row][given["tokens"][row] != b""]
        if ended or len(logs) == 9:
            np.testing.assert_allclose(logs.mean(), answer["score"][row], atol=1e-5)


@pytest.mark.parametrize("model", [4], indirect=True)
@pytest.mark.slow
def test_explanations_are_the_attention_of_each_symbol_to_the_source(model, graphs):
    found = asked(graphs["explain"], text=ASKED)
    answer = asked(graphs["serving_default"], text=ASKED)
    written = ["".join(token.decode() for token in row) for row in found["target_tokens"]]
    assert [text.removesuffix(model.symbols.names[END]) for text in written] == [
        text.decode() for text in answer["text"]
    ]
    rows, targets = found["target_tokens"].shape
    assert found["weights"].shape == (rows, 2, 2, targets, found["tokens"].shape[1])
    real = (found["target_tokens"] != b"")[:, None, None, :] * np.ones((1, 2, 2, 1))
    np.testing.assert_allclose(found["weights"].sum(axis=-1), real, atol=1e-5)
    assert not found["weights"].transpose(0, 4, 1, 2, 3)[found["tokens"] == b""].any()
    one = asked(graphs["explain"], text=ASKED[2:3])
    longest = one["target_tokens"].shape[1]
    np.testing.assert_allclose(
        found["weights"][2][:, :, :longest, : one["tokens"].shape[1]], one["weights"][0], atol=1e-5
    )


@pytest.mark.slow
def test_the_mean_does_not_depend_on_the_length_penalty():
    scores = [
        asked(signature_of(each), text=ASKED)["score"]
        for each in (made(1, length_penalty=0.0), made(1, length_penalty=2.0))
    ]
    np.testing.assert_allclose(*scores, atol=1e-5)


@pytest.mark.slow
def test_the_margin_of_a_greedy_answer_is_the_least_distance_of_two_symbols():
    model = made(1)
    front = raw_front(model)
    (found,) = front.margins(tf.constant(["two the film"]))
    source = model.symbols.rows(["two the film"])[0][0]
    written, gaps = [BEGIN], []
    while len(written) <= 9 and written[-1] != END:
        logits = model.core([source[None], np.array([written])])[0, -1]
        logs = np.sort(ops.log_softmax(logits).numpy())[::-1]
        gaps.append((logs[0] - logs[1]) / max(1, abs(logs[1])))
        written.append(int(np.argmax(logits)))
    # Of sums: the distance of two symbols is a smaller share of a later score.
    assert 0 < found <= min(gaps) + 1e-6
    np.testing.assert_array_equal(front.margins(tf.constant(["", " "])), [1, 1])


def test_the_gaps_of_a_step_are_those_of_its_choices():
    best, ends = np.array([-1.0, -2, -4, -8, -16]), np.array([False, True, False, False, True])
    # The end is a candidate: twice as far from the third as it would have to be; the others that go on are
    # the first and third; of the fourth and fifth nothing is chosen, but the fifth could become a candidate.
    np.testing.assert_allclose(_gaps(best, ends, 2), [2 / 4, 14 / 16, 4 / 8])
    np.testing.assert_allclose(_gaps(best, ends, 1), [1 / 2])
    assert _gaps(np.array([-1.0, -np.inf]), np.array([False, False]), 1) == [1]
    assert _gaps(np.array([-1.0]), np.array([True]), 1) == []


class _Table:
    """A core whose logits follow from the last symbol alone."""

    def __init__(self, logits):
        self._logits = tf.constant(logits, tf.float32)
        vectors = tf.zeros([len(logits), 1])
        self.embedding = SimpleNamespace(vocabulary_size=len(logits), is_plain=False, vectors=vectors)

    def start(self, source, max_length=None):
        return {"position": tf.zeros([tf.shape(source)[0]], tf.int32)}

    def step(self, tokens, cache, logits):
        return tf.gather(self._logits, tokens), cache


def test_rows_whose_search_is_near_a_tie_have_a_small_margin():
    apart = np.full((7, 7), -9.0)
    apart[:, 4], apart[:, 5], apart[4, END] = 2.0, 0.0, 5.0
    near = apart.copy()
    near[BEGIN, 5] = near[BEGIN, 4] - 1e-6
    for beams in (1, 2):
        settings = SearchSettings(4, beams)
        wide, narrow = (
            WatchedSearch(_Table(each), settings).margin(np.array([4, 3])) for each in (apart, near)
        )
        assert wide > 0.1
        # With two beams both go on: neither is chosen before the other.
        assert (narrow < 1e-5) == (beams == 1)


@pytest.mark.parametrize("model", [4], indirect=True)
def test_other_formats_are_refused_by_name(tmp_path, model):
    for name in ("onnx", "litert"):
        with pytest.raises(ExportError, match=r"SequenceToSequence searches .* \(leave out `format`"):
            export.export_portable(model, tmp_path, name)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_stored_weights_in_a_narrower_type_are_used_by_all_signatures():
    model = made(1)
    wide = asked(signature_of(model, "score_target"), text=["abc"], target=["cba"])
    narrow = contract_for(model, NarrowWeights(model, "int8")).signatures
    found = asked(narrow["score_target"], text=["abc"], target=["cba"])
    off = np.abs(found["log_probabilities"] - wide["log_probabilities"]).max()
    assert 1e-6 < off < 0.2
    answer = asked(narrow["serving_default"], text=["abc"])
    given = asked(narrow["score_target"], text=["abc"], target=answer["text"])
    logs = given["log_probabilities"][0][given["tokens"][0] != b""]
    np.testing.assert_allclose(logs.mean(), answer["score"][0], atol=1e-5)
