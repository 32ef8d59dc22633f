"""Seeds for the parts of a layer, all different, from the one seed its user gives."""

import numpy as np


def split_seed(seed: int | None, parts: int) -> list[int | None]:
    """Returns a seed for each part: equal ones would give equal weights and equal dropout.

    Args:
        seed: any integer that is not negative, or None for random parts.
        parts: how many.

    Example:

        >>> len(set(split_seed(2**40, 3)))
        3
    """
    if seed is None:
        return [None] * parts
    # Half of the 32 bits' range: Keras puts seeds into an int32 where TensorFlow asks for one.
    return [int(state) // 2 for state in np.random.SeedSequence(seed).generate_state(parts)]
