"""Rows in groups, such as a speaker's or a patient's, that a split never divides."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import DataError


@dataclass(frozen=True)
class GroupedRows(LabelledRows):
    """Rows of which those of one group are all held out, or none of them.

    Args:
        inputs, targets, source, where, kind, target_kind, note: as for `LabelledRows`.
        groups: the group of each row.
        group: what a group is, in a word, such as the name of its column.

    Example:

        >>> rows = GroupedRows(["a", "b", "c"], ["+", "+", "+"], "made up", groups=["x", "y", "x"])
        >>> kept, held = rows.split(0.3, seed=0)
        >>> set(kept.groups) & set(held.groups)
        set()
    """

    groups: Sequence[Hashable] = field(default=(), kw_only=True)
    group: str = field(default="group", kw_only=True)

    @property
    def independent(self) -> int:
        return len(set(self.groups))

    def take(self, rows: Sequence[int]) -> "GroupedRows":
        found = super().take(rows)
        groups = [self.groups[row] for row in rows]
        kinds = {"kind": found.kind, "target_kind": found.target_kind, "note": found.note}
        return GroupedRows(
            found.inputs, found.targets, found.source, found.where, groups=groups, group=self.group, **kinds
        )

    def split(self, held_out: float, seed: int) -> tuple["GroupedRows", "GroupedRows"]:
        """Hold out as near to the share of groups as their number allows, one at least; no label is lost.

        Raises:
            DataError: for groups none of which can be held out.
        """
        if not 0 < held_out < 1:
            raise DataError(f"`held_out` must be between 0 and 1. Received {held_out!r}.")
        borne: dict[Hashable, Counter[str]] = {}
        for group, target in zip(self.groups, self.targets, strict=True):
            borne.setdefault(group, Counter()).update(self.target_kind.labels(target))
        names, left = list(borne), Counter[str]()
        for own in borne.values():
            left.update(own)
        most, held = min(max(1, round(held_out * len(names))), len(names) - 1), set()
        for place in np.random.default_rng(seed).permutation(len(names)):
            own = borne[names[place]]
            if len(held) < most and all(left[name] > count for name, count in own.items()):
                left.subtract(own)
                held.add(names[place])
        if not held:
            raise DataError(
                f"{self.source}: none of its {len(names)} groups ({self.group}) can be held out, because "
                "each label must stay in another group. Give a validation file, or a column of other groups "
                "(`group`, --group)."
            )
        parts = [
            [row for row, name in enumerate(self.groups) if (name in held) == chosen]
            for chosen in (False, True)
        ]
        return self.take(parts[0]), self.take(parts[1])
