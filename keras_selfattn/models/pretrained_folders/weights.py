"""Copy the tensors of a folder into the layers of a core, all of them or none."""

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import keras
import numpy as np

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.pretrained_folders.family import Family
from keras_selfattn.models.pretrained_folders.pretrained_config import PretrainedConfig
from keras_selfattn.models.vocabulary import PADDING_ID

# TensorFlow's names of a normalisation's weights, in folders converted from its checkpoints.
_OLDER = {"weight": "gamma", "bias": "beta"}
# Names of a layer's weights: ours, and PyTorch's.
_THEIRS = {"bias": "bias", "gamma": "weight", "beta": "bias"}
# Layers of a block: paths here, and names in `Family.block`.
_LAYERS = {
    "feed_forward/hidden": "hidden",
    "feed_forward/output": "feed_forward_output",
    "attention_norm": "attention_norm",
    "feed_forward_norm": "feed_forward_norm",
}
# Layers of a block that one of a folder holds side by side, "hidden_and_gate".
_HALVES = ("feed_forward/hidden", "feed_forward/gate")
_FLOATS = ("F32", "F16", "BF16", "F64")
# Buffers, which hold no weights.
_BUFFERS = ("position_ids", "token_type_ids")


class Tensors(Protocol):
    """Named tensors: those of a folder (`folder.Tensors`), or of a model in memory."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each tensor by name."""
        ...

    @property
    def dtypes(self) -> Mapping[str, str]:
        """The type of each tensor by name, as safetensors writes it, such as "F32"."""
        ...

    def read(self, name: str) -> np.ndarray:
        """Return a tensor."""
        ...


class NamedTensors:
    """The tensors of a folder under the names of a family, without the prefix that they have there.

    Args:
        tensors: of the folder.
        family: its family.
        source: the folder, for messages.

    Raises:
        ConfigError: if there is no table of tokens.
    """

    def __init__(self, tensors: Tensors, family: Family, source: str) -> None:
        self._tensors, self._source = tensors, source
        table = f"{family.embedding['tokens']}.weight"
        own = family.prefix or f"{family.name}."
        prefixes = [prefix for prefix in ("", own) if prefix + table in tensors.shapes]
        if not prefixes:
            raise ConfigError(
                f"{source} holds no tensor {table}, or {own}{table}: these are not the weights of a "
                f"model of the family {family.name!r}, which its config.json names."
            )
        self._prefix = prefixes[0]
        self._faults: dict[str, None] = {}  # an ordered set: blocks share tensors
        self._used: set[str] = set()

    def read(self, name: str, shape: Sequence[int], prefix: str | None = None) -> np.ndarray:
        """Return a tensor; zeros, and a fault for `check`, if it is missing or has another shape.

        Args:
            name: without its prefix.
            shape: that it must have.
            prefix: before the name; by default that of the encoder's tensors. Heads have "".
        """
        before, _, last = name.rpartition(".")
        prefix = self._prefix if prefix is None else prefix
        names = [f"{prefix}{before}.{each}" for each in (last, _OLDER.get(last, last))]
        found = next((each for each in names if each in self._tensors.shapes), None)
        if found is None:
            self._faults[f"{names[0]} is missing"] = None
            return np.zeros(shape, np.float32)
        self._used.add(found)
        if self._tensors.shapes[found] != tuple(shape):
            has, wanted = list(self._tensors.shapes[found]), list(shape)
            self._faults[f"{found} has shape {has} where config.json needs {wanted}"] = None
            return np.zeros(shape, np.float32)
        if self._tensors.dtypes[found] not in _FLOATS:
            self._faults[f"{found} is of type {self._tensors.dtypes[found]}, not {', '.join(_FLOATS)}"] = None
            return np.zeros(shape, np.float32)
        return self._tensors.read(found)

    def check(self, family: Family, *, whole_head: bool) -> None:
        """Raise ConfigError for all faults, and for tensors that should have been read.

        Those are all of the encoder and, with `whole_head`, of the head.
        """
        of_heads = (family.head.hidden, family.head.norm, family.head.output)
        head = {name.partition(".")[0] for name in of_heads} - {family.name, ""}
        names = (*family.embedding.values(), *family.block.values(), family.last_norm)
        parts = {name.partition(".")[0] for name in names}
        for name in sorted(set(self._tensors.shapes) - self._used):
            inner = name.removeprefix(self._prefix)
            of_encoder = name.startswith(self._prefix) and inner.partition(".")[0] in parts
            of_head = whole_head and name.partition(".")[0] in head
            if (of_encoder or of_head) and not inner.endswith(_BUFFERS):
                self._faults[f"{name} has no place in this family"] = None
        self.check_read()

    def check_read(self) -> None:
        """Raise ConfigError for all faults of the tensors that were read."""
        if self._faults:
            faults = "\n  ".join(self._faults)
            raise ConfigError(
                f"The weights of {self._source} do not fit its config.json, in {len(self._faults)} places:"
                f"\n  {faults}"
            )


def check_size(tensors: Tensors, config: PretrainedConfig, source: str) -> None:
    """Raise ConfigError if a config describes a far larger model than the weights are of.

    Called before layers are built, it keeps a wrong number of `config.json` from taking all memory.
    `copy_weights` names smaller differences.
    """
    width, narrow = config.width, config.embedding_width or config.width
    hidden = config.hidden_width
    rows = config.vocabulary_size + config.position_rows + config.token_types
    blocks = config.num_layers * (4 * width + (3 if config.gated else 2) * hidden) * width
    wanted = rows * narrow + blocks
    held = sum(math.prod(shape) for shape in tensors.shapes.values())
    if wanted > 2 * held:
        raise ConfigError(
            f"The model that the config.json of {source} describes has {wanted:,} weights or more, and its "
            f"files hold {held:,}: vocab_size {config.vocabulary_size}, width {width}, positions "
            f"{config.positions}, layers {config.num_layers}, hidden width {hidden}. They are not of one "
            "model."
        )


def copy_weights(tensors: Tensors, family: Family, core: keras.Model, source: str) -> None:
    """Set the weights of a core's layers "embedding", "encoder", "hidden_head", "hidden_norm" and "logits".

    Args:
        tensors: of the folder.
        family: its family.
        core: the layers, built; the last three may be missing. Tensors of a head that no layer needs are
            ignored, unless there is "logits".
        source: the folder, for messages.

    Raises:
        ConfigError: for missing tensors, other shapes, and unknown tensors, all of them in one message;
            nothing is set then.
    """
    named = NamedTensors(tensors, family, source)
    found = []
    for variable in core.weights:
        layer, _, weight = variable.path.rpartition("/")
        layer = layer.removeprefix(f"{core.name}/")
        value = _value(named, family, layer, weight, tuple(variable.shape))
        found.append((variable, value))
    named.check(family, whole_head="logits" in {layer.name for layer in core.layers})
    for variable, value in found:
        variable.assign(value)


def _value(
    named: NamedTensors, family: Family, layer: str, weight: str, shape: tuple[int, ...]
) -> np.ndarray:
    """Return the value of a weight of ours, given the path of its layer and its name there."""
    part, _, rest = layer.partition("/")
    if part == "embedding":
        theirs = family.embedding[rest or weight]
        return _of_layer(named, theirs, weight, shape) if rest else _table(named, family, weight, shape)
    head = family.head
    of_head = {"hidden_head": head.hidden, "hidden_norm": head.norm, "logits": head.output}
    if part in of_head:
        return _of_layer(named, of_head[part], weight, shape, prefix="")
    block, _, rest = rest.partition("/")
    if block == "norm":
        return _of_layer(named, family.last_norm, weight, shape)
    number = block.removeprefix("block_")
    theirs = {ours: name.format(number) for ours, name in family.block.items()}
    return _of_block(named, theirs, rest, weight, shape)


def _of_block(
    named: NamedTensors, theirs: Mapping[str, str], rest: str, weight: str, shape: tuple[int, ...]
) -> np.ndarray:
    """Return a weight of a block, given the path of its layer there; `theirs` is `Family.block`, numbered."""
    if weight == "relative_bias":
        return named.read(f"{theirs[weight]}.weight", shape)
    if weight.startswith("query_key_value_"):
        last = weight.removeprefix("query_key_value_")
        if "query_key_value" in theirs:
            return _of_layer(named, theirs["query_key_value"], last, shape)
        third = (*shape[:-1], shape[-1] // 3)
        thirds = [_of_layer(named, theirs[each], last, third) for each in ("query", "key", "value")]
        return np.concatenate(thirds, axis=-1)
    if rest in _HALVES and "hidden_and_gate" in theirs:
        both = _of_layer(named, theirs["hidden_and_gate"], weight, (*shape[:-1], 2 * shape[-1]))
        return np.split(both, 2, axis=-1)[_HALVES.index(rest)]
    ours = "output" if rest == "attention" else _LAYERS[rest]
    return _of_layer(named, theirs[ours], weight.removeprefix("output_"), shape)


def _table(named: NamedTensors, family: Family, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return a table of the embedding, its rows in the order of our ids and positions."""
    skipped = family.skipped_positions if name == "positions" else 0
    table = named.read(f"{family.embedding[name]}.weight", (shape[0] + skipped, *shape[1:]))[skipped:]
    return swapped_rows(table, family.padding_id) if name == "tokens" else table


def swapped_rows(table: np.ndarray, padding: int) -> np.ndarray:
    """Return the table of tokens after 0 and `padding` have changed places (see `read_tokenizer`)."""
    if padding == PADDING_ID:
        return table
    swapped = np.array(table)
    swapped[[PADDING_ID, padding]] = table[[padding, PADDING_ID]]
    return swapped


def _of_layer(
    named: NamedTensors, layer: str, weight: str, shape: tuple[int, ...], prefix: str | None = None
) -> np.ndarray:
    """Return a weight of a dense layer, whose kernels are transposed there, or of a normalisation."""
    if weight == "kernel":
        return named.read(f"{layer}.weight", shape[::-1], prefix).T
    return named.read(f"{layer}.{_THEIRS[weight]}", shape, prefix)
