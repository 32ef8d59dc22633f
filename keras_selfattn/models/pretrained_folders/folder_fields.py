"""The fields of the files of a model's folder: those that are read, those without effect, those refused.

Those of `config.json` that a family has beside the common ones are in its description (`families.py`).
`docs/folders.md` holds these tables, too. A field that is not in one is refused, or warned of, as its table
says.

Reference: transformers 5 and sentence-transformers 6, which write and read these files.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from keras_selfattn.errors import ConfigError

READ, NO_EFFECT, REFUSED = "read", "without effect", "refused"


def _unset(value: Any) -> bool:
    return value is None or value is False or value in ({}, [], "")


def among(*values: Any) -> Callable[[Any], bool]:
    """Return a function that is True for these values alone."""
    return lambda value: any(type(value) is type(each) and value == each for each in values)


def _of_text(value: Any) -> bool:
    """Return True for the modality of a model whose outputs are the vectors of a text's tokens."""
    wanted = {"method": "forward", "method_output_name": "last_hidden_state"}
    if not isinstance(value, Mapping) or set(value) != {"text"} or not isinstance(value["text"], Mapping):
        return False
    found = {**value["text"]}
    if found.get("method_output_name") in (["last_hidden_state"], "last_hidden_state"):
        found["method_output_name"] = "last_hidden_state"
    return found == wanted


@dataclass(frozen=True)
class Fields:
    """Fields of a file that are treated alike.

    Args:
        names: of the fields; one that begins with "*" is any with that ending.
        effect: "read", "without effect" or "refused".
        why: the reason, or what the field sets.
        unless: of refused ones, returns True for a value that changes nothing.
        of_vectors: True if they are refused only where the vectors of texts are wanted, not in a start of a
            training or in a classifier.
    """

    names: tuple[str, ...]
    effect: Literal["read", "without effect", "refused"]
    why: str
    unless: Callable[[Any], bool] = _unset
    of_vectors: bool = False

    def hold(self, name: str) -> bool:
        """Return True for a name that is one of these."""
        return any(name.endswith(each[1:]) if each[0] == "*" else name == each for each in self.names)


@dataclass(frozen=True)
class FileFields:
    """The fields of a file.

    Args:
        file: its name.
        fields: all that are known.
        unknown: for other fields, "refused", or "warned" of in one line.
    """

    file: str
    fields: tuple[Fields, ...]
    unknown: Literal["refused", "warned"] = "refused"

    def unknown_names(self, found: Mapping[str, Any]) -> list[str]:
        """Return the names of fields that are in no row."""
        return [name for name in found if not any(each.hold(name) for each in self.fields)]

    def check(self, found: Mapping[str, Any], place: str, *, vectors: bool) -> list[str]:
        """Return unknown fields that are to be warned of.

        Args:
            found: the content of the file.
            place: the file, for messages.
            vectors: True if the vectors of texts are wanted.

        Raises:
            ConfigError: for a field that is refused.
        """
        for name, value in found.items():
            row = next((each for each in self.fields if each.hold(name)), None)
            wanted = row is not None and row.effect == REFUSED and (vectors or not row.of_vectors)
            if row is not None and wanted and not row.unless(value):
                raise ConfigError(f"{place}: `{name}` is {_short(value)}. This cannot be read: {row.why}.")
        unknown = self.unknown_names(found)
        if unknown and self.unknown == "refused":
            raise ConfigError(
                f"{place}: `{unknown[0]}` is not a known field, and could change the outputs. Known are "
                f"{', '.join(name for each in self.fields for name in each.names)}."
            )
        return unknown


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else f"{text[:77]}…"


def field_row(effect: Any, names: str, why: str, unless: Any = _unset, of_vectors: bool = False) -> Fields:
    """Return a row, with the names in one string."""
    return Fields(tuple(names.split()), effect, why, unless, of_vectors)


_OF_ALL_FAMILIES = (
    field_row(READ, "model_type architectures", "the family, and whether it is a classifier"),
    field_row(READ, "vocab_size max_position_embeddings pad_token_id", "sizes of the tables, id of padding"),
    field_row(READ, "id2label num_labels problem_type", "labels of a classifier, or scores"),
    field_row(
        READ,
        "sentence_transformers sbert_ce_default_activation_function",
        "a cross-encoder: rows are two texts; the function after its output layer",
    ),
    field_row(READ, "tokenizer_class", "if `tokenizer_config.json` names no class"),
    field_row(READ, "tie_word_embeddings", "false: the head for hidden tokens is learned anew"),
    field_row(
        REFUSED, "is_decoder add_cross_attention is_encoder_decoder is_causal", "only encoders can be read"
    ),
    field_row(REFUSED, "quantization_config", "the weights must be floating-point numbers"),
    field_row(REFUSED, "auto_map", "the model is computed by code of its own, in the folder or elsewhere"),
    field_row(REFUSED, "pruned_heads", "all blocks must have the same number of heads"),
    field_row(NO_EFFECT, "dtype torch_dtype", "weights in half precision are computed in float32"),
    field_row(
        NO_EFFECT,
        "_name_or_path _commit_hash name_or_path transformers_version transformers.js_config "
        "label2id finetuning_task task_specific_params model_max_length language",
        "where the model comes from, and notes",
    ),
    field_row(
        NO_EFFECT,
        "use_cache return_dict output_attentions output_hidden_states chunk_size_feed_forward torchscript "
        "attn_implementation _attn_implementation _attn_implementation_autoset _attn_implementation_internal "
        "gradient_checkpointing use_bfloat16 xla_device output_past reference_compile initializer_range "
        "initializer_cutoff_factor initializer_factor",
        "how it is computed or began, not what",
    ),
    field_row(
        NO_EFFECT,
        "bos_token_id eos_token_id cls_token_id sep_token_id mask_token_id unk_token_id",
        "ids are those of the tokenizer",
    ),
    field_row(
        NO_EFFECT,
        "bad_words_ids begin_suppress_tokens cross_attention_hidden_size decoder_start_token_id "
        "diversity_penalty do_sample early_stopping encoder_no_repeat_ngram_size "
        "exponential_decay_length_penalty forced_bos_token_id forced_eos_token_id length_penalty max_length "
        "min_length no_repeat_ngram_size num_beam_groups num_beams num_return_sequences output_scores prefix "
        "remove_invalid_values repetition_penalty return_dict_in_generate suppress_tokens temperature "
        "tf_legacy_loss tie_encoder_decoder top_k top_p typical_p",
        "of models that write texts",
    ),
    field_row(
        NO_EFFECT,
        "directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head "
        "pooler_type cell emb_size pre_trained structure training embedding_size summary_type "
        "summary_use_proj summary_activation summary_first_dropout summary_last_dropout "
        "summary_proj_to_labels qa_dropout",
        "of other heads and other software",
    ),
)


def config_fields(of_family: Sequence[Fields]) -> FileFields:
    """Return the fields of the `config.json` of a family with these rows of its own."""
    # Those of the family first: a name can have no effect in the others.
    return FileFields("config.json", (*of_family, *_OF_ALL_FAMILIES), "warned")


_TOKENIZER_CONFIG = FileFields(
    "tokenizer_config.json",
    (
        field_row(READ, "tokenizer_class", "decides which file is read; one that is not known is refused"),
        field_row(
            READ,
            "do_lower_case strip_accents tokenize_chinese_chars",
            "by the classes of BERT and MPNet; others take `tokenizer.json`",
        ),
        field_row(
            READ,
            "add_prefix_space",
            "by the classes of RoBERTa and XLM-RoBERTa; others take `tokenizer.json`",
        ),
        field_row(READ, "model_max_length max_len", "texts are cut there, unless `max_seq_length` is set"),
        field_row(
            READ,
            "added_tokens_decoder additional_special_tokens extra_special_tokens",
            "added tokens; an id must be that which the token has",
        ),
        field_row(REFUSED, "truncation_side", "texts are cut at the end", among("right", None)),
        field_row(REFUSED, "split_special_tokens", "special tokens in a text are tokens"),
        field_row(
            REFUSED,
            "fast_tokenizer_files",
            "only `tokenizer.json` is read",
            among(None, [], ["tokenizer.json"]),
        ),
        field_row(REFUSED, "auto_map", "the tokenizer is code of its own"),
        field_row(
            READ,
            "split_by_punct",
            "of DeBERTa-v2; with `spm.model` alone it and `do_lower_case` must be false",
        ),
        field_row(
            REFUSED,
            "do_basic_tokenize never_split",
            "with `vocab.txt` alone; `tokenizer.json` does not need them",
            lambda _: True,  # the reader of vocab.txt refuses them
        ),
        field_row(
            NO_EFFECT, "padding_side pad_to_multiple_of pad_token_type_id", "padding affects no vector"
        ),
        field_row(
            NO_EFFECT,
            "max_length stride truncation truncation_strategy padding return_tensors clean_text "
            "wordpieces_prefix trim_offsets errors legacy from_slow use_fast add_bos_token add_eos_token "
            "return_token_type_ids name_or_path tokenizer_file full_tokenizer_file special_tokens_map_file "
            "vocab_file merges_file processor_class backend is_local local_files_only files_loaded verbose "
            "model_input_names init_inputs vocab_type sp_model_kwargs unk_id "
            "clean_up_tokenization_spaces chat_template _commit_hash transformers_version "
            "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output",
            "notes, and settings that transformers 5 does not read here",
        ),
        field_row(READ, "*_token", "special tokens; any name that ends so"),
    ),
    "warned",
)
_TOKENIZER = FileFields(
    "tokenizer.json",
    (
        field_row(READ, "model", "WordPiece, BPE of bytes, or Unigram"),
        field_row(
            READ,
            "normalizer pre_tokenizer post_processor added_tokens",
            "if the class takes the file; the parts of other tokenizers are refused",
        ),
        field_row(READ, "truncation", "its direction alone, which must be Right"),
        field_row(NO_EFFECT, "version padding decoder", "of no ids"),
    ),
)
_SPECIAL_MAP = FileFields(
    "special_tokens_map.json",
    (
        field_row(
            READ,
            "*_token additional_special_tokens extra_special_tokens",
            "unless `tokenizer_config.json` has `added_tokens_decoder`",
        ),
    ),
)
MODULES = FileFields(
    "modules.json",
    (
        field_row(
            READ,
            "type path",
            "Transformer, Pooling, then any of Dense, then any of Normalize, and Dropout; others are refused",
        ),
        field_row(REFUSED, "kwargs", "a module's own arguments are not read"),
        field_row(NO_EFFECT, "idx name", "the order is that of the list"),
    ),
)
SENTENCE = FileFields(
    "sentence_bert_config.json",
    (
        field_row(READ, "max_seq_length", "texts are cut there"),
        field_row(READ, "do_lower_case", "true: texts are lowercased first"),
        field_row(
            REFUSED,
            "transformer_task",
            "only the vectors of tokens are read, not the outputs of a head",
            among("feature-extraction", None),
            True,
        ),
        field_row(
            REFUSED,
            "modality_config",
            "its one modality must be text, and its output the `last_hidden_state` of `forward`",
            lambda value: value is None or _of_text(value),
            True,
        ),
        field_row(
            REFUSED,
            "module_output_name",
            'it must be "token_embeddings"',
            among("token_embeddings", None),
            True,
        ),
        field_row(REFUSED, "processing_kwargs", "the tokenizer is called with other arguments"),
        field_row(
            REFUSED, "query_length document_length query_expansion", "queries are not told from documents"
        ),
        field_row(
            REFUSED,
            "model_args model_kwargs tokenizer_args processor_kwargs config_args config_kwargs",
            "arguments of the loading",
            lambda value: value is None or (isinstance(value, Mapping) and set(value) <= _HARMLESS),
        ),
        field_row(REFUSED, "tokenizer_name_or_path", "the tokenizer is elsewhere"),
        field_row(NO_EFFECT, "unpad_inputs", "how it is computed, not what"),
    ),
)
_HARMLESS = frozenset({"trust_remote_code", "attn_implementation", "dtype", "torch_dtype", "use_safetensors"})
_SENTENCE_TRANSFORMERS = FileFields(
    "config_sentence_transformers.json",
    (
        field_row(READ, "prompts default_prompt_name", "the default prompt is put before each text"),
        field_row(READ, "truncate_dim", "features that are kept of a vector, after Normalize"),
        field_row(READ, "activation_fn", "the function after the output layer of a cross-encoder"),
        field_row(
            REFUSED,
            "model_type",
            'it must be "SentenceTransformer", whose outputs are vectors of texts; of "CrossEncoder" rows '
            "are two texts",
            among("SentenceTransformer", None),
            True,
        ),
        field_row(
            NO_EFFECT,
            "similarity_fn_name __version__ requirements num_labels keep_in_fp32_modules",
            "of comparisons; versions; all is computed in float32",
        ),
    ),
    "warned",
)
_POOLING = FileFields(
    "config.json of Pooling",
    (
        field_row(
            READ, "pooling_mode", '"mean", "cls" or "max", or a list of them, side by side in its order'
        ),
        field_row(
            READ,
            "pooling_mode_mean_tokens pooling_mode_cls_token pooling_mode_max_tokens",
            "older names; `pooling_mode` wins",
        ),
        field_row(
            READ,
            "pooling_mode_mean_sqrt_len_tokens pooling_mode_weightedmean_tokens pooling_mode_lasttoken",
            "refused if true",
        ),
        field_row(
            READ, "include_prompt", "false: the tokens of a default prompt, and the first one, are left out"
        ),
        field_row(NO_EFFECT, "embedding_dimension word_embedding_dimension", "the width of the encoder"),
    ),
)
_NORMALIZE = FileFields(
    "config.json of Normalize",
    (
        field_row(
            REFUSED,
            "module_input_name module_output_name",
            "only the vector of a text is normalised",
            among("sentence_embedding", None),
        ),
    ),
    "warned",
)
_DENSE = FileFields(
    "config.json of Dense",
    (
        field_row(READ, "in_features out_features bias", "its size"),
        field_row(READ, "activation_function", "PyTorch's Tanh (also of none), Identity, GELU, ReLU or SiLU"),
        field_row(
            REFUSED,
            "module_input_name module_output_name",
            "it must change the vector of a text",
            among("sentence_embedding", None),
        ),
        field_row(REFUSED, "use_residual", "it must be false"),
    ),
    "warned",
)
_DROPOUT = FileFields(
    "config.json of Dropout", (field_row(NO_EFFECT, "dropout", "acts in training alone"),), "warned"
)
MODULE_FILES: Mapping[str, FileFields] = {
    "Pooling": _POOLING,
    "Dense": _DENSE,
    "Normalize": _NORMALIZE,
    "Dropout": _DROPOUT,
}
"""Fields of the config of each module, by its kind."""
FILES: tuple[FileFields, ...] = (_TOKENIZER_CONFIG, _TOKENIZER, _SPECIAL_MAP, _SENTENCE_TRANSFORMERS)
"""Files that have one name."""


def all_tables(of_families: Mapping[str, Sequence[Fields]]) -> list[tuple[str, list[str]]]:
    """Return the title and the lines of each table of `docs/folders.md`.

    Args:
        of_families: the rows that each family has of its own in `config.json`, by its title. A row that
            several have is one line.
    """
    lines = [_line(row) for row in _OF_ALL_FAMILIES]
    distinct = dict.fromkeys(row for rows in of_families.values() for row in rows)
    for row in distinct:
        having = sorted((title for title, rows in of_families.items() if row in rows), key=str.casefold)
        lines.append(_line(row, ", ".join(having)))
    found = [("config.json", lines)]
    files = (_TOKENIZER_CONFIG, _TOKENIZER, _SPECIAL_MAP, MODULES, SENTENCE, _SENTENCE_TRANSFORMERS)
    found += [(each.file, [_line(row) for row in each.fields]) for each in files]
    of_modules = [_line(row, kind) for kind, each in MODULE_FILES.items() for row in each.fields]
    return [*found, ("config.json of modules", of_modules)]


def _line(row: Fields, of: str = "") -> str:
    names = ", ".join(f"`{name}`" for name in row.names)
    return f"{f'{of}: ' if of else ''}{names} | {row.effect} | {row.why}"
