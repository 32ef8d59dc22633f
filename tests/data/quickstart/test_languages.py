"""The built-in first data set: names, messages and composed texts of fifty languages."""

import re
from collections import Counter

import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from keras_selfattn.data.quickstart.languages import (
    HELD_OUT,
    LanguageRows,
    language_rows,
    load_messages,
    names_table,
)
from keras_selfattn.data.quickstart.multilingual_names import LANGUAGES, load_names, split_by_thing
from keras_selfattn.data.quickstart.sentences import SENTENCES

MARKUP = re.compile(r"%\(|%s|<[a-z]|&nbsp;|Project-Id")


@pytest.mark.slow
def test_messages_are_sentences_of_their_language_without_markup_in_each_of_the_fifty():
    for language in LANGUAGES:
        messages = load_messages(language)
        assert len(messages) == len(set(messages)) > 200, language
        assert not list(filter(MARKUP.search, messages)), language
    assert "Enter a valid email address." in load_messages("en")
    assert "Gib eine gültige E-Mail-Adresse an." not in load_messages("en")
    # Words alone may be the same in both, "Format" for one.
    shared = set(load_messages("da")) & set(load_messages("en"))
    assert not [text for text in shared if len(text.split()) > 4]
    assert load_messages("yav") == ()


@pytest.mark.slow
def test_the_rows_of_the_quickstart_are_names_and_sentences_of_each_language():
    rows = language_rows(["en", "da", "th"], seed=3)
    assert isinstance(rows, LanguageRows)
    for part in (rows.train, rows.validation):
        assert set(part.targets) == {"en", "da", "th"}
    pairs = zip(rows.train.inputs, rows.train.targets, strict=True)
    long = Counter(language for text, language in pairs if len(text) > 40)
    assert min(long.values()) > 200
    again = language_rows(["en", "da", "th"], seed=3)
    assert (again.train, again.validation, again.held_out) == tuple(rows)
    assert language_rows(["en", "da", "th"], seed=4).train != rows.train


@pytest.mark.slow
def test_no_held_out_name_is_a_text_of_training_or_validation_nor_a_text_of_both():
    rows = language_rows(seed=0)
    hidden = {name.text for name in rows.held_out}
    assert 7000 < len(rows.held_out) < 8000  # as the release of Babel has them
    assert not hidden & {*rows.train.inputs, *rows.validation.inputs}
    assert not set(rows.train.inputs) & set(rows.validation.inputs)


def test_a_language_without_messages_and_word_list_is_learned_from_its_names_and_phrases():
    rows = language_rows(["yav", "de"])
    pairs = zip(rows.train.inputs, rows.train.targets, strict=True)
    assert [text for text, language in pairs if language == "yav" and len(text) > 40]


@pytest.mark.slow
def test_each_of_the_fifty_languages_has_a_sentence_of_its_own_that_is_in_no_training():
    assert set(SENTENCES) == set(LANGUAGES)
    assert len(set(SENTENCES.values())) == 50
    rows = language_rows()
    assert not set(SENTENCES.values()) & {*rows.train.inputs, *rows.validation.inputs}


EVERYDAY = {
    "en": ["I have no idea where she went last night.", "The weather is nice today.", "How much is this?"],
    "da": ["Jeg ved ikke, hvor hun gik hen i aftes.", "Vejret er dejligt i dag.", "Hvad koster det her?"],
    "id": [
        "Saya tidak tahu ke mana dia pergi tadi malam.",
        "Cuaca hari ini sangat bagus.",
        "Berapa harga ini?",
    ],
    "sk": ["Neviem, kam išla včera večer.", "Dnes je pekné počasie.", "Koľko to stojí?"],
    "tr": ["Dün gece nereye gittiğini bilmiyorum.", "Bugün hava çok güzel.", "Bu ne kadar?"],
    "ja": ["昨夜彼女がどこへ行ったか分かりません。", "今日はいい天気ですね。", "これはいくらですか。"],
}


@pytest.mark.slow
def test_the_rows_teach_a_linear_model_the_sentences_that_names_alone_do_not():
    languages = [*EVERYDAY, "nb", "sv", "cs", "az", "zh", "fr"]
    rows = language_rows(languages)
    kept, _ = split_by_thing(load_names(languages), HELD_OUT, 0)

    def right(table):
        features = TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 4), lowercase=False)
        model = make_pipeline(features, LinearSVC(random_state=0)).fit(table.inputs, table.targets)
        return sum(list(model.predict(texts)).count(language) for language, texts in EVERYDAY.items())

    assert right(names_table(kept)) <= 12
    assert right(rows.train) >= 16
