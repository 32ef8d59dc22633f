"""Texts with spans, as annotation tools write them, become rows of tokens with labels, or are refused."""

import copy
import json
import re
import warnings

import pytest
from annotation_samples import (
    BRAT,
    BRAT_TEXT,
    DOCCANO,
    DOCCANO_RELATIONS,
    PRODIGY,
    SPACY,
    STUDIO,
    STUDIO_MINIMAL,
    STUDIO_TASKS,
    WORDS,
    annotation,
)
from click.testing import CliRunner

from keras_selfattn.cli.main import main
from keras_selfattn.data import read_table, read_tagged
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.runs.run_folder import read_config, rows_for_run


@pytest.fixture
def write(tmp_path):
    def written(name, content):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    return written


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def doccano(text, *spans):
    """A file of doccano: a text that is no question, and one with spans."""
    return lines({"text": "Ada.", "label": [[0, 3, "PER"]]}, {"text": text, "label": list(map(list, spans))})


def spans_of(rows):
    """The labelled tokens of each row, for a short comparison."""
    return [
        " ".join(f"{token}/{label}" for token, label in zip(*row, strict=True) if label != "O")
        for row in zip(rows.inputs, rows.targets, strict=True)
    ]


def warned(read):
    """The rows that are read, and what is warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = read()
    return rows, [str(each.message) for each in caught]


class TestForms:
    def test_doccano(self, write):
        rows, said = warned(lambda: read_tagged(write("d.jsonl", DOCCANO)))
        assert rows.inputs[0] == ["EU", "rejects", "German", "call", "to", "boycott", "British", "lamb", "."]
        assert rows.targets[0] == ["B-ORG", "O", "B-MISC", *"OOOOOO"]
        assert spans_of(rows) == ["EU/B-ORG German/B-MISC", "Peter/B-PERSON Blackburn/I-PERSON", ""]
        assert (rows.where, said) == ([1, 2, 3], [])
        assert rows.note.endswith(
            "d.jsonl (doccano): 3 texts with 3 spans of 3 labels: MISC, ORG, PERSON. The trained model takes "
            "such texts: predict and query --file read a column text, or a .txt, and write spans. As tokens "
            "they are split by keras_selfattn.rows.text_tokens.split_text."
        )

    def test_doccano_with_relations(self, write):
        rows, said = warned(lambda: read_tagged(write("d.jsonl", DOCCANO_RELATIONS)))
        assert spans_of(rows) == [
            "Google/B-ORG September/B-DATE 4/I-DATE ,/I-DATE 1998/I-DATE "
            "Larry/B-PERSON Page/I-PERSON Sergey/B-PERSON Brin/I-PERSON"
        ]
        assert "relations (2)" in said[0]
        assert "; left out: relations (2). The trained model takes such texts" in rows.note

    def test_prodigy(self, write):
        rows, said = warned(lambda: read_tagged(write("p.jsonl", PRODIGY)))
        assert (rows.inputs, rows.where) == ([["Apple", "updates"], ["No", "one"]], [1, 2])
        assert rows.targets == [["B-ORG", "O"], ["O", "O"]]
        assert "1 text with the answer reject (the first: line 3)" in said[0]
        assert "1 text with the answer ignore (the first: line 4)" in said[0]

    @pytest.mark.parametrize("content", [STUDIO, STUDIO_MINIMAL])
    def test_label_studio(self, write, content):
        rows, said = warned(lambda: read_tagged(write("s.json", content)))
        assert spans_of(rows) == ["Ada/B-PER Lovelace/I-PER Babbage/B-PER", "Paris/B-LOC", ""]
        assert rows.where == ["task 1", "task 3", "task 4"]
        left = "1 text cancelled or not annotated (the first: task 2); relations (1), which are no spans"
        assert [each.split("left out: ")[1] for each in said] == ([f"{left}."] if content is STUDIO else [])

    def test_label_studio_a_task_a_line(self, write):
        rows, _ = warned(lambda: read_tagged(write("s.jsonl", lines(*STUDIO_TASKS))))
        assert (len(rows), rows.where[0]) == (3, 1)

    def test_brat(self, write):
        write("b/b.txt", "Not annotated.")
        folder = write("b/annotation.conf", "[entities]").parent
        write("b/sub/a.ann", BRAT)
        write("b/sub/a.txt", BRAT_TEXT)
        rows, said = warned(lambda: read_tagged(folder))
        assert spans_of(rows) == [
            "Sony/B-Organization joint/B-MERGE-ORG venture/I-MERGE-ORG Ericsson/B-Organization "
            "Sony/B-Organization"
        ]
        assert rows.where == ["sub/a.txt"]
        assert "1 text without an .ann (the first: b.txt)" in said[0]
        for each in ("events (1)", "relations (1)", "attributes (1)", "normalisations (1)", "notes (1)"):
            assert each in said[0]

    def test_brat_with_dots_in_names(self, write):
        for name, text in {"a": "Ada", "a.1": "Bob x", "2013.04.05": "Eve"}.items():
            write(f"b/{name}.txt", text)
            write(f"b/{name}.ann", f"T1\tPER 0 3\t{text[:3]}\n")
        folder = write("b/a.1.2.txt", "Not annotated.").parent
        rows, said = warned(lambda: read_tagged(folder))
        assert (rows.where, spans_of(rows)) == (
            ["2013.04.05.txt", "a.txt", "a.1.txt"],
            ["Eve/B-PER", "Ada/B-PER", "Bob/B-PER"],
        )
        assert "1 text without an .ann (the first: a.1.2.txt)" in said[0]

    def test_brat_leaves_out_hidden_files(self, write):
        write("b/a.txt", "Ada")
        folder = write("b/a.ann", "T1\tPER 0 3\tAda\n").parent
        for name in ("._a.ann", ".b.txt", ".old/a.ann", "c/.old/c.txt"):
            write(f"b/{name}", b"\x00\xff")
        rows, said = warned(lambda: read_tagged(folder))
        assert (rows.where, said) == (["a.txt"], [])

    @pytest.mark.parametrize("start", [5, 4])
    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    def test_brat_with_byte_order_marks(self, write, start, end):
        """Offsets count the one of the text, as brat does, or not."""
        write("b/a.txt", f"\ufeffAda{end}met Bob")
        later = start + len(end) - 1
        spans = f"T1\tPER {later} {later + 3}\tmet\n"
        folder = write("b/a.ann", f"\ufeff{spans}T2\tPER {later + 4} {later + 7}\tBob\n").parent
        rows = read_tagged(folder)
        assert (rows.inputs, spans_of(rows)) == ([["Ada", "met", "Bob"]], ["met/B-PER Bob/B-PER"])

    @pytest.mark.parametrize("name", ["w.iob", "w.txt"])
    def test_words_with_labels_a_row_a_line(self, write, name):
        rows = read_tagged(write(name, WORDS))
        assert spans_of(rows) == ["London/I-GPE New/B-GPE York/I-GPE City/I-GPE", ""]
        tagged = WORDS.replace("|", "|X|")
        assert read_tagged(write(name, tagged)).targets == rows.targets

    def test_lists_of_tokens_are_read_as_before(self, write):
        record = {"text": "Ada.", "tokens": ["Ada", "."], "labels": ["B-PER", "O"], "label": [[0, 3, "X"]]}
        assert read_tagged(write("t.jsonl", lines(record))).targets == [["B-PER", "O"]]

    def test_the_first_record_that_tells_decides(self, write):
        empty = [{"text": text, "label": []} for text in ("It snowed.", "It hailed.")]
        assert len(read_tagged(write("d.jsonl", lines(*empty) + DOCCANO))) == 5

    def test_other_names_of_the_text_and_of_the_spans(self, write):
        record = {"body": "Ada.", "label": [], "names": [[0, 3, "PER"]]}
        rows = read_tagged(write("d.jsonl", lines(record)), text="body", label="names")
        assert spans_of(rows) == ["Ada/B-PER"]

    @pytest.mark.parametrize(("text", "spans", "labels"), SPACY)
    def test_spacy_gives_the_same_labels(self, write, text, spans, labels):
        file = write("d.jsonl", lines({"text": text, "label": spans}))
        if labels is None:
            with pytest.raises(DataError, match="inside the token"):
                read_tagged(file, offsets="characters")
        else:
            assert read_tagged(file, offsets="characters").targets == [labels.split()]


class TestUnits:
    def test_the_file_tells_units_of_utf_16(self, write):
        content = lines({"text": "👨🏻🚒 firemen drive firetrucks", "label": [[21, 31, "X"]]})
        units = json.loads(content)["text"].encode("utf-16-le")
        assert units[42:62].decode("utf-16-le") == "firetrucks"
        rows = read_tagged(write("d.jsonl", content))
        assert spans_of(rows) == ["firetrucks/B-X"]
        assert "offsets in units of UTF-16" in rows.note

    def test_the_file_tells_characters(self, write):
        rows = read_tagged(write("d.jsonl", doccano("😀 Ada", (2, 5, "PER"))))
        assert spans_of(rows)[1] == "Ada/B-PER"
        assert "UTF-16" not in rows.note

    def test_one_text_tells_for_all(self, write):
        unsure = {"text": "😀東京都", "label": [[2, 4, "LOC"]]}
        sure = {"text": "😀 Ada wrote", "label": [[3, 6, "PER"]]}
        assert spans_of(read_tagged(write("d.jsonl", lines(unsure, sure))))[0] == "東/B-LOC 京/I-LOC"

    def test_a_file_that_does_not_tell_is_refused(self, write):
        file = write("d.jsonl", doccano("😀東京都", (2, 3, "LOC")))
        with pytest.raises(
            DataError, match=r"the first in line 2.* all spans are whole tokens.*--offsets utf-16"
        ):
            read_tagged(file)
        assert spans_of(read_tagged(file, offsets="utf-16"))[1] == "東/B-LOC"
        assert spans_of(read_tagged(file, offsets="characters"))[1] == "京/B-LOC"

    def test_a_file_that_fits_neither_is_refused(self, write):
        with pytest.raises(DataError, match="not all spans are whole tokens"):
            read_tagged(write("d.jsonl", doccano("😀 wonder 😀", (4, 6, "LOC"))))

    def test_an_offset_inside_a_character_is_refused(self, write):
        with pytest.raises(DataError, match=r"span 1-2 \(X\) in line 2 has an offset that is no place"):
            read_tagged(write("d.jsonl", doccano("😀 Ada", (1, 2, "X"))), offsets="utf-16")

    def test_label_studio_before_code_points(self, write):
        tasks = copy.deepcopy(STUDIO_TASKS)
        for region in tasks[0]["annotations"][0]["result"][:2]:
            region["value"]["start"] += 1
            region["value"]["end"] += 1
        rows, _ = warned(lambda: read_tagged(write("s.json", json.dumps(tasks))))
        assert spans_of(rows)[0] == "Ada/B-PER Lovelace/I-PER Babbage/B-PER"

    def test_other_units_than_those_of_the_tool_are_refused(self, write):
        with pytest.raises(ConfigError, match="Prodigy counts characters"):
            read_tagged(write("p.jsonl", PRODIGY), offsets="utf-16")
        with pytest.raises(ConfigError, match="must be one of characters, utf-16"):
            read_tagged(write("d.jsonl", DOCCANO), offsets="bytes")
        with pytest.raises(ConfigError, match="`offsets` is for texts with spans"):
            read_tagged(write("t.conll", "a\tO\n"), offsets="utf-16")

    def test_carriage_returns_are_characters(self, write):
        rows = read_tagged(write("d.jsonl", doccano("Ada\r\nmet Bob", (9, 12, "PER"))))
        assert spans_of(rows)[1] == "Bob/B-PER"

    @pytest.mark.parametrize("start", [9, 8])
    def test_brat_counts_carriage_returns_unless_the_texts_say_otherwise(self, write, start):
        write("b/a.txt", "Ada\r\nmet Bob")
        folder = write("b/a.ann", f"T1\tPER {start} {start + 3}\tBob\r\n").parent
        assert spans_of(read_tagged(folder)) == ["Bob/B-PER"]


UNFIT = [
    ([(0, 2, "X")], r"the span 0-2 \(X\) in line 2 ends inside the token 'Ada'"),
    ([(1, 3, "X")], r"begins inside the token 'Ada'"),
    ([(0, 30, "X")], r"no place in its text of 12 characters"),
    ([(-1, 3, "X")], r"no place in its text"),
    ([(3, 3, "X")], r"is empty"),
    ([(7, 4, "X")], r"is empty"),
    ([(3, 4, "X")], r"is empty, or white space alone"),
    ([(4, 11, "Y"), (0, 7, "X")], r"the span 4-11 \(Y\) in line 2 overlaps with the span 0-7 \(X\)"),
    ([(0, 3, "X"), (0, 3, "Y")], r"overlaps"),
]


class TestUnfitTexts:
    @pytest.mark.parametrize(("spans", "said"), UNFIT)
    def test_what_labels_cannot_mark_is_refused_or_left_out(self, write, spans, said):
        file = write("d.jsonl", doccano("Ada met Bob.", *spans))
        with pytest.raises(DataError, match=f"{re.escape(str(file))}: .*{said}.*--skip-unfit-texts"):
            read_tagged(file)
        rows, warnings_ = warned(lambda: read_tagged(file, skip_unfit_texts=True))
        assert rows.inputs == [["Ada", "."]]
        assert "1 text unfit for labels of tokens (the first: line 2)" in warnings_[0]

    def test_blanks_at_the_ends_and_repetitions_of_a_span_change_nothing(self, write):
        rows = read_tagged(write("d.jsonl", doccano("Ada met Bob.", (3, 8, "X"), (3, 8, "X"))))
        assert spans_of(rows)[1] == "met/B-X"

    def test_neighbours_are_two_spans(self, write):
        rows = read_tagged(write("d.jsonl", doccano("Ada Bob", (4, 7, "X"), (0, 3, "X"))))
        assert spans_of(rows)[1] == "Ada/B-X Bob/B-X"

    def test_a_span_of_several_parts(self, write):
        write("b/a.txt", "Ada and Bob Lovelace")
        folder = write("b/a.ann", "T1\tPER 0 3;12 20\tAda Lovelace\nT2\tPER 8 20\tBob Lovelace\n").parent
        with pytest.raises(
            DataError, match=r"a.txt has a span of 2 parts, 'Ada Lovelace' \(line 1 of a.ann\)"
        ):
            read_tagged(folder)

    def test_several_annotators_of_a_text(self, write):
        tasks = copy.deepcopy(STUDIO_TASKS)
        tasks[2]["annotations"][1] = annotation(1004, [], annotator=2)
        file = write("s.json", json.dumps(tasks))
        with pytest.raises(DataError, match="task 3 has 2 annotations that differ, of several annotators"):
            read_tagged(file)
        rows, _ = warned(lambda: read_tagged(file, skip_unfit_texts=True))
        assert rows.where == ["task 1", "task 4"]

    def test_of_annotators_who_agree_on_spans_each_counts_with_what_is_no_span(self, write):
        tasks = copy.deepcopy(STUDIO_TASKS)
        result = tasks[2]["annotations"][1]["result"]
        region = copy.deepcopy(result[0])
        region["value"]["labels"] = ["PER", "LOC"]
        result.append(region)
        with pytest.raises(DataError, match="task 3 has a span with 2 labels"):
            read_tagged(write("s.json", json.dumps(tasks)))

    def test_several_annotators_in_several_records(self, write):
        minimal = STUDIO_MINIMAL.replace('"end": 5, "text": "Paris"', '"end": 8, "text": "Paris is"', 1)
        file = write("m.json", minimal)
        with pytest.raises(
            DataError, match="task 3 is annotated again in task 3, with other spans: keep one"
        ):
            read_tagged(file)
        rows, said = warned(lambda: read_tagged(file, skip_unfit_texts=True))
        assert rows.where == ["task 1", "task 4"]
        assert "2 texts unfit" in said[0]

    def test_several_annotators_in_several_lines(self, write):
        content = PRODIGY + lines({"text": "Apple updates", "_input_hash": 11, "answer": "accept"})
        match = "line 1 is annotated again in line 5, with other spans: keep one"
        with pytest.raises(DataError, match=match):
            read_tagged(write("p.jsonl", content))
        span = {"start": 0, "end": 3, "label": "PER"}
        content += lines({"text": "Bob", "_input_hash": 15, "answer": "accept", "spans": [span]})
        rows, said = warned(lambda: read_tagged(write("p.jsonl", content), skip_unfit_texts=True))
        assert "2 texts unfit" in said[0]
        assert rows.inputs == [["No", "one"], ["Bob"]]

    def test_several_annotators_with_a_folder_each(self, write):
        for name in ("a", "b"):
            write(f"b/{name}/1.txt", "Ada met Bob.")
            write(f"b/{name}/1.ann", "T1\tPER 0 3\tAda\n")
            write(f"b/{name}/2.txt", "Eve saw.")
            folder = write(f"b/{name}/2.ann", "T1\tPER 0 3\tEve\n").parent.parent
        assert read_tagged(folder).where == ["a/1.txt", "a/2.txt"]
        write("b/b/1.ann", "")
        match = "a/1.txt is annotated again in b/1.txt, with other spans: keep one"
        with pytest.raises(DataError, match=match):
            read_tagged(folder)
        rows, said = warned(lambda: read_tagged(folder, skip_unfit_texts=True))
        assert (rows.where, "2 texts unfit" in said[0]) == (["a/2.txt"], True)

    @pytest.mark.parametrize("name", ["d.jsonl", "s.json"])
    def test_a_text_that_is_written_twice(self, write, name):
        def content(label):
            if name == "d.jsonl":
                return doccano("Ada.", (0, 3, label))
            tasks = [copy.deepcopy(STUDIO_TASKS[2]) for _ in range(2)]
            for each in tasks[1]["annotations"]:
                each["result"][0]["value"]["labels"] = [label]
            return json.dumps(tasks).replace("LOC", "PER")

        assert len(read_tagged(write(name, content("PER")))) == 1
        with pytest.raises(DataError, match="is annotated again in .*, with other spans: keep one"):
            read_tagged(write(name, content("ORG")))

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"type": "hypertextlabels"}, "regions of the type hypertextlabels, in HTML"),
            ({"value": {"start": 0, "end": 5, "labels": ["A", "B"]}}, "a span with 2 labels"),
            ({"value": {"start": 0, "end": 5, "text": "Parma", "labels": ["A"]}}, "'Paris'.* says 'Parma'"),
            ({"to_name": "title"}, "marks 2 texts"),
        ],
    )
    def test_regions_of_label_studio_that_are_no_spans_of_the_text(self, write, change, said):
        tasks = copy.deepcopy(STUDIO_TASKS[2:3])
        region = tasks[0]["annotations"][0]["result"][0]
        del tasks[0]["annotations"][1]
        tasks[0]["annotations"][0]["result"] = [{**region, **change}]
        if "to_name" in change:
            tasks[0]["annotations"][0]["result"].append(region)
        with pytest.raises(DataError, match=said):
            read_tagged(write("s.json", json.dumps(tasks)))

    @pytest.mark.parametrize("form", ["JSON", "JSON-MIN"])
    @pytest.mark.parametrize("place", [0, 3])
    def test_two_controls_of_label_studio_need_the_name_of_one(self, write, form, place):
        """Also if no task has spans of both."""
        value = {"start": 0, "end": 1 if place == 0 else 6, "labels": ["SYM"]}
        if form == "JSON":
            tasks = copy.deepcopy(STUDIO_TASKS)
            region = {"from_name": "pos", "to_name": "text", "type": "labels", "value": value}
            tasks[place]["annotations"][0]["result"].append(region)
        else:
            tasks = json.loads(STUDIO_MINIMAL)
            tasks[place]["pos"] = [value]
        file = write("s.json", json.dumps(tasks))
        said = f"has spans under 'label' and 'pos', the second in task {tasks[place]['id']}.*--label"
        with pytest.raises(DataError, match=said):
            read_tagged(file, skip_unfit_texts=True)
        rows, _ = warned(lambda: read_tagged(file, label="label"))
        assert spans_of(rows) == ["Ada/B-PER Lovelace/I-PER Babbage/B-PER", "Paris/B-LOC", ""]
        rows, _ = warned(lambda: read_tagged(file, label="pos"))
        assert spans_of(rows)[0 if place == 0 else 2] == ("😀/B-SYM" if place == 0 else "Nobody/B-SYM")
        with pytest.raises(DataError, match="no spans under 'x'.* has some under 'label' and 'pos'"):
            read_tagged(file, label="x")

    @pytest.mark.parametrize(
        "answer",
        [
            {"label": "POSITIVE"},
            {"accept": ["A"], "options": [{"id": "A", "text": "A"}]},
            {"options": [{"id": "A", "text": "A"}]},
            {"accept": []},
            {"label": "POSITIVE", "spans": None},
            {"_view_id": "choice", "accept": [], "spans": []},
        ],
    )
    def test_answers_of_prodigy_to_whole_texts(self, write, answer):
        content = PRODIGY + lines({"text": "Ada wrote", "answer": "accept", **answer})
        rows, said = warned(lambda: read_tagged(write("p.jsonl", content)))
        assert rows.inputs == [["Apple", "updates"], ["No", "one"]]
        assert "1 text with labels of the whole text and no spans (the first: line 5)" in said[0]

    def test_answers_of_prodigy_to_whole_texts_with_spans_are_of_both(self, write):
        span = {"start": 0, "end": 3, "label": "PER"}
        content = PRODIGY + lines({"text": "Ada wrote", "answer": "accept", "accept": ["A"], "spans": [span]})
        assert spans_of(warned(lambda: read_tagged(write("p.jsonl", content)))[0])[-1] == "Ada/B-PER"

    def test_answers_of_prodigy_to_single_spans(self, write):
        binary = PRODIGY.replace("ner_manual", "ner", 1)
        with pytest.raises(DataError, match="line 1 is a yes to one span that a model proposed"):
            read_tagged(write("p.jsonl", binary))


class TestRefused:
    @pytest.mark.parametrize(
        ("label", "said"),
        [
            ("B-PER", "'B-PER'. Labels of spans are names"),
            (" ", "is ' '"),
            ("", "is missing"),
            (None, "missing"),
        ],
    )
    def test_labels(self, write, label, said):
        with pytest.raises(DataError, match=rf"the label of the span 0-3 .* in line 2 .*{said}"):
            read_tagged(write("d.jsonl", doccano("Ada met Bob.", (0, 3, label))), skip_unfit_texts=True)

    def test_a_label_with_the_letter_of_another_mark_is_a_name(self, write):
        rows = read_tagged(write("d.jsonl", doccano("S-Bahn", (0, 6, "S-Bahn"))))
        assert rows.targets[1] == ["B-S-Bahn", "I-S-Bahn", "I-S-Bahn"]

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (lines({"text": "a", "label": [[0, 1, "X"]]}, {"text": "b"}), "line 2 has no spans"),
            (lines({"text": "a", "label": [[0, 1, "X"]]}, {"label": []}), "line 2 has no 'text'"),
            (lines({"text": "a", "label": [[0, 1, "X"]]}, {"text": 7, "label": []}), "must be a text"),
            (
                lines({"text": "a", "label": [[0, 1, "X"]], "entities": []}),
                "'entities' and 'label', of which one",
            ),
            (doccano("Ada", (0.5, 3, "X")), "offsets are integers"),
            (doccano("Ada", (0, 3)), "must hold spans"),
            (doccano("Ada", (0, 3, ["X"])), "one label each, a name. Received .*'X'"),
            (
                lines({"text": "a", "label": [[0, 1, "X"]]}, {"text": "b", "label": "X"}),
                "must be a list of spans",
            ),
            (PRODIGY.replace('"reject"', '"maybe"'), "'answer' of line 3 must be accept or reject or ignore"),
            (
                PRODIGY.replace("accept", "ignore"),
                "has no spans in 0 texts .*left out: 3 texts with the answer",
            ),
        ],
    )
    def test_records(self, write, content, said):
        with pytest.raises(DataError, match=said):
            read_tagged(write("d.jsonl", content), skip_unfit_texts=True)

    def test_a_record_of_two_forms(self, write):
        both = {
            "text": "Ada Bob",
            "label": [[0, 3, "P"]],
            "spans": [{"start": 4, "end": 7, "label": "Q"}],
        }
        for first in ("", DOCCANO):
            file = write("d.jsonl", first + lines(both))
            said = f"line {4 if first else 1} is of two forms, Prodigy and doccano.*--label"
            with pytest.raises(DataError, match=said):
                read_tagged(file)
            assert spans_of(read_tagged(file, label="label"))[-1] == "Ada/B-P"
        assert spans_of(read_tagged(write("p.jsonl", lines(both)), label="spans"))[-1] == "Bob/B-Q"

    def test_records_of_two_forms_in_a_file(self, write):
        with pytest.raises(DataError, match="line 4 is of the form Prodigy, others are of doccano"):
            read_tagged(write("d.jsonl", DOCCANO + PRODIGY))
        with pytest.raises(DataError, match="line 5 is of the form doccano, others are of Prodigy"):
            read_tagged(write("d.jsonl", PRODIGY + DOCCANO))

    def test_a_control_of_label_studio_may_have_the_name_of_spans_in_other_forms(self, write):
        content = STUDIO_MINIMAL.replace('"label":', '"spans":')
        assert len(read_tagged(write("m.json", content))) == 3

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ("{}", "must be a JSON list of objects"),
            ('{"a": 1}\n{"a": 2}\n', "Name a file with an object a line .jsonl"),
            ("[1]", "must be a JSON list of objects"),
            ('[{"a": 1, "a": 2}]', "two values of 'a'"),
            ("[{}]", "no texts with spans in a known form: Label Studio"),
            ('[{"tokens": ["a"], "labels": ["b"]}]', "write tokens that are split already to a .jsonl"),
            (b"\xff", "is not UTF-8: byte 0xff"),
            ("", "is empty"),
        ],
    )
    def test_lists_of_records(self, write, content, said):
        with pytest.raises(DataError, match=said):
            read_tagged(write("s.json", content))

    @pytest.mark.parametrize(
        "spans",
        [
            {"entities": [{"start": 0, "end": 3, "label": "PER"}]},
            {"label": [[0.0, 3.0, "PER"]]},
            {"label": [["0", "3", "PER"]]},
            {"label": []},
            {"label": "good"},
        ],
    )
    def test_lines_of_texts_without_spans_of_a_known_form(self, write, spans):
        file = write("d.jsonl", lines({"text": "Ada", **spans}))
        match = "has no column 'tokens', and no texts with spans in a known form: Label Studio.* doccano"
        with pytest.raises(DataError, match=match):
            read_tagged(file)

    def test_spans_as_labels_of_texts_name_the_task(self, write):
        with pytest.raises(DataError, match=r"line 1 must be a list of labels.*\. Spans .* --task tokens"):
            read_table(write("d.jsonl", DOCCANO))

    @pytest.mark.parametrize(
        ("spans", "said"),
        [
            ("T1\tPER 0 3\tBob\n", "is 'Ada' in its text, where the file says 'Bob'"),
            ("T1 PER 0 3 Ada\n", "line 1, 'T1 PER 0 3 Ada', is no annotation"),
            ("T1\tPER 0\tAda\n", "is no annotation"),
            ("T1\tPER 0 ٣\tAda\n", "is no annotation"),
            (f"T1\tPER 0 {'3' * 5000}\tAda\n", "is no annotation"),
            ("", "has no spans in 1 text "),
            (None, "no .ann files"),
        ],
    )
    def test_folders(self, write, spans, said):
        folder = write("b/a.txt", "Ada met Bob.").parent
        if spans is not None:
            write("b/a.ann", spans)
        with pytest.raises(DataError, match=said):
            read_tagged(folder)

    def test_a_folder_with_spans_of_no_text(self, write):
        with pytest.raises(DataError, match="has no a.txt beside it"):
            read_tagged(write("b/a.ann", BRAT).parent)
        with pytest.raises(ConfigError, match="`text` is for files"):
            read_tagged(write("b/a.ann", BRAT).parent, text="text")

    def test_words_with_bars(self, write):
        with pytest.raises(DataError, match=r"line 1 has '\|\|O', with 2 '\|', where 1 are in most words"):
            read_tagged(write("w.iob", "a|O b|O ||O\n"))


WRONG = [None, 5, "x", [5], [[5]], {"a": 1}]


def places_in(value, at=()):
    """The place of each part of parsed JSON, itself and the names that are none of its own included."""
    yield at
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from places_in(part, (*at, key))


def changed(value, at, new):
    """The value with another part at a place."""
    if not at:
        return new
    copied = copy.copy(value)
    copied[at[0]] = changed(value[at[0]], at[1:], new)
    return copied


def parsed(content):
    return [json.loads(line) for line in content.splitlines()]


class TestAnyJson:
    """A file with any value of JSON in any place is read, or refused by name."""

    @pytest.mark.parametrize(
        ("at", "new", "said"),
        [
            (("data",), 5, "the 'data' of task 3 must be an object. Received 5"),
            (("annotations", 0), 5, "each of the 'annotations' of task 3 must be an object"),
            (("annotations", 0, "result"), 5, "a 'result' of task 3 must be a list"),
            (("annotations", 0, "result", 0), 5, "a region of task 3 must be an object"),
            (
                ("annotations", 0, "result", 0, "value"),
                [5],
                "a region of task 3 has a 'value' that must be an",
            ),
            (("annotations", 0, "result", 0, "value", "labels"), "LOC", "has 'labels' that must be a list"),
            (("annotations", 0, "result", 0, "value", "labels"), [["LOC"]], "one label each, a name"),
        ],
    )
    def test_values_of_other_types_in_label_studio(self, write, at, new, said):
        bad = [STUDIO_TASKS[0], changed(STUDIO_TASKS[2], at, new)]
        with pytest.raises(DataError, match=f"s.json: .*{said}"):
            read_tagged(write("s.json", json.dumps(bad)))

    @pytest.mark.parametrize(
        ("name", "records"),
        [
            ("d.jsonl", parsed(DOCCANO)[:1] * 2),
            ("d.jsonl", parsed(DOCCANO_RELATIONS)),
            ("p.jsonl", [{**parsed(PRODIGY)[0], "label": "X", "relations": []}]),
            ("s.json", STUDIO_TASKS[:1]),
            ("s.json", STUDIO_TASKS[2:3]),
            (
                "s.json",
                [{"completions": STUDIO_TASKS[2]["annotations"], "data": {"text": "Paris is quiet."}}],
            ),
            ("m.json", json.loads(STUDIO_MINIMAL)[:2]),
        ],
    )
    @pytest.mark.parametrize("kept", [True, False])
    @pytest.mark.slow
    def test_values_of_other_types(self, write, name, records, kept):
        """Also behind records that tell the form."""
        read, refused, file = 0, [], write(name, "")
        for at in places_in(records):
            for new in WRONG if at else ():
                bad = [*(records if kept else []), *changed(records, at, new)]
                file = write(name, json.dumps(bad) if name.endswith(".json") else lines(*bad))
                try:
                    warned(lambda file=file: read_tagged(file))
                    read += 1
                except DataError as error:
                    refused.append(str(error))
                except Exception as error:
                    raise AssertionError(f"{new!r} at {at}") from error
        assert min(read, len(refused)) > 10
        assert all(str(file) in message for message in refused)


def invoke(*arguments):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*: left out: ")
        return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A file of doccano, and the run that the command trained on it, with what it printed."""
    folder = tmp_path_factory.mktemp("spans")
    records = [{"text": f"Ada met Bob{n}.", "label": [[0, 3, "PER"]]} for n in range(30)]
    (folder / "d.jsonl").write_text(lines(*records, {"text": "Ada", "label": [[0, 2, "X"]]}))
    command = ("train", folder / "d.jsonl", "--task", "tokens", "--skip-unfit-texts")
    done = invoke(
        *command, "--output", folder / "run", "--width", 8, "--members", 1, "--epochs", 1, "--no-refit"
    )
    assert done.exit_code == 0, done.output
    return folder, done.output


@pytest.mark.slow
def test_the_command_trains_on_a_file_of_doccano_and_says_what_it_read(trained):
    folder, output = trained
    assert "d.jsonl (doccano): 30 texts with 30 spans of 1 label: PER; left out: 1 text unfit" in output
    assert read_config(folder / "run")["labels"] == ["B-PER", "O"]


@pytest.mark.slow
def test_evaluate_reads_the_file_as_training_did_and_other_forms_too(trained):
    folder, _ = trained
    done = invoke("evaluate", folder / "run", folder / "d.jsonl")
    assert done.exit_code == 0, done.output
    assert "Read " in done.output
    assert "span F1" in done.output
    (folder / "p.jsonl").write_text(PRODIGY)
    (folder / "s.json").write_text(STUDIO)
    (folder / "brat").mkdir()
    (folder / "brat" / "a.txt").write_text("Ada met Bob.")
    (folder / "brat" / "a.ann").write_text("T1\tPER 0 3\tAda\n")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*: left out: ")
        forms = [("p.jsonl", {}), ("s.json", {"offsets": "characters"}), ("brat", {"skip_unfit_texts": True})]
        assert [len(rows_for_run(folder / "run", folder / name, given)) for name, given in forms] == [2, 3, 1]
    (folder / "names.conll").write_text("Ada\tB-PER\n")
    assert rows_for_run(folder / "run", folder / "names.conll", {}).targets == [["B-PER"]]
