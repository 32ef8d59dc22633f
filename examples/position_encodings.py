"""Draws the sinusoidal position encoding and the attention weights of an untrained layer.

    python examples/position_encodings.py [--output position-encodings]

The first two pictures are those of Dive into Deep Learning, section 11.6: 60 positions of width 32, as curves
of columns 6 to 9 and as a heat map. Needs matplotlib: `pip install '.[plots]'`.
"""

import argparse
import io
from pathlib import Path

import keras
import numpy as np
from matplotlib.figure import Figure

from keras_selfattn import plots
from keras_selfattn.files.atomic import write_file
from keras_selfattn.layers import MultiHeadSelfAttention, SinusoidalPositionEncoding

LENGTH, WIDTH, SEED = 60, 32, 0
SENTENCE = "the animal did not cross the street because it was too tired"


def sinusoidal_encoding() -> np.ndarray:
    """Return the encoding that the layer adds to its input, float32 `[60, 32]`."""
    encoded = SinusoidalPositionEncoding()(np.zeros((1, LENGTH, WIDTH), "float32"))
    return keras.ops.convert_to_numpy(encoded)[0]


def untrained_weights(tokens: list[str]) -> np.ndarray:
    """Return the attention weights of an untrained layer, float32 `[heads, query, key]`."""
    ids = np.unique(tokens, return_inverse=True)[1][None]  # [1, T]
    normal = keras.initializers.RandomNormal(stddev=1.0, seed=SEED)
    embedded = keras.layers.Embedding(len(tokens), WIDTH, embeddings_initializer=normal)(ids)  # [1, T, D]
    attention = MultiHeadSelfAttention(num_heads=4, seed=SEED)
    _outputs, weights = attention(SinusoidalPositionEncoding()(embedded), return_weights=True)
    return keras.ops.convert_to_numpy(weights)[0]


def save(figure: Figure, path: Path) -> None:
    """Write a figure as a PNG file that appears whole, and print its path."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=100)
    write_file(path, content.getvalue())
    print(path)


def main() -> None:
    """Write the three pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--output", type=Path, default=Path("position-encodings"), help="folder for the pictures"
    )
    output = parser.parse_args().output
    encoding = sinusoidal_encoding()
    save(
        plots.encoding_curves(encoding, range(6, 10), title="Sinusoidal encoding, columns 6 to 9"),
        output / "encoding-curves.png",
    )
    save(
        plots.encoding_heatmap(encoding, title="Sinusoidal encoding of 60 positions"),
        output / "encoding-heatmap.png",
    )
    tokens = SENTENCE.split()
    save(
        plots.attention_heatmaps(
            untrained_weights(tokens),
            tokens,
            title="Attention weights of an untrained layer (random weights)",
        ),
        output / "attention-heatmaps.png",
    )


if __name__ == "__main__":
    main()
