"""`evaluate`: its files of mistakes and its report, for rows of any labels."""

import pytest

from keras_selfattn.cli.evaluate import check_mistakes_file, write_mistakes
from keras_selfattn.data.texts import read_table
from keras_selfattn.errors import ConfigError
from keras_selfattn.metrics.report import Columns

# Of what stands around the steps: these are tested elsewhere, traced.
pytestmark = pytest.mark.usefixtures("eager_steps")


@pytest.mark.parametrize("text", ["a\rb", "a\nb", 'a "b", c', "a\ud800"])
def test_mistakes_are_read_as_they_were_written(tmp_path, text):
    columns = Columns(["line", "text", "label", "predicted", "probability"], [(2, text, "+", "-", 0.5)])
    write_mistakes(tmp_path / "m.csv", columns)
    assert read_table(tmp_path / "m.csv").inputs == [text.replace("\ud800", "?")]


def test_mistakes_never_take_the_place_of_the_table(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("text,label\na,+\n")
    with pytest.raises(ConfigError, match="--mistakes must be another file than TABLE"):
        check_mistakes_file(tmp_path / "." / "t.csv", table)
