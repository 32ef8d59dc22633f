"""Lines of fastText: labels, words between its own blanks, and lines without a label."""

import pytest

from keras_selfattn.data.texts import read_table
from keras_selfattn.errors import DataError
from keras_selfattn.tasks import task_named


def test_lines_of_fasttext_are_texts_with_one_label(tmp_path):
    file = tmp_path / "t.txt"
    file.write_text("__label__+ a good film\n\n  bad\t__label__- one \n__label__+\n")
    rows = read_table(file)
    assert (rows.inputs, rows.targets) == (["a good film", "bad\tone", ""], ["+", "-", "+"])
    assert [rows.place(row) for row in range(3)] == [1, 3, 4]


@pytest.mark.parametrize("blank", [" ", "\t", "\v", "\f", "\r", "\0"])
def test_words_of_fasttext_stand_between_its_own_blanks(tmp_path, blank):
    """Those of `Dictionary::readWord`; a line feed ends the line."""
    file = tmp_path / "t.txt"
    file.write_bytes(f"{blank}a{blank}__label__x{blank}{blank}b{blank}\n{blank}\n__label__y c\n".encode())
    rows = read_table(file)
    assert (rows.inputs, rows.targets) == ([f"a{blank}b", "c"], ["x", "y"])


@pytest.mark.parametrize("sign", ["\u00a0", "\u2009", "\u0085", "\u2028", "\u3000", "\x1c", "\x1f"])
def test_other_blanks_are_part_of_a_word_of_fasttext(tmp_path, sign):
    file = tmp_path / "t.txt"
    file.write_text(f"__label__x{sign}y {sign}a{sign}\n__label__z a{sign}__label__x\n")
    rows = read_table(file)
    assert (rows.inputs, rows.targets) == ([f"{sign}a{sign}", f"a{sign}__label__x"], [f"x{sign}y", "z"])
    file.write_text(f"__label__x a\n{sign}\n")
    with pytest.raises(DataError, match="line 2 has no label"):
        read_table(file)


def test_lines_of_fasttext_with_several_labels_are_lists(tmp_path):
    file = tmp_path / "t.txt"
    file.write_text("__label__x __label__y a\n__label__x b __label__x\n")
    assert read_table(file).targets == [["x", "y"], ["x"]]


@pytest.mark.parametrize("line", ["a film", "__label__ a film", "a__label__x film"])
def test_a_line_without_a_label_is_refused(tmp_path, line):
    (tmp_path / "t.txt").write_text(f"__label__+ good\n{line}\n")
    with pytest.raises(DataError, match=r"line 2 has no label. .* __label__NAME"):
        read_table(tmp_path / "t.txt")


def test_the_task_text_reads_lines_of_fasttext_where_it_is_named(tmp_path):
    (tmp_path / "t.txt").write_text("__label__+ good\n__label__- bad\n")
    assert task_named("text", tmp_path / "t.txt").rows(tmp_path / "t.txt", {}).targets == ["+", "-"]
