"""Versioned, checked SavedModels that take raw input and answer with names; and files of other runtimes."""

from keras_selfattn.extras import importing, require

# These alone: on a server versions are listed and inspected without the rest of what training needs.
require("train", __name__, "tensorflow", "tensorflow_serving")

with importing("train", __name__):
    from keras_selfattn.files.version_files import read_card

    from .card import Training
    from .inspection import Inspection, inspect_saved_model
    from .portable.write import export_portable
    from .precision import Comparison
    from .saved_model import export_saved_model
    from .versions import keep_newest, latest_version, list_versions, remove_versions

__all__ = [
    "Comparison",
    "Inspection",
    "Training",
    "export_portable",
    "export_saved_model",
    "inspect_saved_model",
    "keep_newest",
    "latest_version",
    "list_versions",
    "read_card",
    "remove_versions",
]
