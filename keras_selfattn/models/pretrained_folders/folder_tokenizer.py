"""The tokenizer of a folder, with 0 as the id of padding."""

import dataclasses

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.pretrained_folders.family import Family
from keras_selfattn.models.pretrained_folders.model_folder import ModelFolder
from keras_selfattn.models.subwords.byte_pairs import BytePairs
from keras_selfattn.models.subwords.subword_tokenizer import SubwordTokenizer
from keras_selfattn.models.subwords.tokenizer_files import kind_of
from keras_selfattn.models.subwords.unigram import Unigram
from keras_selfattn.models.subwords.unigram_files import MODELS
from keras_selfattn.models.subwords.wordpiece import WordPiece
from keras_selfattn.models.subwords.wordpiece_settings import WordPieceSettings
from keras_selfattn.models.vocabulary import PADDING_ID


def read_tokenizer(
    folder: ModelFolder, family: Family, max_tokens: int, *, lowercase: bool = False
) -> tuple[SubwordTokenizer, int]:
    """Return the tokenizer of a folder, in which padding has the id 0, and the id that it has in the folder.

    It is WordPiece, byte pairs as RoBERTa has them, or unigram as in XLM-RoBERTa. Batches, masks and exports
    pad with 0. Where a folder pads with another id, the two change places, in the vocabulary here and in the
    table of tokens (`swapped_rows`), so all vectors are the same; in MPNet padding is 0 and `<s>` is 1, the
    reverse of the folder's. All other ids are the folder's.

    Args:
        folder: a model's.
        family: of the model.
        max_tokens: longer texts are cut at the end.
        lowercase: True folds the case of texts before the tokenizer's own normalisation.

    Raises:
        ConfigError: for a tokenizer that cannot be read, or that pads with another id than its model.
    """
    kind = _kind(folder)
    tokenizer: SubwordTokenizer = kind.from_folder(folder.path, max_tokens, family.tokenizer)
    if lowercase and not tokenizer.settings.lowercase:
        tokenizer = _lowercased(folder, tokenizer)
    padding = tokenizer.id_of(tokenizer.settings.pad)
    # Multilingual MiniLM is a BERT with XLM-RoBERTa's tokenizer, whose padding its config.json does not know.
    # It has no effect there, because no position depends on it.
    of_another = isinstance(tokenizer, Unigram) and not family.positions_follow_padding
    if padding != family.padding_id and not of_another:
        raise ConfigError(
            f"The tokenizer of {folder.path} pads with the id {padding}, its model with {family.padding_id} "
            "(pad_token_id in config.json). They are not of one model."
        )
    return tokenizer if padding == PADDING_ID else tokenizer.swapped(PADDING_ID, padding), padding


def _lowercased(folder: ModelFolder, tokenizer: SubwordTokenizer) -> SubwordTokenizer:
    settings = tokenizer.settings
    if not isinstance(settings, WordPieceSettings):
        raise ConfigError(
            f"{folder.path} folds the case of texts before a tokenizer of {settings.kind}, which keeps it "
            "(do_lower_case in sentence_bert_config.json). This cannot be read."
        )
    # The accents are kept or removed as the tokenizer says for texts whose case is kept.
    folded = dataclasses.replace(settings, lowercase=True, strip_accents=settings.strips_accents)
    return WordPiece(folded, tokenizer.vocabulary)


def _kind(folder: ModelFolder) -> type[BytePairs | Unigram | WordPiece]:
    """Return the class for the vocabulary of a folder."""
    model = folder.json("tokenizer.json").get("model")
    if isinstance(model, dict):
        return {"BPE": BytePairs, "Unigram": Unigram}.get(kind_of(model), WordPiece)
    if (folder.path / "vocab.txt").is_file():
        return WordPiece
    if any((folder.path / name).is_file() for name in MODELS):
        return Unigram
    return BytePairs if (folder.path / "merges.txt").is_file() else WordPiece
