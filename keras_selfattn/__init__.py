"""Self-attention and positional encodings for Keras: from labelled sequences to a served classifier.

The subpackages load on first use, so that `keras_selfattn.serving.client` imports neither TensorFlow nor
Keras:

- `layers`: self-attention, position encodings, pooling, the encoder.
- `models`: classifiers that read raw text and carry their own vocabulary and labels.
- `data`: readers of files, and the built-in first data set.
- `plots`: pictures of position encodings, attention weights, trainings and answers.
- `training`: trains on labelled rows, or on texts without labels, and writes a run folder.
- `estimators`: scikit-learn estimators over the models.
- `export`: versioned, checked SavedModels that take raw text.
- `batch`: answers for many rows, also in a Ray or Spark job of one's own.
- `serving`: the server (TensorFlow Serving's gRPC API) and the client.
"""

import importlib
import os
from types import ModuleType

__version__ = "0.1.0"

_SUBPACKAGES = ("batch", "data", "estimators", "export", "layers", "models", "plots", "serving", "training")

# `export` and `serving` are links to folders beside this one; a checkout on Windows, or an archive, may hold
# files in their place. An install has the folders themselves.
if not os.path.isdir(os.path.join(__path__[0], "export")):
    __path__.append(os.path.dirname(__path__[0]))


def __getattr__(name: str) -> ModuleType:
    if name in _SUBPACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_SUBPACKAGES])
