"""The model from texts to texts: its answers alone and among others, what it learns, and what it refuses."""

import keras
import numpy as np
import pytest

from keras_selfattn import models
from keras_selfattn.errors import ConfigError, DataError, TrainingError
from keras_selfattn.models.sequences.symbols import BEGIN, END

SMALL = {"width": 16, "num_layers": 1, "decoder_layers": 1, "num_heads": 2, "tokens": "characters"}
SOURCES = ["ab", "bca", "c", "abcabc", "ba", "cc", "bab", "acb"]
TARGETS = [text[::-1] for text in SOURCES]


def learned(sources=SOURCES, targets=TARGETS, **settings):
    keras.utils.set_random_seed(1)
    model = models.SequenceToSequence({**SMALL, "max_new_tokens": 9, **settings})
    model.adapt(sources, targets)
    return model


@pytest.fixture(scope="module")
def model():
    """Returns a model whose drawn vectors give some sources an end, and others none before the bound."""
    model, random = learned(), np.random.default_rng(1)
    table = next(weight for weight in model.weights if "table" in weight.path)
    table.assign(0.7 * random.normal(size=table.shape))
    return model


def test_an_answer_is_the_same_alone_in_a_batch_and_again(model):
    together = model.generate(SOURCES)
    for answer, again, source in zip(together, model.generate(SOURCES, batch_size=3), SOURCES, strict=True):
        (alone,) = model.generate([source])
        for other in (again, alone):
            assert (other.text, other.ended, other.candidates) == (
                answer.text,
                answer.ended,
                answer.candidates,
            )
            assert other.score == pytest.approx(answer.score, abs=1e-5)
    assert model.predict(SOURCES, verbose=0) == [answer.text for answer in together]
    assert model.predict_on_batch(SOURCES) == [answer.text for answer in together]


def test_an_empty_or_blank_source_has_the_empty_answer(model):
    assert model.predict(["", "ab", "  "], verbose=0)[::2] == ["", ""]
    (answer,) = model.generate([""])
    assert (answer.text, answer.score, answer.ended, answer.candidates) == ("", 0.0, True, ("",))
    assert model.predict([]) == [] == model.generate([])


def test_the_score_of_an_answer_is_the_mean_of_its_symbols_scores(model):
    answers = model.generate(SOURCES)
    assert {answer.ended for answer in answers} == {True, False}
    with pytest.warns(UserWarning, match="longer than max_new_tokens=9"):
        scores = model.score_target(SOURCES, [answer.text for answer in answers])
    for answer, of_symbols in zip(answers, scores, strict=True):
        assert len(of_symbols) == len(answer.text) + answer.ended
        assert of_symbols.mean() == pytest.approx(answer.score, abs=1e-5)


def test_the_scores_of_known_answers_are_those_of_the_logits(model):
    symbols, (found,) = model.symbols, model.score_target(["bca"], [("ab", "other")])
    (source,), _ = symbols.rows(["bca"])
    (answer,), _ = symbols.answers(["ab"], 9)
    logits = np.asarray(model([source[None], answer[None, :-1]]))[0].astype("float64")
    logs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    np.testing.assert_allclose(found, logs[np.arange(3), answer[1:]], atol=1e-5)
    assert model.score_target(["bca"], ["aXb"])[0][1] == -np.inf


PREFIXES = ["", "c", "ab", "bbb", "", "cacac", "aaaaaaaaa", "b"]


def forced_greedy(model, source, prefix):
    """The answer of a loop over the whole decoder: the prefix, then the likeliest symbols; and its mean."""
    ids = {name: place for place, name in enumerate(model.symbols.names)}
    written, logs = [BEGIN], []
    while len(logs) < 9 and written[-1] != END:
        logits = np.asarray(model.core([model.symbols.rows([source])[0][0][None], np.array([written])]))[
            0, -1
        ]
        place = len(logs)
        written.append(ids[prefix[place]] if place < len(prefix) else int(logits.argmax()))
        logs.append(logits[written[-1]] - np.log(np.exp(logits.astype("float64")).sum()))
    text = "".join(model.symbols.names[each] for each in written[1:] if each != END)
    return text, np.mean(logs), written[-1] == END


def test_answers_with_prefixes_are_those_of_a_loop_that_writes_them_first(model):
    found = model.generate(SOURCES, prefix=PREFIXES)
    for answer, source, prefix in zip(found, SOURCES, PREFIXES, strict=True):
        text, mean, ended = forced_greedy(model, source, prefix)
        assert answer.text.startswith(prefix)
        assert (answer.text, answer.ended) == (text, ended)
        assert answer.score == pytest.approx(mean, abs=1e-5)
        assert model.generate([source], prefix=prefix)[0].text == text
    assert {answer.ended for answer in found} == {True, False}
    assert model.generate(SOURCES, prefix="") == model.generate(SOURCES)


@pytest.mark.slow
@pytest.mark.parametrize("tokens", ["characters", "words", "pieces"])
def test_all_candidates_begin_with_the_prefix_of_any_kind_of_symbols(tokens):
    model = learned(
        ["one two", "three one"] * 3, ["eins zwei", "drei eins"] * 3, tokens=tokens, max_new_tokens=20
    )
    for answer in model.generate(["one two", "three", " "], beams=3, prefix="eins dr" * (tokens != "words")):
        assert all(text.startswith("eins dr" * (tokens != "words")) for text in answer.candidates)
    (answer,) = model.generate(["two"], beams=3, prefix="drei  zwei")
    begin = "drei zwei" if tokens == "words" else "drei  zwei"  # words have one blank between them
    assert all(text.startswith(begin) for text in answer.candidates)


def test_a_blank_source_has_its_prefix_alone(model):
    blank, some = model.generate([" ", "ab"], prefix="cab")
    assert (blank.text, blank.score, blank.ended, blank.candidates) == ("cab", 0.0, True, ("cab",))
    assert some.text.startswith("cab")


@pytest.mark.parametrize(
    ("prefix", "told"),
    [
        ("abcabcabca", r"`prefix` must have at most max_new_tokens=9 symbols. Received 'abcabcabca'"),
        (["x"] + [""] * 7, "`prefix` must consist of symbols that the model has learned.* Received 'x'"),
        (["a", "b"], r"`prefix` must be a str, or one for each of the 8 texts. Received \['a', 'b'\]"),
        ([1] * 8, "`prefix` must be a str, or one for each"),
        (7, "`prefix` must be a str, or one for each"),
    ],
)
def test_prefixes_that_no_answer_has_are_refused_by_name(model, prefix, told):
    with pytest.raises(ConfigError, match=told):
        model.generate(SOURCES, prefix=prefix)


@pytest.mark.slow
def test_beams_give_candidates_best_first_and_greedy_ones_with_one(model):
    for source, greedy in zip(SOURCES, model.generate(SOURCES), strict=True):
        (found,) = model.generate([source], beams=3)
        assert 1 <= len(found.candidates) == len(found.candidate_scores) <= 3
        assert list(found.candidate_scores) == sorted(found.candidate_scores, reverse=True)
        assert found.text == found.candidates[0]
        assert len(greedy.candidates) == 1
    (sums,) = model.generate(["bca"], beams=3, length_penalty=0.0)
    assert sums.score * (len(sums.text) + sums.ended) == pytest.approx(sums.candidate_scores[0], abs=1e-5)


def test_the_bound_cuts_answers_and_says_so(model):
    for answer in model.generate(SOURCES, max_new_tokens=1):
        assert answer.ended == (answer.text == "")
        assert len(answer.text) <= 1


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"beams": 0}, "`beams` must be an integer from 1 to 4"),
        ({"beams": 5}, "`beams` must be .* Received 5"),
        ({"max_new_tokens": 10}, "`max_new_tokens` must be an integer from 1 to 9"),
        ({"length_penalty": float("nan")}, "`length_penalty` must be a finite number"),
        ({"length_penalty": 50}, "`length_penalty` must be .* from 0 to 5; .* Received 50"),
    ],
)
def test_settings_out_of_range_are_refused_by_name(model, settings, told):
    with pytest.raises(ConfigError, match=told):
        model.generate(SOURCES, **settings)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"tokens": "bytes"}, "`tokens` must be"),
        ({"decoder_layers": 0}, "`decoder_layers` must be a positive integer"),
        ({"max_new_tokens": 1}, "`max_new_tokens` must be an integer of at least 2"),
        ({"length_penalty": -1}, "`length_penalty`"),
        ({"position": "learned"}, "`position` must be one of"),
        ({"tokens": "pieces", "vocabulary_size": 100}, "at least 260"),
    ],
)
def test_configs_out_of_range_are_refused_by_name(settings, told):
    with pytest.raises(ConfigError, match=told):
        models.SequenceConfig(**settings)


def test_more_beams_than_symbols_are_refused_before_training():
    model = models.SequenceToSequence({**SMALL, "beams": 5})
    with pytest.raises(ConfigError, match="`beams` must be an integer from 1 to 4.* Received 5"):
        model.adapt(SOURCES, TARGETS)
    assert not model.built


def test_attention_of_an_answer_has_a_row_for_each_symbol_and_the_end(model):
    (found,) = model.explain(["bca"], ["ab"])
    assert (found.source[:3], found.target[:2]) == (("b", "c", "a"), ("a", "b"))
    assert found.weights.shape == (3, 4)
    np.testing.assert_allclose(found.weights.sum(axis=1), 1, atol=1e-5)
    assert len(model.explain(["bca"])[0].target) >= 1


def test_an_explanation_names_every_symbol():
    (found,) = learned(["a\0"] * 2, ["\0"] * 2).explain(["a\0"], ["\0"])
    assert (found.source[:2], found.target[:1]) == (("a", "\0"), ("\0",))


def test_a_model_that_knows_nothing_yet_says_so():
    model = models.SequenceToSequence(SMALL)
    for ask in (model.predict, model.generate, model.explain):
        with pytest.raises(DataError, match="has not seen any rows yet"):
            ask(["ab"])


def test_what_gives_no_answers_says_what_does(model, monkeypatch):
    with pytest.raises(ConfigError, match="call `predict` or `generate`"):
        model(["ab", "bca"])
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(ConfigError, match="The backend of Keras is jax"):
        model.generate(["ab"])


def test_answers_of_rare_symbols_alone_are_refused():
    model = models.SequenceToSequence({**SMALL, "tokens": "words", "min_count": 2})
    with pytest.raises(DataError, match="None of the words of the 3 answers is known.*min_count=2"):
        model.adapt(["one of", "two of", "three of"], ["un", "deux", "trois"])
    assert not model.built


@pytest.mark.parametrize("beams", [1, 3])
def test_a_model_of_nan_has_no_answers_and_says_so(beams):
    model = learned()
    for weight in model.core.weights:
        weight.assign(np.full(weight.shape, np.nan))
    with pytest.raises(TrainingError, match="NaN for 2 of 2 texts.* a lower learning rate"):
        model.generate(["ab", "c"], beams=beams)


def test_sources_that_are_all_their_answers_are_told():
    with pytest.warns(UserWarning, match="nothing to learn but a copy"):
        learned(SOURCES, SOURCES)


def test_what_is_too_long_is_counted():
    with pytest.warns(UserWarning, match="longer than") as told:
        learned(["abcabcabc", "ab"], ["abcabc", "b"], max_tokens=4, max_new_tokens=5, min_count=1)
    assert [str(each.message)[:44] for each in told] == [
        "1 of 2 texts are longer than max_tokens=4 to",
        "1 of 2 answers are longer than max_new_token",
    ]


def test_rows_and_answers_of_different_number_are_refused():
    with pytest.raises(DataError, match="Received 8 and 1"):
        learned(SOURCES, ["a"])


@pytest.mark.slow
def test_each_right_answer_is_learned_as_a_row():
    weights = np.array([1.0, 2.0], "float32")
    alone = learned(["ab", "ab", "ba"], ["a", "b", "ab"], min_count=1)
    several = learned(["ab", "ba"], [["a", "b"], "ab"], min_count=1)
    several.set_weights(alone.get_weights())
    for each in (alone, several):
        each.compile()
    expected = alone.evaluate(
        ["ab", "ab", "ba"], ["a", "b", "ab"], sample_weight=weights[[0, 0, 1]], return_dict=True, verbose=0
    )
    found = several.evaluate(
        ["ab", "ba"], [["a", "b"], "ab"], sample_weight=weights, return_dict=True, verbose=0
    )
    assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_trains_and_answers(policy):
    model = models.SequenceToSequence(SMALL, dtype=policy)
    model.compile()
    history = model.fit(SOURCES, TARGETS, epochs=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    assert len(model.predict(SOURCES, verbose=0)) == len(SOURCES)


@pytest.mark.slow
def test_a_saved_model_gives_the_same_answers_also_when_it_is_quantized(tmp_path, model):
    copy = models.SequenceToSequence.from_config(model.get_config())
    copy.set_weights(model.get_weights())
    assert copy.predict(SOURCES, verbose=0) == model.predict(SOURCES, verbose=0)
    copy.quantize("int8")
    answers = copy.generate(SOURCES, beams=2)
    copy.save(tmp_path / "model.keras")
    assert models.load(tmp_path / "model.keras").generate(SOURCES, beams=2) == answers


@pytest.mark.slow
def test_strings_of_four_letters_are_reversed_that_training_did_not_have():
    random = np.random.default_rng(0)
    drawn = ["".join(random.choice(list("abcdefgh"), 4)) for _ in range(500)]
    words = list(dict.fromkeys(drawn))
    train, held_out = words[:300], words[300:400]
    keras.utils.set_random_seed(0)
    config = models.SequenceConfig(
        **{**SMALL, "width": 32, "num_heads": 4, "dropout": 0.0, "max_new_tokens": 8}
    )
    model = models.SequenceToSequence(config)
    model.compile(keras.optimizers.Adam(3e-3))
    model.fit(train, [word[::-1] for word in train], epochs=25, verbose=0)
    right = [
        found == word[::-1] for found, word in zip(model.predict(held_out, verbose=0), held_out, strict=True)
    ]
    assert np.mean(right) >= 0.9
