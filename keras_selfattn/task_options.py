"""Options of the tasks that are learned from files, as data: columns of tables, settings of models."""

from keras_selfattn.options import NO_HEADER, REVISION, SEPARATOR, OptionSpec

COLUMNS = (
    OptionSpec(
        "--text",
        "Column with the texts, or with the lists of tokens.",
        metavar="COLUMN",
        without="text; of tagged tokens: tokens",
    ),
    OptionSpec(
        "--label",
        "Column with the labels, or with the numbers of a regression; of scores also several, as in a,b.",
        metavar="COLUMN",
        without="label; of tagged tokens: labels",
    ),
    SEPARATOR,
    NO_HEADER,
)
"""Options for reading a table, whatever its task."""
OPTIONS = (
    OptionSpec(
        "--text-pair",
        "Column with the second text of each row: a hypothesis, an answer.",
        metavar="COLUMN",
        without="text_pair; of labels and scores: one text a row",
    ),
    OptionSpec(
        "--negative",
        "Column with texts that do not belong to the first one of their row; may be given again.",
        name="negatives",
        metavar="COLUMN",
        default=(),
        without="none",
        many=True,
        read=lambda names: tuple(names) or None,
    ),
    OptionSpec(
        "--score-loss",
        "For pairs with scores: learn the order of the scores, whatever their range, or the score as the "
        "cosine, from -1 to 1.",
        choices=("order", "cosine"),
        without="order",
    ),
    OptionSpec(
        "--symmetric",
        "A pair and its reverse are one thing, as duplicates are: both orders have the same answer.",
        switch=True,
    ),
    OptionSpec(
        "--label-separator",
        "Character between the labels of a row that has several.",
        metavar="CHAR",
        without="one label a row, or a JSON list",
    ),
    OptionSpec(
        "--tokens",
        "Units of a text; pieces are byte pairs learned from the rows, by the package tokenizers.",
        choices=("words", "characters", "pieces"),
        without="words; of seq2seq pieces",
    ),
    OptionSpec("--keep-case", "Tell upper case from lower case.", name="lowercase", switch=False),
    OptionSpec(
        "--max-tokens",
        "Cut texts after so many tokens.",
        kind=int,
        least=1,
        without="100000, of seq2seq 512; with --from its own limit",
    ),
    OptionSpec(
        "--training-span",
        "Tokens of a long text that a training step reads.",
        kind=int,
        least=1,
        without="128",
    ),
    OptionSpec("--no-wide", "Leave out the linear model of n-grams.", name="wide", switch=False),
    OptionSpec(
        "--bounded",
        "Scores are in [0, 1]: learn them by cross-entropy, and answer there.",
        switch=True,
    ),
    OptionSpec(
        "--from",
        "Begin with a pretrained model's folder, such as BERT's or MiniLM's, or with its name in the "
        "Hugging Face hub, or a run of `pretrain --from`; for text also with any run of `pretrain` or of "
        "labelled texts. For seq2seq: go on from a run of seq2seq.",
        name="start",
        metavar="MODEL",
    ),
    REVISION,
    OptionSpec(
        "--freeze",
        "Leave the embedding and the first N blocks of a pretrained model as they are, to save time.",
        name="frozen_layers",
        kind=int,
        least=1,
        without="0, all learn",
    ),
    OptionSpec(
        "--members", "Encoders side by side; their answers are averaged.", kind=int, least=1, without="2"
    ),
    OptionSpec("--source", "Column with the texts to answer.", metavar="COLUMN", without="source"),
    OptionSpec("--target", "Column with the right answers, texts.", metavar="COLUMN", without="target"),
    OptionSpec(
        "--alternatives",
        "Separator between the right answers of a row that has several, the main one first.",
        metavar="SEPARATOR",
        without="one answer a row, or a JSON list",
    ),
    OptionSpec("--decoder-layers", "Decoder blocks.", kind=int, least=1, without="3"),
    OptionSpec(
        "--max-new-tokens",
        "The most symbols of an answer, its end included.",
        kind=int,
        least=2,
        without="256",
    ),
    OptionSpec(
        "--beams", "Candidates that the search for an answer follows.", kind=int, least=1, without="1"
    ),
    OptionSpec(
        "--column",
        "Column of a .conllu file that holds the labels.",
        choices=("upos", "xpos", "feats", "deprel"),
        without="upos",
    ),
    OptionSpec(
        "--offsets",
        "Units that offsets of spans count: characters (as in Python) or UTF-16 (as in JavaScript).",
        choices=("characters", "utf-16"),
        without="what the file tells",
    ),
    OptionSpec(
        "--skip-unfit-texts",
        "Leave out texts whose spans overlap, or are no whole tokens. They are an error otherwise.",
        switch=True,
    ),
    OptionSpec(
        "--id",
        "Table's column that names a line's series.",
        name="row_id",
        metavar="COLUMN",
        without="id",
    ),
    OptionSpec(
        "--time",
        "Table's column that orders a series: numbers, or dates in ISO 8601.",
        metavar="COLUMN",
        without="the order of the file",
    ),
    OptionSpec(
        "--time-format",
        "Form of other dates in --time, as for Python's strptime: '%d.%m.%Y %H:%M'.",
        metavar="FORMAT",
    ),
    OptionSpec(
        "--values",
        "Table's columns of values, as in load,wind.",
        metavar="COLUMNS",
        without="all others",
    ),
    OptionSpec("--kernel-size", "Frames that the first convolution spans.", kind=int, least=1, without="7"),
    OptionSpec(
        "--kernels",
        "Random convolutions beside attention; 0 for none.",
        kind=int,
        least=0,
        without="4000, of audio 1000",
    ),
    OptionSpec(
        "--no-positions",
        "Rows are sets, whose order says nothing.",
        name="positions",
        switch=False,
    ),
    OptionSpec("--context", "Frames that a forecast is made from.", kind=int, least=1, without="48"),
    OptionSpec("--horizon", "Values to forecast.", kind=int, least=1, without="12"),
    OptionSpec(
        "--season",
        "Frames after which series repeat themselves.",
        kind=int,
        least=1,
        without="1, no season",
    ),
    OptionSpec(
        "--image-size",
        "Side that images of several sizes are resized to.",
        kind=int,
        least=1,
        metavar="PIXELS",
    ),
    OptionSpec(
        "--patch-size",
        "Side of a patch.",
        kind=int,
        least=1,
        metavar="PIXELS",
        without="2 to 16, by image size",
    ),
    OptionSpec(
        "--no-augment",
        "Do not change images or recordings at random in training.",
        name="augment",
        switch=False,
    ),
    OptionSpec(
        "--audio",
        "Table's column with the paths of recordings, or with the recordings themselves.",
        metavar="COLUMN",
        without="path; of .parquet and .feather: audio",
    ),
    OptionSpec(
        "--group",
        "Table's column, such as a speaker's, whose rows are held out together or not at all.",
        metavar="COLUMN",
        without="each row alone",
    ),
    OptionSpec(
        "--sample-rate",
        "Rate in Hz to which recordings are resampled.",
        kind=int,
        least=1000,
        metavar="HZ",
        without="the lowest there is, from 8000 to 16000",
    ),
)
"""Options that are for some tasks, in the order of the help; a task has those that it names."""
