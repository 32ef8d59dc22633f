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
    content = "-DOCSTART- -X- O O\n\nEU NNP B-NP B-ORG\n# NN I-NP O\n\n \nNew  NNP B-NP  B-LOC \n"
    if name == "a.txt":
        content = content.replace("\n", "\r\n")
    rows = read_tagged(write(name, content))
    assert rows.inputs == [["EU", "#"], ["New"]]
    assert rows.targets == [["B-ORG", "O"], ["B-LOC"]]


def read(write, content, name="a.conll"):
    """Return the rows of a file as texts, "token/label" of each token."""
    rows = read_tagged(write(name, content))
    pairs = zip(rows.inputs, rows.targets, strict=True)
    return [["/".join(pair) for pair in zip(*row, strict=True)] for row in pairs]


@pytest.mark.parametrize(
    "comments",
    [
        "# id 0001 domain=train",
        "# id 0001\tdomain=train",
        "# newdoc",
        "# newdoc id = weblog-1\n# sent_id = 1\n# text = Ada wrote it.",
        "#begin document (bc/cctv/00); part 000",
        "#",
        "#comment",
        "-DOCSTART-",
        "-DOCSTART- (1 EU)",
        "-DOCSTART-\tO\n",
    ],
)
@pytest.mark.parametrize("middle", ["", "_ _ "])
def test_comments_before_a_row_are_no_tokens(write, comments, middle):
    body = "".join(f"{comments}\nAda {middle}B-PER\nwrote {middle}O\n\n" for _ in range(2))
    wanted = [["Ada/B-PER", "wrote/O"]] * 2
    assert read(write, body) == wanted
    assert read(write, body.replace(f" {middle}B-", "\tB-").replace(f" {middle}O", "\tO")) == wanted


@pytest.mark.parametrize("last", ["#end document", "\n#end document", "#end document\n"])
@pytest.mark.parametrize("label", ["B-PER", "PROPN"])
def test_comments_behind_a_row_are_no_tokens(write, last, label):
    assert read(write, f"#begin document (a)\nAda {label}\n{last}") == [[f"Ada/{label}"]]


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ("# O\nAda B-PER", [["#/O", "Ada/B-PER"]]),
        ("Ada B-PER\n\n#tag O", [["Ada/B-PER"], ["#tag/O"]]),
        ("#tag B-NEW\nAda B-PER\nx O", [["#tag/B-NEW", "Ada/B-PER", "x/O"]]),
        ("# SYM\na DET\n# SYM\nb NOUN", [["#/SYM", "a/DET", "#/SYM", "b/NOUN"]]),
        ("a DET\n#b HT\nc DET\n\n#b HT\nd DET", [["a/DET", "#b/HT", "c/DET"], ["#b/HT", "d/DET"]]),
        ("#a O\n#b O", [["#a/O", "#b/O"]]),
        ("# text O O O\n#a O\nb O", [["#a/O", "b/O"]]),
        ("-DOCSTART-x O\n-DOCSTART- O\na O", [["-DOCSTART-x/O"], ["a/O"]]),
    ],
)
def test_a_token_may_begin_with_the_sign_of_a_comment(write, content, wanted):
    assert read(write, content) == wanted


BLANK_OR_NOT = ["\xa0", "\u2009", "\x85", "\u2028", "\u3000", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x1f"]


@pytest.mark.parametrize("sign", BLANK_OR_NOT)
@pytest.mark.parametrize("between", [" ", "\t", " \t "])
def test_blank_and_tab_alone_separate_columns(write, sign, between):
    lines = [f"a{sign}b{between}X", f"{sign}c{sign}{between}Y{sign}", f"{sign}{between}Y"]
    wanted = [[f"a{sign}b/X", f"{sign}c{sign}/Y{sign}", f"{sign}/Y"]]
    assert read(write, "\n".join(lines)) == wanted
    rows = "".join(
        f"{number}\t{token}\t_\t{label}" + "\t_" * 6 + "\n"
        for number, token, label in ((1, f"{sign}10{sign}000", "NUM"), (2, "x", f"X{sign}"))
    )
    assert read(write, rows, "a.conllu") == [[f"{sign}10{sign}000/NUM", f"x/X{sign}"]]


@pytest.mark.parametrize("name", ["a.conll", "a.txt"])
@pytest.mark.parametrize("between", [" ", "\t"])
@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (
            "walks|walk Number=Sing|Person=3\ndogs|dog Case=Nom|Number=Plur",
            [["walks|walk/Number=Sing|Person=3", "dogs|dog/Case=Nom|Number=Plur"]],
        ),
        ("a|b N|V\nc|d A|V\n\nx|y N|N", [["a|b/N|V", "c|d/A|V"], ["x|y/N|N"]]),
        ("and|or CC|X\nthe DT", [["and|or/CC|X", "the/DT"]]),
        ("1|2 CD|x\nfoo NN", [["1|2/CD|x", "foo/NN"]]),
    ],
)
def test_columns_may_hold_bars(write, name, between, content, wanted):
    assert read(write, content.replace(" ", between), name) == wanted


@pytest.mark.parametrize("name", ["a.iob", "a.txt"])
def test_the_word_that_begins_a_document_is_none_of_a_row_of_words(write, name):
    content = "-DOCSTART-|O\n\nAda|B-PER wrote|O\n-DOCSTART- a|O -DOCSTART-|O b|O\nc|O\n"
    assert read(write, content, name) == [["Ada/B-PER", "wrote/O"], ["a/O", "-DOCSTART-/O", "b/O"], ["c/O"]]


@pytest.mark.parametrize("between", [" ", "\t"])
def test_columns_are_read_from_an_iob_too(write, between):
    content = "Ada B-PER\n| O\na|b O\n\nBob B-PER\n".replace(" ", between)
    assert read(write, content, "a.iob") == [["Ada/B-PER", "|/O", "a|b/O"], ["Bob/B-PER"]]


def test_words_with_labels_are_not_read_from_a_conll(write):
    with pytest.raises(DataError, match="line 1, .* has 2 columns between blanks, where most lines have 3"):
        read_tagged(write("a.conll", "a|O b|O\na|O b|O c|O\na|O b|O c|O\n"))


def test_with_tabs_a_token_and_a_label_may_have_blanks(write):
    assert read(write, "New York\tB-Place Name\nis\tO\n \t\nyes\tO\n") == [
        ["New York/B-Place Name", "is/O"],
        ["yes/O"],
    ]


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
        ("a.conll", "a\tX\nb\t\n", "line 2 has no label"),
        ("a.conll", "a\tX\n\tY\n", "line 2 has no token"),
        (
            "a.conll",
            "a b\tX\nb Y\n",
            "line 2 has blanks between its columns, and line 1 has a tab. Separate the columns of all lines",
        ),
        (
            "a.conll",
            "Bob -X- _ B-Person Name\nmet -X- _ O\nher -X- _ O\n",
            "line 1, 'Bob -X- _ B-Person Name', has 5 columns between blanks, where most lines have 4. "
            "Separate columns by tabs",
        ),
        ("a.conll", "a\tX\nb\tX\tY\nc\tX", r"line 2, .*, has 3 columns between tabs, where most .* 2\. Give"),
        ("a.conll", "a X\n# b c\nd X", "line 2, '# b c', has 3 columns .* A comment stands before the first"),
        ("a.conll", "a X\n#b\nd X", "line 2, '#b', has 1 columns .* A comment stands before the first"),
        ("a.conll", "#b HT\na X", "line 1, '#b HT', begins with '#' and has 2 columns, .* the label 'HT'"),
        ("a.conll", "# S-1\na DET\nb NN", "line 1, '# S-1', begins with '#' and has 2 columns"),
        ("a.conll", "# I-95\na B-X\nb O", "line 1, '# I-95', begins with '#' and has 2 columns"),
        ("a.conll", "#Apple ORG\nis O\nx B-PER", "line 1, '#Apple ORG', begins with '#'"),
        ("a.conll", "#\t\nx\tO\ny\tB-X", "line 1, '#.t', begins with '#'"),
        ("a.conll", "a X\n\n\u00a0\nb X", r"line 3 has one column, '\\xa0'"),
        ("a.conll", "a\nb\n", "line 1 has one column, 'a'"),
        ("a.conll", "a X\rb Y\n", "line 1 holds a carriage return"),
        ("a.conllu", CONLLU.replace("\n", "\r"), "line 1 holds a carriage return"),
        ("a.conll", "# O\nAda\tB-X\nx\tO\n", "line 1, '# O', has blanks between its columns"),
        ("a.conll", "# a\n", "line 1, '# a', begins with '#'"),
        ("a.conll", "#a\n", "holds no tokens"),
        ("a.txt", "B-PER\tAda\nO\twrote\n", "the first column holds labels of spans, such as 'B-PER'"),
        (
            "a.conll",
            "1\tAda\t_\tPROPN\n2\ts\t_\tPART\n\n1-2\tx\t_\tX\n1\tx\t_\tX\n",
            "the first column counts",
        ),
        ("a.conllu", CONLLU + "\n\u00a0\n", "line 11 has 1 columns between tabs"),
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


@pytest.mark.parametrize("row", ['{"a": ["x", "y"]}', '{"a": [[0, 1, "PER"]], "text": "Ada"}'])
def test_a_column_of_tokens_that_is_that_of_labels_too_is_refused(tmp_path, row):
    (tmp_path / "rows.jsonl").write_text(row + "\n")
    with pytest.raises(
        DataError, match=r"`label` \(--label\) must be another column.* Received 'a' for both"
    ):
        read_tagged(tmp_path / "rows.jsonl", text="a", label="a")
