"""The number of insertions, removals and replacements that make one sequence of another."""

from collections.abc import Hashable, Sequence


def edit_distance(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Return the Levenshtein distance of two sequences, such as characters of texts or lists of words.

    The table of distances is not written: a column of it is two integers with a bit for each element of
    `one`, set where the distance below is one more (`rises`) or one less (`falls`). The next column takes a
    few operations on these.

    Args:
        one: a text, or a list.
        other: the same.

    Example:

        >>> edit_distance("kitten", "sitting"), edit_distance(["a", "man"], [])
        (3, 2)

    Reference: Hyyrö 2003, "A bit-vector algorithm for computing Levenshtein and Damerau edit distances".
    """
    if not one:
        return len(other)
    places: dict[Hashable, int] = {}  # of each element of `one`, a bit each
    for place, element in enumerate(one):
        places[element] = places.get(element, 0) | 1 << place
    all_bits, last = (1 << len(one)) - 1, 1 << (len(one) - 1)
    rises, falls, distance = all_bits, 0, len(one)
    for element in other:
        equal = places.get(element, 0)
        same = (((equal & rises) + rises) ^ rises) | equal | falls  # the distance on the diagonal stays
        more = falls | ~(same | rises)  # than in the column before, in the same row
        less = same & rises
        distance += bool(more & last) - bool(less & last)
        more = (more << 1) | 1  # the first row of the table counts the elements of `other`
        rises = ((less << 1) | ~(same | more)) & all_bits
        falls = more & same & all_bits
    return distance
