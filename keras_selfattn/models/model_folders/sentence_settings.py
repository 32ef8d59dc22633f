"""The settings of a pretrained text encoder, from a folder's files.

Reference: sbert.net, "modules.json" and "Pooling"; sentence-transformers writes these files.
"""

import dataclasses
import re
from typing import Any

from keras_selfattn.errors import ConfigError, RunError
from keras_selfattn.models.config import check_count
from keras_selfattn.models.model_folders.families import family_of
from keras_selfattn.models.model_folders.family import Family
from keras_selfattn.models.model_folders.folder_tokenizer import read_tokenizer
from keras_selfattn.models.model_folders.model_folder import ModelFolder
from keras_selfattn.models.model_folders.pretrained_config import PretrainedConfig
from keras_selfattn.models.subwords.subword_tokenizer import SubwordTokenizer

# Names of a pooling: the older flags, and the newer value of `pooling_mode`.
_FLAGS = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "first",
    "pooling_mode_max_tokens": "max",
}
_MODES = {"mean": "mean", "cls": "first", "max": "max"}
_MODULES = ["Transformer", "Pooling", "Normalize"]
# sentence-transformers reads the first of these that exists.
_SENTENCE_FILES = [f"sentence_{name}_config.json" for name in ("bert", "roberta", "distilbert", "albert")]


def read_config(folder: ModelFolder) -> tuple[Family, PretrainedConfig, SubwordTokenizer]:
    """Return the family of a folder's model, its settings, and its tokenizer.

    Without `modules.json` a text's vector is the mean of its tokens, as in sentence-transformers.

    Raises:
        ConfigError: for what cannot be read: a family, a tokenizer, a module, a pooling, a prompt.
        RunError: for a missing file.
    """
    family = family_of(folder.config, str(folder.path))
    settings = {**family.settings(folder.config), **_modules(folder)}
    settings["padding_position"] = family.positions_follow_padding
    sentence = next(filter(None, map(folder.json, _SENTENCE_FILES)), {})
    most = sentence.get("max_seq_length") or folder.json("tokenizer_config.json").get("model_max_length")
    try:
        config = PretrainedConfig(**{**settings, "max_tokens": 1})
        check_count("max_seq_length", most := config.positions if most is None else most)
    except ConfigError as error:
        raise ConfigError(f"{folder.path / 'config.json'} cannot be used: {error}") from error
    config = dataclasses.replace(config, max_tokens=min(most, config.positions))
    tokenizer = read_tokenizer(folder, family, config.max_tokens)
    _check_tokenizer(folder, config, tokenizer, sentence)
    return family, dataclasses.replace(config, pieces=tokenizer.settings.to_dict()), tokenizer


def _check_tokenizer(
    folder: ModelFolder, config: PretrainedConfig, tokenizer: SubwordTokenizer, sentence: dict[str, Any]
) -> None:
    """Raise ConfigError for a tokenizer that does not fit the model, and for changes to texts before it."""
    if tokenizer.size > config.vocabulary_size:
        raise ConfigError(
            f"The tokenizer of {folder.path} has {tokenizer.size} pieces, the model vectors for "
            f"{config.vocabulary_size} (vocab_size in config.json). They are not of one model."
        )
    if sentence.get("do_lower_case") and not tokenizer.settings.lowercase:
        raise ConfigError(
            f"{folder.path} folds the case of texts before a tokenizer that keeps it (do_lower_case in "
            "sentence_bert_config.json). This cannot be read."
        )
    prompt = folder.json("config_sentence_transformers.json").get("default_prompt_name")
    if prompt is not None:
        raise ConfigError(
            f"{folder.path} puts the prompt {prompt!r} before each text (default_prompt_name in "
            "config_sentence_transformers.json). This cannot be read."
        )


def _modules(folder: ModelFolder) -> dict[str, Any]:
    """Return pooling and normalisation."""
    modules = folder.modules()
    kinds = [str(each.get("type", "")).rpartition(".")[2] for each in modules]
    if kinds != _MODULES[: len(kinds)] or (modules and modules[0].get("path", "") != ""):
        paths = [f"{kind} at {each.get('path', '')!r}" for kind, each in zip(kinds, modules, strict=True)]
        raise ConfigError(
            f"The modules of {folder.path} are {', '.join(paths)}. Only {', '.join(_MODULES)} can be read, "
            "in this order, the first at ''."
        )
    pooling = _pooling(folder, modules[1].get("path")) if len(modules) > 1 else "mean"
    return {"pooling": pooling, "normalized": "Normalize" in kinds}


def _pooling(folder: ModelFolder, path: Any) -> str:
    """Return the pooling that the config in a folder's subfolder names."""
    if not (isinstance(path, str) and re.fullmatch(r"\w[\w.-]*", path)):
        raise ConfigError(f"The pooling of {folder.path} must be in a subfolder. Its path is {path!r}.")
    name = f"{path}/config.json"
    if not (folder.path / name).is_file():
        raise RunError(f"{folder.path} lacks {name}, which modules.json names. Fetch the folder again.")
    settings = folder.json(name)
    flags = {name: value for name, value in settings.items() if name.startswith("pooling_mode_")}
    mode = settings.get("pooling_mode")
    modes = mode if isinstance(mode, list) else [] if mode is None else [mode]
    on = [flag for flag, value in flags.items() if value is not False]
    known = [_FLAGS.get(flag) for flag in on if flags[flag] is True]
    known += [_MODES.get(each) for each in modes if isinstance(each, str)]
    if len(known) != len(on) + len(modes) or len(known) > 1 or None in known:
        raise ConfigError(
            f"The pooling of {folder.path} is {', '.join(map(str, [*on, *modes]))} in {name}. One of "
            f"{', '.join(_MODES)} can be read."
        )
    return str(known[0]) if known else "mean"
