"""Warnings name the line of the user's code that led to them."""

import warnings

import pytest
from pretrained_folders import write_folder

from keras_selfattn import models
from keras_selfattn.user_warnings import warn_user


def test_a_warning_names_its_callers_line():
    with pytest.warns(UserWarning, match="cut") as caught:
        warn_user("2 of 5 rows are cut.")
    assert caught[0].filename == __file__


@pytest.mark.usefixtures("eager_steps", "idle_steps")
@pytest.mark.parametrize("ask", ["adapt", "fit", "predict"])
def test_warnings_of_cut_texts_name_the_users_line(tmp_path, ask):
    folder, texts = write_folder(tmp_path / "m"), ["good film " * 60] * 4
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if ask == "predict":
            models.TextEncoder(start=folder).predict(texts, verbose=0)
        else:
            model = models.TextClassifier({"wide": False}, start=folder)
            model.compile()
            getattr(model, ask)(texts, ["+", "-"] * 2)
    told = [each for each in caught if "are cut at the end" in str(each.message)]
    assert [each.filename for each in told] == [__file__]
