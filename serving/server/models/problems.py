"""The reasons why a model, or one of its versions, is not served."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..storage.base_path import shown
from .model_config import ModelSettings


@dataclass(frozen=True)
class Problem:
    """A reason why a model, or one of its versions, is not served."""

    words: str
    may_pass: bool
    """True if waiting may help: something is missing, not wrong."""
    summary: str = ""
    """The words without what differs each time; empty for all of them. A problem is logged once."""

    @property
    def same_as(self) -> str:
        """The part of the words by which a problem is known again."""
        return self.summary or self.words


def joined(problems: Sequence[Problem]) -> Problem:
    """Return several problems as one."""
    return Problem(
        "; ".join(each.words for each in problems),
        all(each.may_pass for each in problems),
        "; ".join(each.same_as for each in problems),
    )


def nothing_to_serve(settings: ModelSettings, is_version: bool) -> Problem:
    """Return the reason why a base path has no version that the settings select.

    Args:
        settings: the model.
        is_version: True if the base path is itself a version.
    """
    base = shown(settings.base_path)
    if is_version:
        words = f"{base} is a version, and not the folder that holds the versions. Pass its parent folder"
        return Problem(words, may_pass=False)
    if settings.policy.specific.versions:
        listed = ", ".join(map(str, settings.policy.specific.versions))
        return Problem(f"{base} has none of the versions {listed}", may_pass=True)
    words = f"{base} has no version: no folder with a number as its name. Export a model into it"
    return Problem(words, may_pass=True)
