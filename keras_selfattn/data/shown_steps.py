"""The progress of readers that open many files: a command shows it, and a library's call shows nothing."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")
Show = Callable[[Sequence[Any], str], Iterable[Any]]

_show: ContextVar[Show | None] = ContextVar("show", default=None)


@contextmanager
def showing(show: Show) -> Iterator[None]:
    """Let `show` see the steps of readers in the block: it yields the steps, and draws what it likes.

    Args:
        show: from steps and what they are, in words, to the same steps.

    Example:

        >>> with showing(lambda steps, what: (print(what, len(steps)), steps)[1]):
        ...     list(shown(["a.wav", "b.wav"], "Reading sounds/"))
        Reading sounds/ 2
        ['a.wav', 'b.wav']
    """
    token = _show.set(show)
    try:
        yield
    finally:
        _show.reset(token)


def shown(steps: Sequence[T], what: str) -> Iterable[T]:
    """Return steps, each of which takes a while, as they are taken; see `showing`."""
    show = _show.get()
    return steps if show is None else show(steps, what)
