"""Checks of constructor arguments and input shapes that several layers share."""


def checked_count(name: str, value: int) -> int:
    """Returns `value`, or raises ValueError naming the argument if it is not a positive integer."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"`{name}` must be a positive integer. Received {value!r}.")
    return value


def checked_sequence(input_shape: tuple) -> int:
    """Returns the feature width of a `[batch, length, features]` shape, or raises ValueError."""
    if len(input_shape) != 3 or input_shape[-1] is None:
        raise ValueError(
            "The inputs must have shape [batch, length, features] with the number of features known. "
            f"Received shape {tuple(input_shape)}."
        )
    return input_shape[-1]
