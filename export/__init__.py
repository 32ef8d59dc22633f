"""Versioned, checked SavedModels that take raw input and answer with names."""

from .saved_model import export_saved_model
from .versions import latest_version, list_versions

__all__ = ["export_saved_model", "latest_version", "list_versions"]
