"""The class of tokenizer that `transformers` opens a folder with, and where it takes the settings from.

Reference: transformers 5, `AutoTokenizer.from_pretrained`. A class either builds its tokenizer anew, from the
vocabulary and `tokenizer_config.json`, or takes `tokenizer.json` as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keras_selfattn.errors import ConfigError


@dataclass(frozen=True)
class TokenizerClass:
    """A class of tokenizer.

    Args:
        name: in `tokenizer_class`, without "Fast".
        model: kind of the vocabulary that it reads, "WordPiece", "BPE" or "Unigram"; "" for any, from
            `tokenizer.json` as it is.
        tokens: names of its special tokens where no file names them, by their fields.
        processor: kind of the part that sets tokens around a text, and between two.
        mask_takes_blanks: True if a mask named by a text alone takes the white space before it.
        ends: fields of the tokens around a text.
        first: fields of the tokens with the first ids, where it reads a model of SentencePiece; the mask has
            the last one.
        always: of the class of a family, True if it opens its folders whatever class they name.
        without_file: the class that builds its tokenizer from a model of SentencePiece, where there is no
            `tokenizer.json` to take; None if there is none.
        of_version_4: True if it builds the tokenizer as transformers 4 did, with all that the model of
            SentencePiece says.
    """

    name: str
    model: str = ""
    tokens: Mapping[str, str] = field(default_factory=dict)
    processor: str = ""
    mask_takes_blanks: bool = False
    ends: tuple[str, str] = ("cls_token", "sep_token")
    first: tuple[str, ...] = ()
    always: bool = False
    without_file: "TokenizerClass | None" = None
    of_version_4: bool = False

    @property
    def of_file(self) -> bool:
        """True if `tokenizer.json` is taken as it is."""
        return not self.model

    @property
    def of_tokenizers(self) -> bool:
        """True if the package `tokenizers` itself reads `tokenizer.json`; for other classes Python does."""
        return self.name == FILE.name


_OF_BERT = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")}
_OF_ROBERTA = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "sep_token": "</s>",
    "pad_token": "<pad>",
    "cls_token": "<s>",
    "mask_token": "<mask>",
}
BERT = TokenizerClass("BertTokenizer", "WordPiece", _OF_BERT, "BertProcessing")
MPNET = TokenizerClass(
    "MPNetTokenizer", "WordPiece", {**_OF_ROBERTA, "unk_token": "[UNK]"}, "RobertaProcessing", True
)
ROBERTA = TokenizerClass("RobertaTokenizer", "BPE", _OF_ROBERTA, "RobertaProcessing")
XLM_ROBERTA = TokenizerClass(
    "XLMRobertaTokenizer",
    "Unigram",
    _OF_ROBERTA,
    "RobertaProcessing",
    ends=("bos_token", "eos_token"),
    first=("bos_token", "pad_token", "eos_token", "unk_token"),
)
# transformers 5 builds it anew either way, without the map of characters that its models were trained with.
_OF_DEBERTA_V2 = {**_OF_BERT, "bos_token": "[CLS]", "eos_token": "[SEP]"}
DEBERTA_V2 = TokenizerClass(
    "DebertaV2Tokenizer",
    tokens=_OF_DEBERTA_V2,
    without_file=TokenizerClass("DebertaV2Tokenizer", "Unigram", tokens=_OF_DEBERTA_V2, of_version_4=True),
)
FILE = TokenizerClass("TokenizersBackend")
ALWAYS_FILE = TokenizerClass("TokenizersBackend", always=True)

# Names that a folder may give, without "Fast": transformers knows some classes by the names of others, too.
_NAMED = {
    **dict.fromkeys(
        ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MobileBertTokenizer"), BERT
    ),
    **dict.fromkeys(("SqueezeBertTokenizer", "LayoutLMTokenizer", "LxmertTokenizer"), BERT),
    "MPNetTokenizer": MPNET,
    **dict.fromkeys(("RobertaTokenizer", "BartTokenizer", "LongformerTokenizer", "LEDTokenizer"), ROBERTA),
    "XLMRobertaTokenizer": XLM_ROBERTA,
    "DebertaV2Tokenizer": DEBERTA_V2,
    **dict.fromkeys(("TokenizersBackend", "PythonBackend", "PreTrainedTokenizer"), FILE),
}
_WITHOUT_FILE = {"WordPiece": BERT, "BPE": ROBERTA}


def class_of(
    folder: Path,
    config: Mapping[str, Any],
    of_model: Mapping[str, Any],
    usual: TokenizerClass,
    found: str,
    *,
    has_file: bool,
) -> TokenizerClass:
    """Return the class that opens a folder's tokenizer.

    Args:
        folder: a model's.
        config: its `tokenizer_config.json`.
        of_model: its `config.json`.
        usual: the class of the model's family, where the folder names none.
        found: kind of its vocabulary, "WordPiece", "BPE" or "Unigram".
        has_file: True if it has `tokenizer.json`.

    Raises:
        ConfigError: for a class that is not known, and one of another kind of vocabulary.
    """
    declared = config.get("tokenizer_class") or of_model.get("tokenizer_class")
    if usual.always:
        chosen = usual
    elif declared:
        chosen = _named(folder, declared)
        if chosen.model and chosen.model != found:
            raise ConfigError(
                f"{folder}: tokenizer_class is {declared!r}, whose vocabulary is {chosen.model}, and the "
                f"folder's vocabulary is {found}. They are not of one tokenizer: name its class."
            )
    else:
        # A family's usual tokenizer, where the folder has another one, is no guide.
        chosen = usual if found in (usual.model, usual.without_file and usual.without_file.model) else FILE
    if not chosen.of_file or has_file:
        return chosen
    if chosen.without_file is not None and chosen.without_file.model == found:
        return chosen.without_file
    if found not in _WITHOUT_FILE:
        raise ConfigError(
            f"{folder}: the class of the tokenizer, {declared or chosen.name!r}, reads no model of "
            f"SentencePiece. Name one that does as tokenizer_class in tokenizer_config.json, such as "
            f"{XLM_ROBERTA.name!r}, or add tokenizer.json."
        )
    return _WITHOUT_FILE[found]


def _named(folder: Path, declared: Any) -> TokenizerClass:
    name = declared.removesuffix("Fast") if isinstance(declared, str) else declared
    if not isinstance(name, str) or name not in _NAMED:
        known = ", ".join([*sorted(_NAMED.keys() - {"PreTrainedTokenizer"}), "PreTrainedTokenizerFast"])
        raise ConfigError(
            f"{folder}: tokenizer_class is {declared!r}, in tokenizer_config.json or config.json. Its ids "
            f"cannot be computed here. Known classes are {known}."
        )
    return _NAMED[name]
