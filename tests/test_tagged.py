"""Files of tokens with labels are read, and bad ones refused with file and line."""

import json

import pytest

from keras_selfattn.data import read_tagged
from keras_selfattn.errors import ConfigError, DataError

CONLLU = """\
# text = They don't
1\tThey\tthey\tPRON\tPRP\tCase=Nom\t2\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t0\troot\t_\t_
3\tn't\tnot\tPART\tRB\t_\t2\tadvmod\t_\t_
3.1\tgone\tgo\tVERB\t_\t_\t_\t_\t_\t_


# text = 10 000
1\t10 000\t10000\tNUM\tCD\tNumType=Card\t0\troot\t_\t_"""


@pytest.fixture
def write(tmp_path):
    def written(name, content):
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    return written


@pytest.mark.parametrize(
    "content", [CONLLU, CONLLU + "\n", "\ufeff" + CONLLU.replace("\n", "\r\n") + "\r\n\r\n"]
)
def test_conllu_leaves_out_ranges_empty_nodes_and_comments(write, content):
    rows = read_tagged(write("a.conllu", content))
    assert rows.inputs == [["They", "do", "n't"], ["10 000"]]
    assert rows.targets == [["PRON", "AUX", "PART"], ["NUM"]]


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        ("xpos", ["PRP", "VBP", "RB"]),
        ("feats", ["Case=Nom", "_", "_"]),
        ("deprel", ["nsubj", "root", "advmod"]),
    ],
)
def test_conllu_has_several_columns_of_labels(write, column, labels):
    assert read_tagged(write("a.conllu", CONLLU), column=column).targets[0] == labels


@pytest.mark.parametrize("name", ["a.conll", "a.txt"])
def test_columns_have_the_token_first_and_the_label_last(write, name):
    content = (
        "-DOCSTART- -X- O O\n\nEU NNP B-NP B-ORG\n# NN I-NP O\n\n \nNew York\tX\tB-LOC\na\u00a0b\tY\u2028Y"
    )
    if name == "a.txt":
        content = content.replace("\n", "\r\n")
    rows = read_tagged(write(name, content))
    assert rows.inputs == [["EU", "#"], ["New York", "a\u00a0b"]]
    assert rows.targets == [["B-ORG", "O"], ["B-LOC", "Y\u2028Y"]]


def test_json_lines_hold_lists_of_tokens_and_labels(write):
    lines = [{"tokens": ["a", "b"], "labels": ["x", 1]}, {"tokens": [], "labels": []}]
    file = write("a.jsonl", "\n".join(map(json.dumps, lines)))
    assert read_tagged(file).inputs == [["a", "b"], []]
    assert read_tagged(file).targets == [["x", "1"], []]
    assert read_tagged(write("b.jsonl", '{"w": ["a"], "pos": ["x"]}'), text="w", label="pos").targets == [
        ["x"]
    ]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.conllu", "1\tonly\ttwo\n", "a.conllu: line 1 has 3 columns between tabs, where CoNLL-U has 10"),
        ("a.conllu", CONLLU.replace("3\tn't", "x\tn't"), "line 5 begins with 'x'"),
        ("a.conllu", CONLLU.replace("2-3", "2-x"), "line 3 begins with '2-x'"),
        ("a.conllu", CONLLU.replace("PART", "_"), "the token in line 5 has no upos"),
        ("a.conllu", CONLLU.replace("n't\tnot", "\tnot"), "line 5 has no token"),
        ("a.conllu", "# nothing\n\n", "a.conllu holds no tokens"),
        ("a.conll", "a X\n\nb\n", "a.conll: line 3 has one column, 'b'"),
        ("a.conll", "a X\nb\t\n", "line 2 has no label"),
        ("a.conll", "a X\n\tY\n", "line 2 has no token"),
        ("a.conll", b"a X\n\xff Y\n", "is not UTF-8: byte 0xff in line 2"),
        ("a.conll", "", "is empty"),
        ("a.jsonl", '{"tokens": ["a"], "labels": ["x", "y"]}', "line 1 has 1 'tokens' and 2 'labels'"),
        (
            "a.jsonl",
            '{"tokens": "a", "labels": ["x"]}',
            "the 'tokens' in line 1 must be a list. Received 'a'",
        ),
        (
            "a.jsonl",
            '{"tokens": [""], "labels": ["x"]}',
            "'tokens' in line 1 hold '', which is neither a token nor a label",
        ),
        ("a.jsonl", '{"tokens": ["a"], "labels": [null]}', "the 'labels' in line 1 hold None"),
        ("a.jsonl", '{"tokens": ["a"]}', "has no column 'labels'"),
        ("a.csv", "a,b\n", "no known ending. Give a file ending in .conllu, .conll, .txt, .jsonl, .ndjson"),
    ],
)
def test_what_cannot_be_read_is_named_by_file_and_line(write, name, content, said):
    with pytest.raises(DataError, match=said):
        read_tagged(write(name, content))


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(DataError, match="There is no file"):
        read_tagged(tmp_path / "none.conllu")


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("a.conll", {"column": "xpos"}, "`column` is for files ending in .conllu"),
        ("a.conllu", {"text": "words"}, "`text` is for files ending in .jsonl or .ndjson"),
        (
            "a.conllu",
            {"column": "head"},
            "`column` must be one of upos, .*, deprel. Received 'head'",
        ),
    ],
)
def test_an_argument_for_other_files_is_refused(write, name, given, said):
    with pytest.raises(ConfigError, match=said):
        read_tagged(write(name, CONLLU), **given)
