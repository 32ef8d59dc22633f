"""Files to texts and labels, splits, and the built-in first data set."""

from keras_selfattn.data.names import LANGUAGES, Name, load_names, split_by_thing
from keras_selfattn.data.tables import Table, check_classes, read_table, split_table

__all__ = [
    "LANGUAGES",
    "Name",
    "Table",
    "check_classes",
    "load_names",
    "read_table",
    "split_by_thing",
    "split_table",
]
