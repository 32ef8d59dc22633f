"""The measured cases: Transformer encoder blocks, their weights and inputs, the same for every peer.

Axes: B (batch), T (positions), D (features).
"""

from dataclasses import asdict, dataclass, replace
from dataclasses import fields as dataclass_fields
from typing import Any

import numpy as np

Array = np.ndarray

FEED_FORWARD = 4  # hidden features for each feature, as in the paper's base model
EPSILON = 1e-5  # of the layer normalisations: KerasHub's, PyTorch's and ours
_SMALL = (2, 48)  # samples and tokens of the case that gradients are checked on
_MATRICES = ("query", "key", "value", "context", "hidden", "back")


@dataclass(frozen=True)
class Case:
    """A stack of post-norm encoder blocks and the lengths of its batch.

    Args:
        name: of the row in the table.
        lengths: real tokens of each sample; the batch is padded to the longest.
        width: features D of a token.
        heads: attention heads.
        layers: blocks.
        activation: "gelu" (by erf) or "relu".
        dtype: Keras' policy, "float32" or "bfloat16", for weights, inputs and computation.
        precision: of the products, "float32", "tensorfloat32" (float32 rounded to 10 bits on the way in) or
            "bfloat16"; empty = the dtype. Only a GPU has products in "tensorfloat32".
        training: forward and backward with dropout, or inference.
        dropout: the share dropped of attention weights and of the numbers added to a block's input.
        exported: through a SavedModel, written and loaded again, if the contestant can do this.
        window: reach of local attention, in ours; None = all pairs.
        seed: the seed of weights and inputs.
        reference: the file with the right outputs (see reference.py); empty = unknown.
    """

    name: str
    lengths: tuple[int, ...]
    width: int
    heads: int = 8
    layers: int = 1
    activation: str = "gelu"
    dtype: str = "float32"
    precision: str = ""
    training: bool = False
    dropout: float = 0.1
    exported: bool = False
    window: int | None = None
    seed: int = 0
    reference: str = ""

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Case":
        """Return the case that `to_json` described; other fields are for other contestants, and ignored."""
        own = {item.name: fields[item.name] for item in dataclass_fields(cls) if item.name in fields}
        return cls(**{**own, "lengths": tuple(own["lengths"])})

    def to_json(self) -> dict[str, Any]:
        """Return the fields as `from_json` takes them."""
        return asdict(self)

    def inputs(self) -> tuple[Array, Array]:
        """Return float32 inputs `[B, T, D]` and the padding mask, bool `[B, T]`, True = a real token."""
        mask = np.arange(max(self.lengths)) < np.array(self.lengths)[:, None]  # [B, T]
        random = np.random.default_rng([self.seed, 1])
        return random.standard_normal((*mask.shape, self.width), np.float32), mask

    def cotangent(self) -> Array:
        """Return the factors of the outputs in the loss, float32 `[B, T, D]`; 0 at padding.

        A plain sum is no useful loss: after a layer normalisation it hardly depends on the weights.
        """
        _, mask = self.inputs()
        random = np.random.default_rng([self.seed, 2])
        return random.standard_normal((*mask.shape, self.width), np.float32) * mask[..., None]

    def weights(self) -> list[dict[str, Array]]:
        """Return the weights of each block; none are zero, as after training.

        TensorFlow removes all-zero biases from the graph, which would then differ from that of users.
        """
        return [self._block(np.random.default_rng([self.seed, 3, layer])) for layer in range(self.layers)]

    def direction(self) -> list[dict[str, Array]]:
        """Return a direction in the space of the weights, to compare gradients along."""
        return [self._block(np.random.default_rng([self.seed, 4, layer])) for layer in range(self.layers)]

    def small(self) -> "Case":
        """Return a case of a few short samples, for the check of gradients."""
        samples, tokens = _SMALL
        return replace(self, lengths=tuple(min(n, tokens) for n in self.lengths[:samples]))

    def flops(self) -> float:
        """Return the useful operations: matrix products of real tokens, with 2 for a multiply-add."""
        tokens, pairs = sum(self.lengths), sum(n * n for n in self.lengths)
        projections = (4 + 2 * FEED_FORWARD) * tokens * self.width**2
        attention = 2 * pairs * self.width
        backward = 3 if self.training else 1  # the gradient of a product is two products
        return 2.0 * backward * self.layers * (projections + attention)

    def _block(self, random: np.random.Generator) -> dict[str, Array]:
        width, hidden = self.width, FEED_FORWARD * self.width
        shapes = dict.fromkeys(_MATRICES, (width, width)) | {
            "hidden": (width, hidden),
            "back": (hidden, width),
        }
        made = {}
        for name, (rows, columns) in shapes.items():
            made[f"{name}_kernel"] = random.standard_normal((rows, columns)) / rows**0.5
            made[f"{name}_bias"] = 0.1 * random.standard_normal(columns)
        for name in ("attention", "feed_forward"):
            made[f"{name}_gamma"] = 1 + 0.1 * random.standard_normal(width)
            made[f"{name}_beta"] = 0.1 * random.standard_normal(width)
        return {name: array.astype("float32") for name, array in made.items()}


def seeded_lengths(batch: int, longest: int, seed: int = 0) -> tuple[int, ...]:
    """Return lengths, uniform between half the longest and the longest; the first is the longest.

    Example:

        >>> lengths = seeded_lengths(4, 100)
        >>> len(lengths), lengths[0], min(lengths) >= 50
        (4, 100, True)
    """
    drawn = np.random.default_rng(seed).integers(longest // 2, longest, size=batch - 1, endpoint=True)
    return (longest, *map(int, drawn))
