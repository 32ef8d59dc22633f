"""Tables, splits, batches and the built-in names are read, and bad files refused."""

import numpy as np
import pandas as pd
import pytest

from keras_selfattn.data.formats.records import iter_rows
from keras_selfattn.data.labelled import LabelledRows, split_rows
from keras_selfattn.data.quickstart.multilingual_names import LANGUAGES, load_names, split_by_thing
from keras_selfattn.data.texts import read_corpus, read_table
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.batches.length_sorted import LengthSortedBatches
from keras_selfattn.tasks import task_named


def written(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", 'label,text\n+,"a ""good"",\nfilm"\n-,NA\n007,2024-01-01\n'),
        (
            "t.jsonl",
            '{"label": "+", "text": "a \\"good\\",\\nfilm"}\n{"text": "NA", "label": "-"}\n\n'
            '{"text": "2024-01-01", "label": "007"}\n',
        ),
        ("bom.CSV", b'\xef\xbb\xbflabel,text\r\n+,"a ""good"",\nfilm"\r\n-,NA\r\n007,2024-01-01\r\n'),
    ],
)
def test_values_are_taken_as_they_are_written(tmp_path, name, content):
    table = read_table(written(tmp_path, name, content))
    assert table.inputs == ['a "good",\nfilm', "NA", "2024-01-01"]
    assert table.targets == ["+", "-", "007"]


def test_a_tsv_has_no_quoting(tmp_path):
    table = read_table(written(tmp_path, "t.tsv", 'text\tlabel\n"Hello\t+\n"No" was it\t-\n'))
    assert (table.inputs, table.targets) == (['"Hello', '"No" was it'], ["+", "-"])


def test_a_field_of_megabytes_is_read_and_a_lone_surrogate_of_a_text_replaced(tmp_path):
    assert (
        len(read_table(written(tmp_path, "t.csv", f"text,label\n{'x' * 3_000_000},+\n")).inputs[0])
        == 3_000_000
    )
    assert read_table(written(tmp_path, "t.jsonl", '{"text": "\\ud800", "label": "a"}\n')).inputs == ["?"]


def test_an_empty_text_is_a_row_and_integer_labels_are_names(tmp_path):
    table = read_table(written(tmp_path, "t.jsonl", '{"text": "", "label": 1}\n{"text": null, "label": 2}\n'))
    assert (table.inputs, table.targets) == (["", ""], ["1", "2"])


def test_rows_bear_several_labels_as_json_lists_or_between_separators(tmp_path):
    lines = '{"text": "a", "label": ["x", 7]}\n{"text": "b", "label": []}\n'
    assert read_table(written(tmp_path, "t.jsonl", lines)).targets == [["x", "7"], []]
    table = read_table(written(tmp_path, "t.csv", "text,label\na,x; y;x\nb,\n"), label_separator=";")
    assert table.targets == [["x", "y"], []]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", "", "is empty"),
        ("t.csv", "text,label\n", "no rows below its header"),
        (
            "t.csv",
            "texts,label\na,b\n",
            r"no column 'text'. Its columns are 'texts', 'label'. Name those with `text` \(--text\)",
        ),
        ("t.csv", 'text,label\na,+\n"b\nb",\nc,+\nd, \n', "2 of 4 rows have no 'label', the first at line 3"),
        ("t.csv", "text,label\n\na,+\n\nb,\n", "the first at line 5"),
        ("t.jsonl", '{"text": "a", "label": "+"}\n\n{"text": "b"}\n', "1 of 2 rows .* the first at line 3"),
        ("t.csv", b"text,label\na,+\nb\xe9,-\n", "not UTF-8: byte 0xe9 in line 3"),
        ("t.csv", "text,label\na,+\nb,c,d\n", "line 3 has 3 fields where the first line has 2"),
        ("t.csv", "text,label\nwell, fine,pos\nno, bad,neg\n", "line 2 has 3 fields"),
        ("t.csv", "text,label\na\n", "line 2 has 1 fields"),
        (
            "t.csv",
            'text,label\na,+\n"b,+\n',
            "cannot be parsed: unexpected end of data, in the row from line 3",
        ),
        ("t.csv", "text,label,label\na,+,-\n", "two columns named 'label'"),
        (
            "t.jsonl",
            '{"text": "a", "label": {"+": 1}}\n',
            "the 'label' in line 1 must be a label. Received {'\\+': 1}",
        ),
        (
            "t.jsonl",
            '{"text": "a", "label": ["+"]}\n{"text": "b", "label": "-"}\n',
            "the 'label' in line 2 must be a list of labels. Received '-'",
        ),
        ("t.jsonl", '{"text": "a", "label": [["+"]]}\n', "in line 1 must be a list of labels"),
        ("t.jsonl", "[" * 100_000, "line 1 is not JSON"),
        ("t.jsonl", '{"text": "a", "label": "+"}\n{"text": ', "cannot be parsed: line 2 is not JSON"),
        ("t.jsonl", "[1]\n", "line 1 must be a JSON object"),
        ("t.xlsx", "text", "no known ending"),
    ],
)
def test_bad_files_are_refused_with_the_place(tmp_path, name, content, said):
    with pytest.raises(DataError, match=said):
        read_table(written(tmp_path, name, content))


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(DataError, match="There is no file .*missing.csv"):
        read_table(tmp_path / "missing.csv")
    with pytest.raises(DataError, match="There is no file .*missing"):
        read_table(tmp_path / "missing")
    with pytest.raises(DataError, match="is a folder. Give a file ending in .csv, .tsv, .jsonl, .ndjson"):
        read_table(tmp_path)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="folder.csv cannot be read"):
        read_table(tmp_path / "folder.csv")


def test_a_split_keeps_shares_and_equal_texts_together():
    texts = [f"text {row % 150}" for row in range(200)]
    table = LabelledRows(texts, ["+" if row % 150 < 100 else "-" for row in range(200)], "t.csv")
    kept, held = split_rows(table, 0.2, seed=1)
    assert len(kept) + len(held) == 200
    assert not set(kept.inputs) & set(held.inputs)
    assert len(set(held.inputs)) == 30
    assert len({text for text, label in zip(held.inputs, held.targets, strict=True) if label == "+"}) == 20
    assert split_rows(table, 0.2, seed=1) == (kept, held)
    assert split_rows(table, 0.2, seed=2) != (kept, held)


def test_many_small_classes_are_held_out_in_their_share_overall():
    table = LabelledRows(
        [f"text {row}" for row in range(400)], [str(row % 100) for row in range(400)], "t.csv"
    )
    kept, held = split_rows(table, 0.1, seed=0)
    assert 20 <= len(held) <= 60
    assert set(kept.targets) == set(table.targets)


def test_too_few_rows_to_split_say_so():
    with pytest.raises(DataError, match="too few different rows to hold 10% of them out: 1"):
        split_rows(LabelledRows(["a", "a"], ["+", "-"], "t.csv"), 0.1, seed=0)


@pytest.mark.parametrize("seed", range(20))
def test_no_label_is_held_out_whole(seed):
    """Ten labels occur once each, beside two that are everywhere."""
    targets = [["a", "b"] if row % 2 else ["a"] for row in range(200)]
    for row in range(10):
        targets[20 * row] = ["a", f"rare{row}"]
    kept, held = split_rows(LabelledRows([f"text {n}" for n in range(200)], targets, "t.csv"), 0.1, seed)
    assert kept.labels() == {name for names in targets for name in names}
    assert 5 <= len(held) <= 25


def test_a_text_with_two_labels_stays_if_one_of_them_is_nowhere_else():
    texts, labels = ["dup", "dup", *"abcdefgh"], ["a", "c", *"aaaabbbb"]
    rows = LabelledRows(texts, labels, "t.csv")
    for seed in range(20):
        kept, held = split_rows(rows, 0.5, seed)
        assert "dup" not in held.inputs
        assert set(kept.targets) == {"a", "b", "c"}


def test_a_row_that_can_be_spared_is_found_though_the_draw_is_needed():
    targets = [["a"], ["b"], ["c"], ["d"], ["d"]]
    for seed in range(10):
        kept, held = split_rows(LabelledRows(list("vwxyz"), targets, "t.csv"), 0.2, seed)
        assert held.targets == [["d"]]
        assert len(kept) == 4
    with pytest.raises(DataError, match="too few different rows to hold 20% of them out: 3"):
        split_rows(LabelledRows(list("vwx"), targets[:3], "t.csv"), 0.2, seed=0)


@pytest.mark.parametrize("container", [tuple, np.array, lambda column: pd.Series(column, index=range(7, 27))])
def test_columns_come_in_any_container(container):
    texts, labels = [f"text {n}" for n in range(20)], ["+", "-"] * 10
    rows = LabelledRows(container(texts), container(labels), "made up")
    assert (rows.inputs, rows.targets) == (texts, labels)
    kept, held = rows.split(0.2, seed=0)
    assert sorted([*kept.inputs, *held.inputs]) == sorted(texts)


def test_an_empty_separator_of_labels_is_refused(tmp_path):
    with pytest.raises(DataError, match="`label_separator` must be at least one character"):
        read_table(written(tmp_path, "t.csv", "text,label\na,+\n"), label_separator="")


def test_a_task_is_chosen_by_what_is_there(tmp_path):
    assert task_named(None, tmp_path).name == "images"
    assert task_named(None, tmp_path / "missing.csv").name == "text"
    with pytest.raises(DataError, match="There is no file .*nosuch"):
        task_named(None, tmp_path / "nosuch")
    said = "Give a file ending in .conll, .conllu, .csv, .feather.* --task: text, images, tokens"
    with pytest.raises(DataError, match=f"has no known ending. {said}"):
        task_named(None, written(tmp_path, "t.txt", "x"))


def test_an_argument_that_no_task_knows_is_said_so(tmp_path):
    with pytest.raises(ConfigError, match="No task knows `foo`. The task is text, which knows .*label"):
        task_named("text", tmp_path).rows(tmp_path, {"foo": 1})


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


def rows(*lengths):
    return [np.arange(1, length + 1, dtype=np.int32) for length in lengths]


def test_batches_hold_like_lengths_and_every_row_once():
    random = np.random.default_rng(0)
    lengths = random.integers(0, 60, 500)
    labels = np.arange(500)
    batches = LengthSortedBatches(rows(*lengths), labels, batch_size=16, shuffle=True, seed=3)
    first, second = list(batches), list(batches)
    assert len(first) == len(batches) == 32
    assert sorted(np.concatenate([chosen for _, chosen in first]).tolist()) == list(range(500))
    for ids, chosen in first:
        np.testing.assert_array_equal((ids != 0).sum(1), lengths[chosen])
    padding = sum((ids == 0).sum() for ids, _ in first) / sum(ids.size for ids, _ in first)
    assert padding < 0.1
    assert [c.tolist() for _, c in first] != [c.tolist() for _, c in second]
    again = list(LengthSortedBatches(rows(*lengths), labels, batch_size=16, shuffle=True, seed=3))
    assert [c.tolist() for _, c in again] == [c.tolist() for _, c in first]


def test_long_rows_come_in_smaller_batches_so_that_memory_is_bounded():
    lengths = [5] * 300 + [700] * 30 + [1500] * 9 + [4096] * 2
    batches = LengthSortedBatches(rows(*lengths), batch_size=64, shuffle=True)
    shapes = [ids.shape for (ids,) in batches]
    assert len(shapes) == len(batches)
    assert sum(size for size, _ in shapes) == len(lengths)
    assert all(size == 1 or size * longest**2 <= 2**23 for size, longest in shapes)
    assert sorted(size for size, longest in shapes if longest == 5) == [44, 64, 64, 64, 64]
    unshuffled = LengthSortedBatches(rows(*lengths[::-1]), batch_size=64)
    longest = [row for (ids,) in unshuffled for row in (ids != 0).sum(1)]
    assert longest == sorted(lengths)
    assert [lengths[::-1][row] for row in unshuffled.order] == longest


def test_within_a_window_batches_shrink_with_the_length_not_with_its_square():
    lengths = [400] * 128 + [4096] * 20 + [100_000] * 2
    shapes = [ids.shape for (ids,) in LengthSortedBatches(rows(*lengths), batch_size=64, window=128)]
    assert shapes == [(64, 400)] * 2 + [(4, 4096)] * 5 + [(1, 100_000)] * 2
    assert all(size == 1 or size * longest * 257 <= 2**23 for size, longest in shapes)


def test_of_a_longer_row_a_batch_holds_a_run_and_another_one_each_time():
    lengths = [40, 300, 100, 7]
    batches = LengthSortedBatches(rows(*lengths), np.arange(4), batch_size=4, span=100, shuffle=True, seed=3)
    again = LengthSortedBatches(rows(*lengths), np.arange(4), batch_size=4, span=100, shuffle=True, seed=3)
    starts = []
    for _ in range(60):
        (ids, chosen), (same, _) = next(iter(batches)), next(iter(again))
        np.testing.assert_array_equal(ids, same)
        of_row = dict(zip(chosen.tolist(), ids, strict=True))
        starts.append(of_row[1][0])
        np.testing.assert_array_equal(of_row[1], np.arange(100) + starts[-1])
        for place in (0, 2, 3):
            np.testing.assert_array_equal(of_row[place][: lengths[place]], rows(lengths[place])[0])
            assert not of_row[place][lengths[place] :].any()
    assert 1 <= min(starts) < 20
    assert 180 < max(starts) <= 201
    assert len(set(starts)) > 40


def test_unshuffled_batches_tell_where_each_row_went():
    batches = LengthSortedBatches(rows(3, 0, 2), batch_size=2)
    assert [ids.shape for (ids,) in batches] == [(2, 2), (1, 3)]
    assert batches.order.tolist() == [1, 2, 0]


def test_lists_are_no_texts(tmp_path):
    file = written(tmp_path, "t.jsonl", '{"text": "a", "label": "x"}\n{"text": ["a", "b"], "label": "y"}\n')
    with pytest.raises(DataError, match=r"'text' in line 2 must be a text. Received a list, .*--task tokens"):
        read_table(file)
    with pytest.raises(DataError, match=r"'text' in line 2 must be a text. Received a list"):
        read_corpus(file)


def test_one_row_of_each_label_cannot_be_split():
    rows = LabelledRows([f"text {n}" for n in range(30)], [f"label {n}" for n in range(30)], "made up")
    alike = LabelledRows(["good", "bad"] * 30, ["+", "-"] * 30, "made up")
    for given, labels in ((rows, 30), (alike, 2)):
        with pytest.raises(
            DataError,
            match=f"one row of each of its {labels} labels, or rows that are all alike, so that none",
        ):
            split_rows(given, 0.1, 0)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", b'\xef\xbb\xbftext,n\r\na,1\r\n"b\n\r\n""c""",2\r\n\r\nd\r\ne\xff,3\r\n"f"g,4\r\nh,5'),
        ("t.csv", b'text,n\ra,1\r"b\rc",2\rd,3\r'),
        ("t.tsv", b'text\tn\na"\t1\nb\n"c\t2\n'),
        ("t.jsonl", b'\xef\xbb\xbf{"a": 1}\n\n{]\n[1]\n{"a": "\xff"}\r\n{"a": "\\ud800"}\n  \n{"a": 2}'),
    ],
)
def test_reading_goes_on_from_the_end_of_any_row(tmp_path, name, content):
    """Also after rows that cannot be read, and within line ends of every kind."""
    file = tmp_path / name
    file.write_bytes(content)
    rows = list(iter_rows(file))
    assert len(rows) >= 3
    for number, row in enumerate(rows):
        assert list(iter_rows(file, start=row.end)) == rows[number + 1 :]
        assert (row.values is None) == bool(row.problem)
    assert [row.line for row in rows] == sorted({row.line for row in rows})


def test_a_quote_that_nobody_closes_does_not_read_a_file_into_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_selfattn.data.formats.records._MOST_BYTES", 100)
    file = tmp_path / "t.csv"
    file.write_text('text\n"a\n' + "b\n" * 100)
    with pytest.raises(DataError, match=r"the row from line \d+ on has over 0 MiB. Is a quote missing"):
        list(iter_rows(file))
