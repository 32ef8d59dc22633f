"""What the tables of figures show of rows."""

from keras_selfattn.cli.shared.report_tables import print_worst_answers
from keras_selfattn.metrics.report import Columns


def test_rows_that_are_alike_are_one_line_of_the_worst_answers(capsys):
    alike = [(line, "a cat", ["eine Katze"], "ein Hund", 0.9) for line in range(20)]
    other = [(30, "a dog", ["ein Hund", "der Hund"], "eine Katze", 0.5)]
    print_worst_answers(Columns(["line", "source", "target", "answer", "error"], [*alike, *other]))
    printed = capsys.readouterr().out
    assert printed.count("a cat") == 1
    assert "ein Hund | der Hund" in printed
