"""The signature `generate`: settings of a search for each row of a request, beside the model's own search."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from small_writer import ASKED, asked, made, signature_of

from keras_selfattn.export.signatures.raw_models import raw_front
from keras_selfattn.models.sequences.symbols import BEGIN, END

PREFIXES = ["", "c", "good", "", "z y", "cba cba c", "x", " "]


@pytest.fixture(scope="module", params=[1, 4])
def model(request):
    return made(request.param, length_penalty=0.6)


@pytest.fixture(scope="module")
def generate(model):
    return signature_of(model, "generate")


def with_defaults(signature, **columns):
    """The answers to a request that leaves inputs out, as servers fill them in."""
    return asked(signature, **{**signature.defaults, **columns})


def mixed(model, seed):
    """Rows with drawn settings, of a few kinds, since each of them is a graph of the model's own."""
    random = np.random.default_rng(seed)
    kinds = [(int(random.integers(1, model.config.beams + 1)), penalty) for penalty in (0.0, 0.6, 1.5)]
    rows = []
    for text, prefix in zip(ASKED * 2, random.permutation(PREFIXES * 2), strict=True):
        beams, penalty = kinds[random.integers(len(kinds))]
        rows.append((text, int(random.integers(max(1, len(prefix)), 10)), beams, penalty, str(prefix)))
    return rows


def columns_of(rows):
    names = ("text", "max_new_tokens", "beams", "length_penalty", "prefix")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def check_row(found, place, wanted):
    """An answer of the graph is one of `generate`."""
    assert found["text"][place].decode() == wanted.text
    assert found["ended"][place] == wanted.ended
    np.testing.assert_allclose(found["score"][place], wanted.score, atol=1e-5)
    there = found["candidate_scores"][place] > -np.inf
    assert [text.decode() for text in found["candidates"][place][there]] == list(wanted.candidates)
    np.testing.assert_allclose(found["candidate_scores"][place][there], wanted.candidate_scores, atol=1e-5)
    assert set(found["candidates"][place][~there]) <= {b""}


@pytest.mark.slow
def test_without_settings_the_answers_are_those_of_serving_default_bit_for_bit(model, generate):
    wanted = asked(signature_of(model), text=ASKED)
    found = with_defaults(generate, text=ASKED)
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values)
        assert found[name].dtype == values.dtype


@pytest.mark.slow
def test_rows_with_drawn_settings_have_the_answers_of_the_model_with_these(model, generate):
    rows = mixed(model, seed=model.config.beams)
    found = asked(generate, **columns_of(rows))
    for place, (text, most, beams, penalty, prefix) in enumerate(rows):
        (wanted,) = model.generate(
            [text], beams=beams, max_new_tokens=most, length_penalty=penalty, prefix=prefix
        )
        check_row(found, place, wanted)
        assert found["text"][place].decode().startswith(prefix)
    assert set(found["ended"].tolist()) == {True, False}


@pytest.mark.slow
def test_a_row_has_the_same_answer_alone_and_beside_others_with_other_settings(model, generate):
    rows = mixed(model, seed=7)
    together, back = asked(generate, **columns_of(rows)), asked(generate, **columns_of(rows[::-1]))
    for place, row in enumerate(rows):
        alone = asked(generate, **columns_of([row]))
        for found, at in ((alone, 0), (back, len(rows) - 1 - place)):
            for name in ("text", "ended", "candidates"):
                assert np.array_equal(found[name][at], together[name][place])
            for name in ("score", "candidate_scores"):
                np.testing.assert_allclose(found[name][at], together[name][place], atol=1e-5)


@pytest.mark.slow
def test_one_value_is_that_of_all_rows(model, generate):
    one = with_defaults(generate, text=ASKED, max_new_tokens=[3], prefix=["c"])
    each = with_defaults(generate, text=ASKED, max_new_tokens=[3] * len(ASKED), prefix=["c"] * len(ASKED))
    for name, values in each.items():
        np.testing.assert_array_equal(one[name], values)
    nothing = with_defaults(generate, text=[])
    assert {len(values) for values in nothing.values()} == {0}


@pytest.mark.slow
def test_a_blank_text_has_its_prefix_alone(model, generate):
    found = with_defaults(generate, text=["", " ", "abc"], prefix=["cba", "", "cba"])
    assert found["text"].tolist()[:2] == [b"cba", b""] == found["candidates"][:2, 0].tolist()
    assert (found["score"].tolist()[:2], found["ended"].tolist()[:2]) == ([0, 0], [True, True])
    assert found["text"][2].startswith(b"cba")


@pytest.mark.slow
@pytest.mark.parametrize("model", [4], indirect=True)
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"max_new_tokens": [1, 10, -1]}, r"max_new_tokens must be from 1 to the 9 .*, or 0 .*\] \[10 -1\]"),
        ({"beams": [5]}, r"beams must be from 1 to the 4 of the export, or 0 for these. Received\] \[5\]"),
        ({"length_penalty": [0, 1, np.nan]}, r"length_penalty must be from 0 to 5, or -1 .*\] \[nan\]"),
        ({"length_penalty": [-0.5]}, r"length_penalty must be from 0 to 5, or -1 for the 0.6 .*\] \[-0.5\]"),
        ({"length_penalty": [np.inf]}, r"length_penalty must be .*\] \[inf\]"),
        ({"prefix": ["c", "☃", ""]}, r"prefix must be of symbols that the model has learned.*\[☃\]"),
        ({"prefix": ["c" * 10]}, r"prefix must be of as many symbols as the answer may have.*\[cccccccccc\]"),
        ({"prefix": ["cc"], "max_new_tokens": [1]}, r"prefix must be of as many symbols .*\[cc\]"),
        ({"beams": [1, 2]}, r"beams must have a value for each row of text, or one for all.*\] \[2\] \[3\]"),
    ],
)
def test_settings_out_of_range_are_refused_by_name_rule_and_value(generate, settings, told):
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"The input {told}"):
        with_defaults(generate, text=["abc", "b", "two"], **settings)


@pytest.mark.slow
def test_the_margin_of_an_answer_with_a_prefix_is_that_of_the_symbols_after_it():
    model = made(1)
    front = raw_front(model)
    texts = tf.constant(["two the film"])
    inputs = [tf.constant(each) for each in ([7], [0], [-1.0], ["cba"])]
    (found,) = front.margins(texts, front.asked_settings(1, *inputs))
    source, (begun,) = model.symbols.rows(["two the film"])[0][0], model.symbols.prefixes(["cba"], 9)
    written, gaps = [BEGIN, *begun], []
    while len(written) <= 7 and written[-1] != END:
        logits = model.core([source[None], np.array([written])])[0, -1]
        logs = np.sort(ops.log_softmax(logits).numpy())[::-1]
        gaps.append((logs[0] - logs[1]) / max(1, abs(logs[1])))
        written.append(int(np.argmax(logits)))
    assert 0 < found <= min(gaps) + 1e-6
    (whole,) = front.margins(texts, front.asked_settings(1, *inputs[:3], tf.constant(["cba cba"])))
    assert whole == 1  # nothing was left to choose
