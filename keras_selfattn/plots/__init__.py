"""Pictures of position encodings, attention weights, trainings and answers, as matplotlib figures.

Each function takes arrays (NumPy's, or tensors that NumPy can read) and returns a new figure that pyplot does
not know: save it with `figure.savefig("weights.png")`, or leave it as the last line of a notebook's cell
after `%matplotlib inline`. Needs matplotlib: `pip install 'keras-selfattn[plots]'`.

Tokens are drawn letter for letter. For a script that the font lacks, matplotlib draws placeholders and warns
when the figure is saved; name fonts in the order to try them, before the figure is made:
`matplotlib.rcParams["font.family"] = ["DejaVu Sans", "Noto Sans Thai"]`.

Axes: T (positions or queries), S (keys), D (features), L (layers), H (heads).
"""

from keras_selfattn.plots.attention import attention_heatmaps, attention_over_text, pooling_heatmap
from keras_selfattn.plots.encodings import encoding_curves, encoding_heatmap
from keras_selfattn.plots.runs import confusion_matrix, reliability, training_curves

__all__ = [
    "attention_heatmaps",
    "attention_over_text",
    "confusion_matrix",
    "encoding_curves",
    "encoding_heatmap",
    "pooling_heatmap",
    "reliability",
    "training_curves",
]
