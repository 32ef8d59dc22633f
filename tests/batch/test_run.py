"""`predict` writes every row's answer once, in order, in every form; and says what it could not read."""

import csv
import datetime
import decimal
import io
import json
import math
import os
import random
import re
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from batch_models import damaged, save, save_tokens
from polars_files import INT128, unpacked

from keras_selfattn.data.formats.arrow_tables import arrow_records

pytestmark = pytest.mark.filterwarnings("ignore")
# Of all lengths, and whatever a form has to protect.
TEXTS = [
    "abcdef",
    "",
    "a,b",
    'say "so"',
    "two\nlines",
    "cr\ronly",
    "tab\there",
    "été 日本",
    " x ",
    "[1]",
    "null",
]


def expected(text):
    """The answers of the model, computed without it."""
    return ("long" if len(text) > 3 else "short", len(text) / 10)


def rows_of(count=200):
    draw = random.Random(1)
    return [{"id": str(n), "text": draw.choice(TEXTS) + "z" * draw.randrange(30)} for n in range(count)]


def write(path, rows):
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, ["id", "text"], quoting=csv.QUOTE_ALL, lineterminator="\r\n")
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=64)
    return path


def read(path):
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            return [{**row, "score": float(row["score"])} for row in csv.DictReader(file, strict=True)]
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return pq.read_table(path).to_pylist()


def errors(output):
    path = output.with_name(f"{output.name}.errors.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("output_ending", [".csv", ".jsonl", ".parquet"])
def test_every_row_has_its_answer_in_the_order_of_the_input(predict, tmp_path, ending, output_ending):
    rows = rows_of()
    output = tmp_path / f"out{output_ending}"
    done = predict(write(tmp_path / f"in{ending}", rows), output, "--batch-size", 7)
    assert done.exit_code == 0, done.output
    found = read(output)
    assert [list(row) for row in found[:1]] == [["id", "text", "predicted_label", "score"]]
    assert [{"id": row["id"], "text": row["text"]} for row in found] == rows
    for row in found:
        label, score = expected(row["text"])
        assert row["predicted_label"] == label
        assert row["score"] == pytest.approx(score, abs=1e-6)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([f"in{ending}", output.name])


def test_rows_that_cannot_be_read_are_told_with_their_lines_and_the_others_are_answered(predict, tmp_path):
    source, output = tmp_path / "in.csv", tmp_path / "out.jsonl"
    lines = ["id,text", "1,good", "2,a,b", "3,FAIL", '4,"two', 'lines"', '5,"x"y', "6,last"]
    source.write_bytes("\n".join(lines).encode() + b"\n7,caf\xe9\n8,end\n")
    done = predict(source, output)
    assert done.exit_code == 6
    assert "4 rows have no answer" in done.output
    assert [row["id"] for row in read(output)] == ["1", "4", "6", "8"]
    told = {error["line"]: error["reason"] for error in errors(output)}
    assert list(told) == [3, 4, 7, 9]
    assert "line 3 has 3 fields" in told[3]
    assert "a text is FAIL" in told[4]
    assert "is not UTF-8: byte 0xe9 in line 9" in told[9]


def test_rows_of_json_lines_that_are_no_texts_or_have_an_answers_column_are_told(predict, tmp_path):
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    rows = [{"text": "a"}, {"other": 1}, {"text": None}, {"text": ["a"]}, {"text": 5}, {"text": "\ud800"}]
    rows.append({"text": math.nan})
    rows.append({"text": "b", "predicted_label": "x"})
    source.write_text("".join(json.dumps(row) + "\n" for row in rows) + "{]\n[1]\n")
    done = predict(source, output)
    assert "has a column 'predicted_label' already" in done.output
    source.write_text("".join(json.dumps(row) + "\n" for row in rows[:-1]) + "{]\n[1]\n")
    done = predict(source, output)
    assert done.exit_code == 6
    found = read(output)
    assert [row.get("text") for row in found] == ["a", None, None, 5, "\ud800", None]
    assert {row["score"] for row in found if row.get("text") is None} == {0.0}, "that of an empty text"
    assert [error["line"] for error in errors(output)] == [4, 8, 9]


def test_a_header_alone_gives_a_header_and_no_rows(predict, tmp_path):
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_bytes(b"\xef\xbb\xbfid,text\r\n")
    done = predict(source, output)
    assert done.exit_code == 0, done.output
    assert output.read_text() == "id,text,predicted_label,score\n"


def test_parquet_keeps_the_types_of_the_columns(predict, tmp_path):
    when = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    table = pa.table(
        {"when": [when], "n": pa.array([7], pa.int16()), "blob": [b"\x00\xff"], "text": ["abcd"]}
    )
    pq.write_table(table, tmp_path / "in.parquet")
    done = predict(tmp_path / "in.parquet", tmp_path / "out.parquet")
    assert done.exit_code == 0, done.output
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.select(table.column_names).equals(table)
    assert found.schema.field("score").type == pa.float32()


def test_all_asked_outputs_are_written_lists_as_lists(predict, tmp_path):
    source = write(tmp_path / "in.jsonl", [{"id": "1", "text": "abcd", "score": "mine"}])
    done = predict(source, tmp_path / "out.jsonl", "--outputs", "score", "--outputs", "halves")
    assert done.exit_code == 0, done.output
    assert read(tmp_path / "out.jsonl") == [
        {"id": "1", "text": "abcd", "score": "mine", "predicted_score": 0.4, "halves": [2.0, -4.0]}
    ]


def test_a_folder_gives_a_folder_with_a_part_for_each(predict, tmp_path):
    source, output = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    for number, ending in enumerate([".csv", ".jsonl", ".parquet"]):
        write(source / f"part-{number}{ending}", rows_of(10 + number))
    (source / "_SUCCESS").write_text("")
    with (source / "part-1.jsonl").open("a") as file:
        file.write("{]\n")
    done = predict(source, output)
    assert done.exit_code == 6, done.output
    assert [len(read(path)) for path in sorted(output.iterdir())] == [10, 11, 12]
    assert [(error["file"], error["line"]) for error in errors(output)] == [("part-1.jsonl", 12)]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("in.csv", b"", "is empty"),
        ("in.csv", b"id,body\n1,a\n", "has the columns 'id', 'body'; the model takes 'text'"),
        ("in.csv", b"text,predicted_label\na,b\n", "has a column 'predicted_label' already"),
        ("in.ts", b"", "is no table of rows"),
        ("in.parquet", b"PAR1 half a file", "is not a whole Parquet file"),
    ],
)
def test_files_that_cannot_be_answered_are_refused_in_a_sentence(predict, tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    done = predict(tmp_path / name, tmp_path / "out.csv")
    assert done.exit_code == 1
    assert said in done.output
    assert not (tmp_path / "out.csv").exists()


def test_a_parquet_file_with_a_damaged_page_is_told_and_what_stands_before_it_is_kept(predict, tmp_path):
    done = predict(damaged(tmp_path / "in.parquet"), tmp_path / "out.csv")
    assert done.exit_code == 1
    kept, said = done.output.splitlines()
    assert re.match(r"[1-9][\d,]+ rows are kept in ", kept)
    assert f"Error: {tmp_path / 'in.parquet'} is not a whole Parquet file: " in said


def test_an_existing_output_is_replaced_only_if_asked(predict, tmp_path):
    source, output = write(tmp_path / "in.csv", rows_of(3)), tmp_path / "out.csv"
    output.write_text("mine")
    done = predict(source, output)
    assert done.exit_code == 1
    assert "exists already. Replace it with --overwrite" in done.output
    assert output.read_text() == "mine"
    assert predict(source, output, "--overwrite").exit_code == 0
    assert len(read(output)) == 3


def test_a_folder_with_other_files_is_not_replaced(predict, tmp_path):
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "part.csv", rows_of(3))
    output = tmp_path / "home"
    output.mkdir()
    (output / "thesis.tex").write_text("mine")
    done = predict(tmp_path / "in", output, "--overwrite")
    assert done.exit_code == 1
    assert "is no folder of parts, since it holds thesis.tex: it is not replaced" in done.output
    (output / "thesis.tex").rename(output / "old.csv")
    assert predict(tmp_path / "in", output, "--overwrite").exit_code == 0
    assert [path.name for path in output.iterdir()] == ["part.csv"]


@pytest.mark.parametrize("output", ["/dev/full", "."])
def test_an_output_that_is_no_file_is_refused(predict, tmp_path, output):
    done = predict(write(tmp_path / "in.csv", rows_of(3)), output, "--overwrite")
    assert done.exit_code == 1
    assert "--output must" in done.output


def test_what_another_model_began_is_not_mixed_with_this_one(predict, tmp_path, model):
    """The journal of a run that stops in its second window, as a cut Parquet file makes it."""
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    write(source, rows_of(9000))
    with source.open("ab") as file:
        file.write(b'1,"' + b"x" * 2**26)
    assert "Is a quote missing" in predict(source, output).output
    assert (tmp_path / ".out.csv.partial").is_dir()
    other = save(tmp_path / "other" / "1", 5)
    done = predict(source, output, of=other)
    assert "made of something else: model" in done.output
    assert "begin anew with --overwrite" in done.output
    source.write_bytes(source.read_bytes()[: -(2**26) - 3])
    assert "made of something else: input" in predict(source, output).output
    done = predict(source, output, "--overwrite", of=other)
    assert done.exit_code == 0, done.output
    assert len(read(output)) == 9000
    assert {row["predicted_label"] for row in read(output) if len(row["text"]) in (4, 5)} == {"short"}


def test_texts_between_quotes_stay_in_one_cell(predict, tmp_path):
    text = 'a "quoted"\nline, and\r\nmore'
    row = io.StringIO()
    csv.writer(row).writerow(["1", text])
    (tmp_path / "in.csv").write_bytes(b"id,text\n" + row.getvalue().encode())
    assert predict(tmp_path / "in.csv", tmp_path / "out.csv").exit_code == 0
    assert [found["text"] for found in read(tmp_path / "out.csv")] == [text]


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_rows_of_tokens_have_an_answer_for_each_token_and_none_for_padding(predict, tmp_path, ending):
    model = save_tokens(tmp_path / "labeller" / "1")
    rows = [["ab", "c"], ["d"], ["e", "f", "ghi"], []]
    tokens = [" ".join(row) for row in rows] if ending == ".csv" else rows
    source = tmp_path / f"in{ending}"
    if ending == ".csv":
        source.write_text("tokens,n\n" + "".join(f"{row},{n}\n" for n, row in enumerate(tokens)))
    elif ending == ".jsonl":
        source.write_text("".join(json.dumps({"tokens": row}) + "\n" for row in tokens))
    else:
        pq.write_table(pa.table({"tokens": pa.array(tokens, pa.list_(pa.string()))}), source)
    done = predict(source, tmp_path / "out.jsonl", of=model)
    assert done.exit_code == 0, done.output
    found = read(tmp_path / "out.jsonl")
    assert [row["predicted_label"] for row in found] == [[token.upper() for token in row] for row in rows]
    assert [row["score"] for row in found] == [[float(len(token)) for token in row] for row in rows]


def test_a_column_of_several_types_becomes_text_in_parquet(predict, tmp_path):
    source = tmp_path / "in.jsonl"
    ids = [*range(9000), "x", None, 2.5]
    source.write_text("".join(json.dumps({"id": one, "text": "a"}) + "\n" for one in ids))
    done = predict(source, tmp_path / "out.parquet")
    assert done.exit_code == 0, done.output
    found = pq.read_table(tmp_path / "out.parquet").column("id").to_pylist()
    assert found == [None if one is None else str(one) for one in ids]


def test_a_served_model_gives_the_same_and_its_version_belongs_to_the_output(predict, tmp_path, model):
    from keras_selfattn.serving.server import Server, ServerConfig

    rows = [*rows_of(300), {"id": "300", "text": "FAIL"}]
    source = write(tmp_path / "in.csv", rows)
    assert predict(source, tmp_path / "alone.csv").exit_code == 6
    with Server(ServerConfig("lengths", model, port=0)) as server:
        done = predict(source, tmp_path / "out.csv", "--target", f"localhost:{server.port}", of="lengths")
        assert done.exit_code == 6, done.output
        missing = predict(source, tmp_path / "no.csv", "--target", f"localhost:{server.port}", of="none")
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "alone.csv").read_bytes()
    assert [error["line"] for error in errors(tmp_path / "out.csv")] == [
        error["line"] for error in errors(tmp_path / "alone.csv")
    ]
    assert missing.exit_code == 3


@pytest.mark.parametrize(
    ("missing", "options", "said"),
    [
        ("pyarrow", [], "Parquet needs pyarrow: pip install 'keras-selfattn[parquet]'"),
        ("ray.data", ["--ray", "auto"], "Ray is not installed: pip install 'keras-selfattn[ray]'"),
    ],
)
def test_a_missing_package_is_told_with_the_extra_that_brings_it(
    predict, tmp_path, monkeypatch, missing, options, said
):
    monkeypatch.setitem(sys.modules, missing, None)
    source = write(tmp_path / "in.csv", rows_of(3))
    done = predict(source, tmp_path / ("out.csv" if options else "out.parquet"), *options)
    assert done.exit_code == 1
    assert done.output == f"Error: {said}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_json_lines_whose_rows_cannot_be_read_have_only_errors(predict, tmp_path):
    (tmp_path / "in.jsonl").write_text("{]\n" * 1000 + '{"text": "a"}\n')
    done = predict(tmp_path / "in.jsonl", tmp_path / "out.csv")
    assert done.exit_code == 6, done.output
    assert [error["line"] for error in errors(tmp_path / "out.csv")] == list(range(1, 1002))


def test_a_folder_of_rows_does_not_take_the_output(predict, tmp_path):
    write(tmp_path / "rows.csv", rows_of(3))
    done = predict(tmp_path, tmp_path / "out")
    assert done.exit_code == 1
    assert "--output must be outside --file" in done.stderr


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("rows.csv/out.csv", "--output must be in a folder"),
        ("y" * 246 + ".csv", "cannot be written: File name too long"),
        ("out.tsv", "The name of a column holds a tab"),
    ],
)
def test_outputs_that_cannot_be_made_are_refused_in_a_sentence(predict, tmp_path, output, said):
    source = tmp_path / "rows.csv"
    source.write_text('text,"a\tb"\nx,y\n')
    done = predict(source, tmp_path / output)
    assert done.exit_code == 1
    assert said in done.stderr


def test_a_pipe_is_no_file_of_rows(predict, tmp_path):
    os.mkfifo(tmp_path / "rows.csv")
    done = predict(tmp_path / "rows.csv", tmp_path / "out.csv")
    assert done.exit_code == 1
    assert "is no table of rows" in done.stderr


FEATURES = {"label": {"names": ["neg", "pos"], "_type": "ClassLabel"}}


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_classes_that_the_schema_names_keep_their_names_beside_the_answers(predict, tmp_path, ending):
    source, output = tmp_path / "in.parquet", tmp_path / f"out{ending}"
    rows = pa.table({"text": ["a", "b", "c", "d"], "label": [1, 0, 7, -1]})
    pq.write_table(
        rows.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": FEATURES}})}), source
    )
    assert predict(source, output).exit_code == 6
    [error] = errors(output)
    assert error["row"] == 3
    assert "the 'label' is class 7, where the file's schema names 2 classes" in error["reason"]
    if ending == ".parquet":  # numbers and names stay apart, as in the input
        found = [record["label"] for _, record in arrow_records(output, ["label"])]
        assert pq.read_table(output)["label"].to_pylist() == [1, 0, -1]
    else:
        found = [row["label"] for row in read(output)]
    assert found == ["pos", "neg", "" if ending == ".csv" else None]


ODD = {
    "view": (["a", "b", "c"], pa.string_view(), ["a", "b", "c"]),
    "bytes": ([b"a", b"b", None], pa.binary_view(), ['{"b64": "YQ=="}', '{"b64": "Yg=="}', ""]),
    "names": ([["a"], [], None], pa.list_(pa.string_view()), ['["a"]', "[]", ""]),
    "lists": ([[1], [2, 3], None], pa.list_view(pa.int8()), ["[1]", "[2, 3]", ""]),
    "at": (
        [1_700_000_000_123_456_789, 0, None],
        pa.timestamp("ns"),
        ["2023-11-14T22:13:20.123456789", "1970-01-01T00:00:00", ""],
    ),
    "time": ([1_000_000_001, 1000, None], pa.time64("ns"), ["00:00:01.000000001", "00:00:00.000001", ""]),
    "took": ([1, 10**9, None], pa.duration("ns"), ["P0DT0H0M0.000000001S", "P0DT0H0M1S", ""]),
    "price": ([decimal.Decimal("1.250"), None, decimal.Decimal("3.000")], None, ["1.250", "", "3.000"]),
    "fields": (
        [{"a": "x", "b": 7}, None, {"a": None, "b": None}],
        pa.struct([("a", pa.string_view()), ("b", pa.time64("ns"))]),
        ['{"a": "x", "b": "00:00:00.000000007"}', "", '{"a": null, "b": null}'],
    ),
}


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_columns_of_any_type_of_arrow_stay_beside_the_answers(predict, tmp_path, ending):
    """Also where a row fails, and the others are taken out of Arrow's columns."""
    columns = {name: pa.array(values, kind) for name, (values, kind, _) in ODD.items()}
    text = pa.array(["good", "FAIL", "bad"], pa.string_view())
    pq.write_table(pa.table({"text": text, **columns}), tmp_path / "in.parquet")
    output = tmp_path / f"out{ending}"
    assert predict(tmp_path / "in.parquet", output).exit_code == 6
    assert [error["row"] for error in errors(output)] == [2]
    found = read(output)
    assert [row["text"] for row in found] == ["good", "bad"]
    for name, (_, _, cells) in ODD.items():
        if ending == ".parquet":
            wanted = [columns[name].to_pylist()[row] for row in (0, 2)]
            assert pq.read_table(output)[name].to_pylist() == wanted, name
        elif ending == ".csv":
            assert [row[name] for row in found] == [cells[0], cells[2]], name
        else:
            given = [
                cell if name in ("view", "at", "time", "took", "price") else json.loads(cell or "null")
                for cell in cells
            ]
            assert [row[name] for row in found] == [given[0] or None, given[2] or None], name


def test_a_value_that_a_text_cannot_hold_is_told_with_its_row_and_parquet_keeps_it(predict, tmp_path):
    far = pa.array([0, 2**30], pa.date32())
    pq.write_table(pa.table({"text": ["good", "bad"], "when": far}), tmp_path / "in.parquet")
    for ending in (".csv", ".jsonl"):
        output = tmp_path / f"out{ending}"
        assert predict(tmp_path / "in.parquet", output).exit_code == 6
        assert [row["text"] for row in read(output)] == ["good"]
        [error] = errors(output)
        assert error["row"] == 2
        assert "the 'when': as date32[day] it is out of range" in error["reason"]
    assert predict(tmp_path / "in.parquet", tmp_path / "out.parquet").exit_code == 0
    assert pq.read_table(tmp_path / "out.parquet")["when"].cast(pa.int32()).to_pylist() == [0, 2**30]


def test_a_text_that_is_not_utf_8_has_no_answer(predict, tmp_path):
    """It must not be asked as an empty text."""
    broken = pa.Array.from_buffers(pa.string(), 2, pa.array([b"abcd", b"\xff"]).buffers())
    pq.write_table(pa.table({"text": broken}), tmp_path / "in.parquet")
    assert predict(tmp_path / "in.parquet", tmp_path / "out.csv").exit_code == 6
    assert [row["text"] for row in read(tmp_path / "out.csv")] == ["abcd"]
    assert "the 'text': it is not UTF-8" in errors(tmp_path / "out.csv")[0]["reason"]


def test_a_type_that_arrow_cannot_read_is_refused_before_the_model_answers(predict, tmp_path):
    unpacked(tmp_path / "in.parquet", INT128)
    done = predict(tmp_path / "in.parquet", tmp_path / "out.csv")
    assert done.exit_code == 1
    assert "holds a type that pyarrow" in done.output
    assert "whole" not in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]
