"""The marks of a cross-encoder in a folder: its rows are pairs of texts, and a function follows its logits.

Reference: sentence-transformers 6, `CrossEncoder`, which writes `config_sentence_transformers.json`; 4 and 5
wrote `sentence_transformers` in `config.json`, 3 and earlier `sbert_ce_default_activation_function` there.
"""

from dataclasses import dataclass
from typing import Any

from keras_selfattn.errors import ConfigError, RunError
from keras_selfattn.models.pretrained_folders.model_folder import ModelFolder

_NEWEST, _OLDER = "config_sentence_transformers.json", "config.json"
_OLDEST_FIELD = "sbert_ce_default_activation_function"
_ACTIVATIONS = {
    "torch.nn.Sigmoid": "sigmoid",
    "torch.nn.modules.activation.Sigmoid": "sigmoid",
    "torch.nn.Identity": "identity",
    "torch.nn.modules.linear.Identity": "identity",
    "torch.nn.Softmax": "softmax",
    "torch.nn.modules.activation.Softmax": "softmax",
}


@dataclass(frozen=True)
class CrossEncoderMark:
    """A folder's words about its cross-encoder.

    Args:
        place: the field that says it, and its file.
        activation: "sigmoid", "identity" or "softmax"; None if no field names one.
    """

    place: str
    activation: str | None


def cross_encoder_mark(folder: ModelFolder) -> CrossEncoderMark | None:
    """Return what a folder says of its cross-encoder; None if it says nothing.

    Raises:
        ConfigError: for an activation that cannot be read.
        RunError: if `modules.json` is missing, without which sentence-transformers reads other fields.
    """
    found = folder.json(_NEWEST)
    newest = found.get("model_type") == "CrossEncoder"
    if newest and not folder.modules():
        raise RunError(
            f"{folder.path} lacks modules.json, which a CrossEncoder (model_type in {_NEWEST}) has. Fetch "
            "the folder again."
        )
    if newest and found.get("activation_fn") is not None:
        return _mark(folder, f"`activation_fn` of {_NEWEST}", found["activation_fn"])
    saved = folder.config.get("sentence_transformers")
    if saved is not None and not isinstance(saved, dict):
        raise ConfigError(
            f"`sentence_transformers` in {folder.path / _OLDER} must be an object. Received {saved!r:.80}."
        )
    if saved is not None and "activation_fn" in saved:
        place = f"`activation_fn` of `sentence_transformers` in {_OLDER}"
        return _mark(folder, place, saved["activation_fn"])
    if folder.config.get(_OLDEST_FIELD) is not None:
        return _mark(folder, f"`{_OLDEST_FIELD}` of {_OLDER}", folder.config[_OLDEST_FIELD])
    return CrossEncoderMark(f"`model_type` of {_NEWEST}", None) if newest else None


def _mark(folder: ModelFolder, place: str, name: Any) -> CrossEncoderMark:
    if name is not None and not (isinstance(name, str) and name in _ACTIVATIONS):
        raise ConfigError(
            f"{folder.path}: {place} is {name!r:.200}. The functions after the output layer that can be read "
            f"are {', '.join(_ACTIVATIONS)}."
        )
    return CrossEncoderMark(place, None if name is None else _ACTIVATIONS[name])
