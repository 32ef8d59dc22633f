"""Copy the tensors of a folder into the layers of a core, all of them or none."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import keras
import numpy as np

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.pretrained_folders.family import Family
from keras_selfattn.models.pretrained_folders.pretrained_config import PretrainedConfig
from keras_selfattn.models.saving.weight_parts import assign
from keras_selfattn.models.vocabulary import PADDING_ID

# TensorFlow's names of a normalisation's weights, in folders converted from its checkpoints.
_OLDER = {"weight": "gamma", "bias": "beta"}
# Names of a layer's weights: ours, and PyTorch's.
_THEIRS = {"bias": "bias", "gamma": "weight", "beta": "bias", "scale": "weight"}
_OF_DENSE = {"kernel": "weight", "bias": "bias"}
# Layers of a block: paths here, and names in `Family.block`.
_LAYERS = {
    "feed_forward/hidden": "hidden",
    "feed_forward/gate": "gate",
    "feed_forward/output": "feed_forward_output",
    "attention_norm": "attention_norm",
    "feed_forward_norm": "feed_forward_norm",
}
# Layers of a block that one of a folder holds side by side, by its name.
_HALVES = {
    "hidden_and_gate": ("feed_forward/hidden", "feed_forward/gate"),
    "gate_and_hidden": ("feed_forward/gate", "feed_forward/hidden"),
}
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
        self.reads = True
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
        # While all is checked, an array without memory stands for it.
        return self._tensors.read(found) if self.reads else np.broadcast_to(np.float32(0), shape)

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
            if (of_encoder or of_head) and not inner.endswith(_BUFFERS) and inner not in family.unused:
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
    of_keys = 2 * width * (config.num_kv_heads or config.num_heads) // config.num_heads
    blocks = config.num_layers * (2 * width + of_keys + (3 if config.gated else 2) * hidden) * width
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
    width = int(core.get_layer("encoder").output.shape[-1])

    def value_of(variable: Any) -> Any:
        layer, _, weight = variable.path.rpartition("/")
        layer = layer.removeprefix(f"{core.name}/")
        return _value(named, family, layer, weight, tuple(variable.shape), width)

    named.reads = False
    for variable in core.weights:
        value_of(variable)
    named.check(family, whole_head="logits" in {layer.name for layer in core.layers})
    named.reads = True
    for variable in core.weights:
        assign(variable, value_of(variable))


def copy_dense(tensors: Tensors, layer: keras.layers.Dense, source: str) -> None:
    """Set the weights of a layer after the pooling, a `Dense` of sentence-transformers.

    Raises:
        ConfigError: for tensors that are missing or left over, and for other shapes; nothing is set then.
    """
    shapes = {f"linear.{_OF_DENSE[each.name]}": tuple(each.shape)[::-1] for each in layer.weights}
    if dict(tensors.shapes) != shapes:
        raise ConfigError(
            f"The tensors of {source} are {dict(tensors.shapes)}, and its config.json needs {shapes}."
        )
    if not set(tensors.dtypes.values()) <= {*_FLOATS}:
        raise ConfigError(
            f"The tensors of {source} are of the types {dict(tensors.dtypes)}, not {', '.join(_FLOATS)}."
        )
    layer.set_weights([tensors.read(name).T for name in shapes])


def _value(
    named: NamedTensors, family: Family, layer: str, weight: str, shape: tuple[int, ...], width: int
) -> Any:
    """Return the value of a weight of ours, given the path of its layer and its name there.

    `width` is that of the encoder.
    """
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
    return _of_block(named, theirs, rest, weight, shape, width, family.unbiased)


def _of_block(
    named: NamedTensors,
    theirs: Mapping[str, str],
    rest: str,
    weight: str,
    shape: tuple[int, ...],
    width: int,
    unbiased: Sequence[str],
) -> np.ndarray:
    """Return a weight of a block, given the path of its layer there; `theirs` is `Family.block`, numbered."""
    if weight.startswith("relative_"):
        return named.read(theirs[weight], shape)
    if weight.startswith("query_key_value_"):
        last = weight.removeprefix("query_key_value_")
        if "query_key_value" in theirs:
            return _of_layer(named, theirs["query_key_value"], last, shape)
        of_keys = (shape[-1] - width) // 2  # fewer features where heads of queries share keys
        sizes = {"query": width, "key": of_keys, "value": of_keys}
        parts = [_of_layer(named, theirs[each], last, (*shape[:-1], sizes[each])) for each in sizes]
        return np.concatenate(parts, axis=-1)
    for name, halves in _HALVES.items():
        if rest in halves and name in theirs:
            if weight == "bias" and name in unbiased:
                return np.zeros(shape, np.float32)
            both = _of_layer(named, theirs[name], weight, (*shape[:-1], 2 * shape[-1]))
            return np.split(both, 2, axis=-1)[halves.index(rest)]
    ours = "output" if rest == "attention" else _LAYERS[rest]
    return _of_layer(named, theirs[ours], weight.removeprefix("output_"), shape)


def _table(named: NamedTensors, family: Family, name: str, shape: tuple[int, ...]) -> Any:
    """Return a table of the embedding, its rows in the order of our ids and positions."""
    skipped = family.skipped_positions if name == "positions" else 0
    table = named.read(f"{family.embedding[name]}.weight", (shape[0] + skipped, *shape[1:]))[skipped:]
    return SwappedRows(table, family.padding_id) if name == "tokens" and named.reads else table


class SwappedRows:
    """A table in which row 0 and that of padding have changed places (see `read_tokenizer`), read by parts.

    Args:
        table: `[rows, ...]`.
        padding: the row of padding.
    """

    def __init__(self, table: np.ndarray, padding: int) -> None:
        self._table, self._padding = table, padding
        self.shape = table.shape

    def __getitem__(self, rows: slice) -> np.ndarray:
        start, stop, _ = rows.indices(len(self._table))
        found = np.array(self._table[start:stop])
        for place, other in ((PADDING_ID, self._padding), (self._padding, PADDING_ID)):
            if start <= place < stop:
                found[place - start] = self._table[other]
        return found


def _of_layer(
    named: NamedTensors, layer: str, weight: str, shape: tuple[int, ...], prefix: str | None = None
) -> np.ndarray:
    """Return a weight of a dense layer, whose kernels are transposed there, or of a normalisation."""
    if weight == "kernel":
        return named.read(f"{layer}.weight", shape[::-1], prefix).T
    return named.read(f"{layer}.{_THEIRS[weight]}", shape, prefix)
