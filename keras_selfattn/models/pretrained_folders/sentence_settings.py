"""The settings of a pretrained text encoder, from a folder's files.

Reference: sbert.net, "modules.json" and "Pooling"; sentence-transformers writes these files.
"""

import dataclasses
import re
from typing import Any

from keras_selfattn.errors import ConfigError, RunError
from keras_selfattn.models.config import check_count, is_number
from keras_selfattn.models.pretrained_folders.families import family_of
from keras_selfattn.models.pretrained_folders.family import Family
from keras_selfattn.models.pretrained_folders.folder_fields import (
    FILES,
    MODULE_FILES,
    MODULES,
    SENTENCE,
    config_fields,
)
from keras_selfattn.models.pretrained_folders.folder_tokenizer import read_tokenizer
from keras_selfattn.models.pretrained_folders.model_folder import ModelFolder
from keras_selfattn.models.pretrained_folders.pretrained_config import PretrainedConfig
from keras_selfattn.models.subwords.subword_tokenizer import SubwordTokenizer
from keras_selfattn.user_warnings import warn_user

# Names of a pooling: the older flags, and the newer value of `pooling_mode`.
# The order is that of their vectors.
_FLAGS = {
    "pooling_mode_cls_token": "first",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
}
_MODES = {"mean": "mean", "cls": "first", "max": "max"}
# The modules after the pooling, but for Dropout, in the order in which they can be read.
_AFTER_POOLING = re.compile("(Dense )*(Normalize )*")
_PYTORCH = {
    **{
        f"torch.nn.{place}{name}": name.lower()
        for name in ("Tanh", "GELU", "ReLU", "SiLU")
        for place in ("modules.activation.", "")
    },
    **dict.fromkeys(("torch.nn.modules.linear.Identity", "torch.nn.Identity"), "identity"),
}
_OWN = "sentence_transformers."
_ADAPTER = "adapter_config.json"
_SUBFOLDER = r"\w[\w.-]*"
# sentence-transformers reads the first of these that exists.
_KINDS = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
_SENTENCE_FILES = [f"sentence_{name}_config.json" for name in _KINDS]
_SENTENCE_TRANSFORMERS, _TOKENIZER = "config_sentence_transformers.json", "tokenizer_config.json"
# Prompts that are empty unless a folder sets them.
_EMPTY = ("query", "document")


def read_config(
    folder: ModelFolder, *, vectors: bool = False
) -> tuple[Family, PretrainedConfig, SubwordTokenizer]:
    """Return the family of a folder's model, its settings, and its tokenizer.

    Without `modules.json` a text's vector is the mean of its tokens, as in sentence-transformers.

    Args:
        folder: a model's.
        vectors: True if the vectors of texts are wanted: a folder whose outputs are others is refused.

    Raises:
        ConfigError: for what cannot be read: a family, a field, a tokenizer, a module, a pooling, a prompt.
        RunError: for a missing file.
    """
    family = family_of(folder.config, str(folder.path))
    _check_fields(folder, family, vectors=vectors)
    settings = {**family.settings(folder.config), **_modules(folder, vectors=vectors)}
    settings["padding_position"] = family.positions_follow_padding
    try:
        config = PretrainedConfig(**{**settings, "max_tokens": 1})
    except ConfigError as error:
        raise ConfigError(f"{folder.path / 'config.json'} cannot be used: {error}") from error
    if vectors:
        _check_dense(folder, config)
        config = dataclasses.replace(config, truncate_dim=_truncate_dim(folder, config.vector_width))
    config = dataclasses.replace(config, max_tokens=_max_tokens(folder, config.positions))
    folds = bool(_used(folder)[1].get("do_lower_case"))
    tokenizer, padding = read_tokenizer(folder, family, config.max_tokens, lowercase=folds)
    family = dataclasses.replace(family, padding_id=padding)
    if tokenizer.size > config.vocabulary_size:
        raise ConfigError(
            f"The tokenizer of {folder.path} has {tokenizer.size} pieces, the model vectors for "
            f"{config.vocabulary_size} (vocab_size in config.json). They are not of one model."
        )
    return family, dataclasses.replace(config, pieces=tokenizer.settings.to_dict()), tokenizer


def _check_fields(folder: ModelFolder, family: Family, *, vectors: bool) -> None:
    """Raise ConfigError for a field that is refused; warn in one line of those that are not known."""
    if (folder.path / _ADAPTER).is_file():
        raise ConfigError(
            f"{folder.path} holds an adapter ({_ADAPTER}), whose weights are added to a model's. Merge them "
            "first: `peft`'s merge_and_unload() and save_pretrained(NEW)."
        )
    name, sentence = _sentence(folder)
    files = [(config_fields(family.fields), "config.json", folder.config)]
    files += [(each, each.file, folder.json(each.file)) for each in FILES]
    files += [(SENTENCE, name, sentence)]
    files += [(MODULES, "modules.json", each) for each in folder.modules()]
    files += [(MODULE_FILES[kind], file, folder.json(file)) for kind, file in _module_files(folder)]
    unknown = [
        f"{field} of {file}"
        for fields, file, found in files
        for field in fields.check(found, str(folder.path / file), vectors=vectors)
    ]
    if unknown:
        warn_user(
            f"{folder.path} has fields that are not known here, and without effect: {', '.join(unknown)}. "
            "transformers and sentence-transformers do not read them, other software may."
        )


def _used(folder: ModelFolder) -> tuple[str, dict[str, Any]]:
    """Return the same as `_sentence`, which sentence-transformers reads beside `modules.json` alone."""
    name, found = _sentence(folder)
    return name, found if folder.modules() else {}


def _sentence(folder: ModelFolder) -> tuple[str, dict[str, Any]]:
    """Return the name and the content of the file about the reading of texts."""
    found = ((name, folder.json(name)) for name in _SENTENCE_FILES)
    return next(((name, each) for name, each in found if each), (_SENTENCE_FILES[0], {}))


def _truncate_dim(folder: ModelFolder, width: int) -> int | None:
    """Return the features to which vectors of `width` are cut; None if all are kept."""
    found = folder.json(_SENTENCE_TRANSFORMERS).get("truncate_dim") if folder.modules() else None
    try:
        if found is not None:
            check_count("truncate_dim", found)
    except ConfigError as error:
        raise ConfigError(f"{folder.path / _SENTENCE_TRANSFORMERS}: {error}") from error
    return None if found is None or found >= width else found


def _max_tokens(folder: ModelFolder, positions: int) -> int:
    """Return the tokens at which texts are cut, `positions` at most."""
    name, sentence = _used(folder)
    config = folder.json(_TOKENIZER)
    fields = [(name, "max_seq_length", sentence)]
    fields += [(_TOKENIZER, field, config) for field in ("model_max_length", "max_len")]
    file, field, most = next(
        ((file, field, held[field]) for file, field, held in fields if held.get(field)), ("", "", positions)
    )
    # A length beyond all texts is how "no limit" is written, such as 1e30.
    if is_number(most) and most >= positions:
        return positions
    if isinstance(most, float) and most.is_integer():
        most = int(most)  # as some files write it
    try:
        check_count(field, most)
    except ConfigError as error:
        raise ConfigError(f"{folder.path / file} cannot be used: {error}") from error
    return int(most)


def _prompt(folder: ModelFolder) -> str:
    """Return the prompt that is put before each text; "" for none."""
    found = folder.json(_SENTENCE_TRANSFORMERS) if folder.modules() else {}
    name, prompts = found.get("default_prompt_name"), found.get("prompts") or {}
    if name is None or (name in _EMPTY and isinstance(prompts, dict) and not prompts.get(name)):
        return ""
    prompt = prompts.get(name, 0) if isinstance(prompts, dict) else 0
    if prompt is None:  # as good as none in sentence-transformers
        return ""
    if not isinstance(prompt, str):
        raise ConfigError(
            f"{folder.path / _SENTENCE_TRANSFORMERS}: default_prompt_name is {name!r}, and `prompts` has no "
            f"text of that name: {prompts!r}."
        )
    return prompt


def _modules(folder: ModelFolder, *, vectors: bool) -> dict[str, Any]:
    """Return pooling and normalisation; where vectors are wanted, also what else makes them of a text."""
    modules, kinds = folder.modules(), _kinds(folder)
    after = "".join(f"{kind} " for kind in kinds[2:] if kind != "Dropout")
    fits = kinds[:2] == ["Transformer", "Pooling"][: len(kinds)] and _AFTER_POOLING.fullmatch(after)
    if not fits or (modules and modules[0].get("path", "") != ""):
        paths = [f"{kind} at {each.get('path', '')!r}" for kind, each in zip(kinds, modules, strict=True)]
        raise ConfigError(
            f"The modules of {folder.path} are {', '.join(paths)}. Only Transformer, Pooling, then any of "
            "Dense, any of Normalize, and Dropout can be read, in this order, the first at '', all of them "
            "sentence-transformers' own."
        )
    pooling = _module_settings(folder, "pooling", modules[1].get("path")) if len(modules) > 1 else ("", {})
    first, *further = _poolings(folder, *pooling)
    found = {"pooling": first, "normalized": "Normalize" in kinds}
    if not vectors:
        return found
    prompt, included = _prompt(folder), pooling[1].get("include_prompt", True)
    if not isinstance(included, bool):
        raise ConfigError(
            f"{folder.path / pooling[0]}: `include_prompt` must be true or false. Received {included!r}."
        )
    return {
        **found,
        "further_poolings": further,
        "dense": [_dense(folder, *_module_settings(folder, "layer", path)) for path in dense_paths(folder)],
        "prompt": prompt,
        "pools_prompt": not prompt or included,
    }


def _kinds(folder: ModelFolder) -> list[str]:
    """Return the kind of each module; of one that is not sentence-transformers' own the whole name."""
    types = [str(each.get("type", "")) for each in folder.modules()]
    return [each.rpartition(".")[2] if each.startswith(_OWN) else each for each in types]


def _module_files(folder: ModelFolder) -> list[tuple[str, str]]:
    """Return the kind and the config of each module that has one in a subfolder."""
    paths = [each.get("path") for each in folder.modules()]
    return [
        (kind, f"{path}/config.json")
        for kind, path in zip(_kinds(folder), paths, strict=True)
        if kind in MODULE_FILES and isinstance(path, str) and re.fullmatch(_SUBFOLDER, path)
    ]


def dense_paths(folder: ModelFolder) -> list[Any]:
    """Return the subfolders of the layers after a folder's pooling, in their order."""
    both = zip(folder.modules(), _kinds(folder), strict=True)
    return [module.get("path") for module, kind in both if kind == "Dense"]


def _module_settings(folder: ModelFolder, what: str, path: Any) -> tuple[str, dict[str, Any]]:
    """Return the name and the content of the config of a module in a folder's subfolder."""
    if not (isinstance(path, str) and re.fullmatch(_SUBFOLDER, path)):
        raise ConfigError(f"The {what} of {folder.path} must be in a subfolder. Its path is {path!r}.")
    name = f"{path}/config.json"
    if not (folder.path / name).is_file():
        raise RunError(f"{folder.path} lacks {name}, which modules.json names. Fetch the folder again.")
    return name, folder.json(name)


def _poolings(folder: ModelFolder, name: str, settings: dict[str, Any]) -> list[str]:
    """Return the poolings that a module's config names, in the order of their vectors; one at least."""
    mode = settings.get("pooling_mode")
    if mode is None:  # the older flags, which it replaces
        flags = {name: value for name, value in settings.items() if name.startswith("pooling_mode_")}
        modes: list[Any] = [flag for flag, value in flags.items() if value is not False]
        modes.sort(key=list(_FLAGS).index if set(modes) <= set(_FLAGS) else None)
        known = [_FLAGS.get(flag) if flags[flag] is True else None for flag in modes]
    else:
        modes = mode if isinstance(mode, list) else [mode]
        known = [_MODES.get(each) if isinstance(each, str) else None for each in modes]
    if None in known or (mode is not None and not known):
        raise ConfigError(
            f"The pooling of {folder.path} is {', '.join(map(str, modes)) or 'empty'} in {name}. One or "
            f"several of {', '.join(_MODES)} can be read."
        )
    return [str(each) for each in known] or ["mean"]


def _dense(folder: ModelFolder, name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of `PretrainedConfig.dense`; its activation is tanh where the file names none."""
    named = settings.get("activation_function", "torch.nn.modules.activation.Tanh")
    if named not in _PYTORCH:
        raise ConfigError(
            f"{folder.path / name}: `activation_function` is {named!r}. Those that can be read are "
            f"{', '.join(_PYTORCH)}."
        )
    units, bias = settings.get("out_features"), settings.get("bias", True)
    return {"units": units, "activation": _PYTORCH[named], "use_bias": bias}


def _check_dense(folder: ModelFolder, config: PretrainedConfig) -> None:
    """Raise ConfigError for a layer after the pooling whose inputs are not as wide as what is before it."""
    width = dataclasses.replace(config, dense=[]).vector_width
    for path, layer in zip(dense_paths(folder), config.dense, strict=True):
        name, settings = _module_settings(folder, "layer", path)
        if settings.get("in_features") != width:
            raise ConfigError(
                f"{folder.path / name}: `in_features` is {settings.get('in_features')!r}, and the vectors "
                f"before it have {width} features."
            )
        width = layer["units"]
