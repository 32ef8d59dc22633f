"""Names of things in fifty languages: each belongs to one, and all of one thing fall on one side."""

import pytest

from keras_selfattn.data.quickstart.multilingual_names import LANGUAGES, all_names, load_names, split_by_thing
from keras_selfattn.errors import DataError


@pytest.mark.slow
def test_names_belong_to_one_language_and_cover_all_fifty():
    names = load_names()
    assert len(LANGUAGES) == len(set(LANGUAGES)) == 50
    assert {name.language for name in names} == set(LANGUAGES)
    assert len(names) > 60_000
    assert len({name.text for name in names}) == len(names)


def test_all_names_of_one_thing_fall_on_one_side():
    names = load_names(["de", "fr", "tr"])
    kept, held = split_by_thing(names, 0.2, seed=0)
    assert len(kept) + len(held) == len(names)
    assert not {name.thing for name in kept} & {name.thing for name in held}
    assert 0.15 < len(held) / len(names) < 0.25
    assert split_by_thing(names, 0.2, seed=1)[1] != held


@pytest.mark.parametrize(
    ("languages", "said"), [(["de"], "at least two"), (["de", "xx"], "no language 'xx'")]
)
def test_languages_that_will_not_do_are_named(languages, said):
    with pytest.raises(DataError, match=said):
        load_names(languages)


def test_a_name_that_languages_share_is_kept_for_each_of_them_where_all_are_asked_for():
    def madagascar(names):
        return [(name.text, name.language) for name in names if name.thing == "territory:MG"]

    languages = ["de", "fr", "tr"]
    assert madagascar(all_names(languages)) == [
        ("Madagaskar", "de"),
        ("Madagascar", "fr"),
        ("Madagaskar", "tr"),
    ]
    assert madagascar(load_names(languages)) == [("Madagascar", "fr")]
