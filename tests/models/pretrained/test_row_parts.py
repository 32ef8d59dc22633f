"""Parts of long rows hold as many whole tokens as they can."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_selfattn.models.pretrained.row_parts import RowParts


def parts_by_loops(rows, most, cls, sep):
    """The parts of rows, and the place (part, position) of each token; None for padding."""
    parts, places = [], []
    for row in rows:
        parts.append([cls])
        places.append([])
        for pieces in (token[: most - 2] for token in row):
            if len(parts[-1]) + len(pieces) + 1 > most:
                parts[-1].append(sep)
                parts.append([cls])
            places[-1].append((len(parts) - 1, len(parts[-1])) if pieces else None)
            parts[-1] += pieces
        parts[-1].append(sep)
    return parts, places


TOKENS = st.lists(st.lists(st.integers(1, 9), max_size=5), max_size=8)


@settings(deadline=None, max_examples=60)
@given(rows=st.lists(TOKENS, max_size=4), most=st.integers(3, 8))
def test_parts_hold_as_many_whole_tokens_as_they_can(rows, most):
    shape = (len(rows), max([len(row) for row in rows], default=0))
    inputs = np.zeros((*shape, 5), "int32")
    for place, row in enumerate(rows):
        for token, pieces in enumerate(row):
            inputs[place, token, : len(pieces)] = pieces
    ids, places = (np.asarray(each) for each in RowParts(most, cls_id=11, sep_id=12)(inputs))
    parts, wanted = parts_by_loops(rows, most, 11, 12)
    assert [[piece for piece in part if piece] for part in ids.tolist()] == parts
    assert ids.shape[1] == max(map(len, parts), default=2)
    for row, found in zip(wanted, places.tolist(), strict=True):
        flat = [-1 if place is None else place[0] * ids.shape[1] + place[1] for place in row]
        assert found == flat + [-1] * (shape[1] - len(row))
