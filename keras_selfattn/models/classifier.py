"""Base of the classifiers: label names, one or several for each row."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.batches.rows import Rows
from keras_selfattn.models.heads.class_heads import BITS, ClassHead, Head, LabelHead, MultiLabelHead
from keras_selfattn.models.heads.indicators import as_indicators
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.rows.label_names import may_bear_several
from keras_selfattn.rows.targets import LABEL_SET


class Classifier(RawModel):
    """A model whose head predicts one class for each row or, if labels are lists, any number.

    Args:
        config: the model's settings; by default, those of its kind.
        multi_label: True if rows may have several labels; None leaves it to the labels of the first `fit`
            (`rows.label_names.may_bear_several`). Labels that are rows of zeros and ones, a column for each
            class, need it: they are several labels a row if True, and one-hot if False.
    """

    def __init__(self, config: Any = None, *, multi_label: bool | None = None, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        if not (multi_label is None or isinstance(multi_label, bool)):
            raise ConfigError(f"`multi_label` must be True, False or None. Received {multi_label!r}.")
        self._multi_label_asked = multi_label

    @property
    def labels(self) -> list[str]:
        """Label names in the order of the classes; none before training."""
        return [] if self._head is None else list(cast(LabelHead, self._head).labels)

    @property
    def multi_label(self) -> bool:
        """True if a row can have several labels, or none."""
        return self._head is not None and self._head.target_kind == LABEL_SET

    def get_config(self) -> dict[str, Any]:
        return {"multi_label": self._multi_label_asked, **super().get_config()}

    def head_type(self, y: Any) -> type[Head]:
        asked = self._multi_label_asked
        return MultiLabelHead if (may_bear_several(y) if asked is None else asked) else ClassHead

    def read_rows(self, x: Any, y: Any, weights: Any, kind: type[Head]) -> Rows:
        # "0" and "1" of a model that learned them as names stay names.
        learned = self._head is not None and BITS.isdisjoint(self.labels)
        declared = learned or self._multi_label_asked is not None
        found = as_indicators(y, self.labels) if declared else None
        if found is not None:
            if self._head is None:
                found.check_all_occur()
            y = found.several() if kind.target_kind == LABEL_SET else found.one_hot()
        return super().read_rows(x, y, weights, kind)

    def _indicators(self, targets: Sequence[Any]) -> np.ndarray:
        """Return 1 for each label of a row, else 0, `[rows, C]`."""
        found = np.asarray(self.head.encoded(targets))
        return found if self.multi_label else np.eye(len(self.labels))[found]

    def label(self, x: Any, batch_size: int | None = None) -> list[Any]:
        """Return the most likely label of each row; if rows can have several, those that are likely.

        Args:
            x: raw rows, as for `predict`.
            batch_size: rows in a step.

        Returns:
            A name for each row, or a list of names, those with a probability of one half or more.
        """
        return cast(LabelHead, self.head).answered(self.predict(x, batch_size, verbose=0))


def class_head(labels: Sequence[str], *, multi_label: bool | None) -> Head:
    """Return the head of a saved model; the errors are those of `heads.checked_labels`."""
    return MultiLabelHead(labels) if multi_label else ClassHead(labels)
