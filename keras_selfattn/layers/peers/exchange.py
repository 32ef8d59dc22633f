"""One call each way between our layers and those of Keras, KerasHub and PyTorch, settings and weights."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from keras_selfattn.errors import ConfigError
from keras_selfattn.layers.decoding.cross_attention import MultiHeadCrossAttention
from keras_selfattn.layers.decoding.decoder_block import DecoderBlock
from keras_selfattn.layers.encoder_block import EncoderBlock
from keras_selfattn.layers.peers import keras_layers, torch_modules
from keras_selfattn.layers.peers.contents import Contents, assign, contents_of
from keras_selfattn.layers.self_attention import MultiHeadSelfAttention

Ours = MultiHeadSelfAttention | MultiHeadCrossAttention | EncoderBlock | DecoderBlock
Peer = TypeVar("Peer")

# These are causal always, or never; the others as their argument says.
_CAUSAL = {DecoderBlock: True, MultiHeadCrossAttention: False}


@dataclass(frozen=True)
class _Kind:
    """A class of another library.

    Args:
        name: as its users write it.
        place: the package, and the name of the class there.
        ours: the class of ours that computes the same.
        read: returns the contents of an object of the class.
        make: returns a new object of the class with these contents.
    """

    name: str
    place: tuple[str, str]
    ours: type
    read: Callable[[Any], Contents]
    make: Callable[[Any, Contents], Any]


# By their names: a class that is asked for has been imported by its user. A class derived from one of them
# may compute something else. The first entry of a class holds unless another is asked for.
_KINDS = (
    _Kind(
        keras_layers.MULTI_HEAD,
        ("keras", "MultiHeadAttention"),
        MultiHeadSelfAttention,
        keras_layers.read_multi_head,
        keras_layers.make_multi_head,
    ),
    _Kind(
        keras_layers.GROUPED,
        ("keras", "GroupedQueryAttention"),
        MultiHeadSelfAttention,
        keras_layers.read_grouped,
        keras_layers.make_grouped,
    ),
    _Kind(
        keras_layers.MULTI_HEAD,
        ("keras", "MultiHeadAttention"),
        MultiHeadCrossAttention,
        partial(keras_layers.read_multi_head, of_memory=True),
        keras_layers.make_multi_head,
    ),
    _Kind(
        keras_layers.GROUPED,
        ("keras", "GroupedQueryAttention"),
        MultiHeadCrossAttention,
        partial(keras_layers.read_grouped, of_memory=True),
        keras_layers.make_grouped,
    ),
    _Kind(
        keras_layers.BLOCK,
        ("keras_hub", "TransformerEncoder"),
        EncoderBlock,
        keras_layers.read_block,
        keras_layers.make_block,
    ),
    _Kind(
        keras_layers.DECODER_BLOCK,
        ("keras_hub", "TransformerDecoder"),
        DecoderBlock,
        keras_layers.read_decoder_block,
        keras_layers.make_decoder_block,
    ),
    _Kind(
        torch_modules.ATTENTION,
        ("torch.nn", "MultiheadAttention"),
        MultiHeadSelfAttention,
        torch_modules.read_attention,
        torch_modules.make_attention,
    ),
    _Kind(
        torch_modules.ATTENTION,
        ("torch.nn", "MultiheadAttention"),
        MultiHeadCrossAttention,
        partial(torch_modules.read_attention, of_memory=True),
        torch_modules.make_attention,
    ),
    _Kind(
        torch_modules.BLOCK,
        ("torch.nn", "TransformerEncoderLayer"),
        EncoderBlock,
        torch_modules.read_block,
        torch_modules.make_block,
    ),
    _Kind(
        torch_modules.DECODER_BLOCK,
        ("torch.nn", "TransformerDecoderLayer"),
        DecoderBlock,
        torch_modules.read_decoder_block,
        torch_modules.make_decoder_block,
    ),
)


def from_peer(
    peer: Any, *, kind: type[Ours] | None = None, causal: bool | None = None, name: str | None = None
) -> Ours:
    """Return a built layer with the settings and weights of a layer of Keras, KerasHub or PyTorch.

    It computes the same for real tokens, for inputs `[batch, length, features]`. At masked positions its
    outputs are zero. The weights are equal bit by bit, in the dtype that they have.

    Args:
        peer: a built `keras.layers.MultiHeadAttention` or `GroupQueryAttention`, or a
            `torch.nn.MultiheadAttention`, which becomes a `MultiHeadSelfAttention`; a built
            `keras_hub.layers.TransformerEncoder` or a `torch.nn.TransformerEncoderLayer`, which becomes an
            `EncoderBlock`; or a built `keras_hub.layers.TransformerDecoder` or a
            `torch.nn.TransformerDecoderLayer`, which becomes a `DecoderBlock`. Updates of Keras' LoRA are
            added to the kernels. `batch_first` of PyTorch says how inputs lie, not what is computed.
        kind: `MultiHeadCrossAttention` if the peer is an attention whose keys and values are of another
            sequence than its queries, which it does not know of itself; by default the class named above.
        causal: True if the peer is called with a causal mask, such as `use_causal_mask=True`, which it does
            not know of itself; by default False. A `DecoderBlock` is always causal, as PyTorch's layer is
            with a `tgt_mask` alone, and attention to another sequence never.
        name: of the new layer.

    Returns:
        The layer. It draws other numbers for dropout than the peer.

    Raises:
        ConfigError: for another class, also one derived from these, a peer that is not built, one with a
            setting that has no counterpart here, and one with other parameters, such as quantized ones; for a
            `kind` or `causal` that is none of the peer's.

    Example:

        >>> import keras, numpy as np
        >>> from keras_selfattn import layers
        >>> peer = keras.layers.MultiHeadAttention(num_heads=4, key_dim=8)
        >>> x = np.random.default_rng(0).normal(size=(2, 5, 16)).astype("float32")
        >>> wanted = peer(x, x, use_causal_mask=True)
        >>> layer = layers.from_peer(peer, causal=True)
        >>> bool(abs(np.asarray(layer(x)) - np.asarray(wanted)).max() < 1e-5)
        True
    """
    found = _kinds_of("peer", type(peer), peer)
    chosen = found[0] if kind is None else next((each for each in found if each.ours is kind), None)
    if chosen is None:
        raise ConfigError(f"`kind` must be {_names_of_ours(found)} for a {found[0].name}. Received {kind!r}.")
    causality = _causal(chosen.ours, causal)
    contents = chosen.read(peer)
    layer = chosen.ours(**contents.settings, **causality, name=name)
    layer.build(*contents.shapes)
    assign(layer, contents.weights)
    return layer


def to_peer(layer: Ours, kind: type[Peer]) -> Peer:
    """Return a new layer of Keras, KerasHub or PyTorch with the settings and weights of a layer.

    For an existing one of the same settings, take the weights of the new one: `set_weights` of Keras, or
    `load_state_dict` of PyTorch.

    Args:
        layer: a built one. Updates of LoRA are added to the kernels, as in a file. The peers take the causal
            mask of a `causal` layer in each call.
        kind: a class: for a `MultiHeadSelfAttention` or a `MultiHeadCrossAttention`,
            `keras.layers.MultiHeadAttention`, `keras.layers.GroupQueryAttention` or
            `torch.nn.MultiheadAttention`; for an `EncoderBlock`, `keras_hub.layers.TransformerEncoder` or
            `torch.nn.TransformerEncoderLayer`; for a `DecoderBlock`, `keras_hub.layers.TransformerDecoder`,
            or with a memory as wide as its inputs `torch.nn.TransformerDecoderLayer`. PyTorch's have
            `batch_first=True`, and are in training mode until `eval()`, as all new modules are.

    Returns:
        An object of the class, built. Its weights are equal bit by bit, in the dtype of the layer's weights.

    Raises:
        ConfigError: for another layer or class, a layer that is not built, one with a setting that has no
            counterpart there, and a quantized one.

    Example:

        >>> import keras, numpy as np
        >>> from keras_selfattn import layers
        >>> layer = layers.MultiHeadSelfAttention(num_heads=4, num_kv_heads=2)
        >>> x = np.random.default_rng(0).normal(size=(2, 5, 16)).astype("float32")
        >>> wanted = layer(x)
        >>> peer = layers.to_peer(layer, keras.layers.GroupQueryAttention)
        >>> bool(abs(np.asarray(peer(x, x)) - np.asarray(wanted)).max() < 1e-5)
        True
    """
    if not isinstance(kind, type):
        raise ConfigError(
            "`kind` must be a class, such as keras.layers.MultiHeadAttention. Received an object of "
            f"{type(kind).__name__}: give its class, and then it the weights of what you get."
        )
    found = _kinds_of("kind", kind, kind)
    for each in found:
        if type(layer) is each.ours:
            return each.make(kind, contents_of(layer))
    raise ConfigError(
        f"`layer` must be a {_names_of_ours(found)} to become a {found[0].name}. Received "
        f"{type(layer).__name__}. Of an Encoder or a Decoder, pass each of its `blocks`."
    )


def _causal(ours: type, causal: bool | None) -> dict[str, bool]:
    """Return the argument `causal` for a class of ours; one that has none may raise ConfigError."""
    only = _CAUSAL.get(ours)
    if only is None:
        return {"causal": False if causal is None else causal}
    if causal is not None and causal is not only:
        raise ConfigError(
            f"`causal` must be {only} for a peer that becomes a {ours.__name__}, which is causal "
            f"{'always' if only else 'never'}. Received {causal!r}. Leave it out."
        )
    return {}


def _names_of_ours(kinds: list[_Kind]) -> str:
    return " or ".join(kind.ours.__name__ for kind in kinds)


def _kinds_of(argument: str, cls: type, received: Any) -> list[_Kind]:
    """Return the entries of a class, one for each class of ours that it becomes."""
    found = [
        kind
        for kind in _KINDS
        if cls.__name__ == kind.place[1] and cls.__module__.startswith(f"{kind.place[0]}.")
    ]
    if found:
        return found
    names = ", ".join(dict.fromkeys(kind.name for kind in _KINDS))
    raise ConfigError(
        f"`{argument}` must be {names}, not a class derived from one. Received {received!r}. "
        "Of a stack, pass each of its layers."
    )
