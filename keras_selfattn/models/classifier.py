"""What the classifiers share: label names, one or several a row."""

from collections.abc import Sequence
from typing import Any, cast

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.base import RawModel
from keras_selfattn.models.heads import ClassHead, Head, MultiLabelHead
from keras_selfattn.models.label_lists import are_name_lists


class Classifier(RawModel):
    """A model whose head names classes: one of them for a row or, where labels come as lists, any number."""

    @property
    def labels(self) -> list[str]:
        """Label names in the order of the classes; none before training."""
        return [] if self._head is None else list(cast(ClassHead, self._head).labels)

    @property
    def multi_label(self) -> bool:
        """Whether a row can bear several labels, or none."""
        return isinstance(self._head, MultiLabelHead)

    def _head_type(self, y: Any) -> type[Head]:
        return MultiLabelHead if are_name_lists(y) else ClassHead


def class_head(labels: Sequence[str], *, multi_label: bool) -> Head:
    """Returns the head that a saved model names.

    Raises:
        ConfigError: for no labels, or two that are the same.
    """
    if not labels or len(set(labels)) != len(labels):
        raise ConfigError(f"`labels` must be names that differ, at least one. Received {list(labels)!r}.")
    return MultiLabelHead(labels) if multi_label else ClassHead(labels)
