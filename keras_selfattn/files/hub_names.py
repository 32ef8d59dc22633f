"""Tell the name of a model of the Hugging Face hub from a path, by spelling and by the folders here alone.

Reference: huggingface.co/docs/hub/repositories, and `huggingface_hub.utils.validate_repo_id`.
"""

import difflib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from keras_selfattn.errors import ConfigError

SCHEME = "hf://"
EXAMPLE = "sentence-transformers/all-MiniLM-L6-v2"
# Owner and name, or the name alone of the oldest models.
_NAME = re.compile(r"(?:\w(?:[\w.-]*\w)?/)?\w(?:[\w.-]{0,94}\w)?", re.ASCII)
_REVISION = re.compile(r"\w[\w./-]*", re.ASCII)
# Two letters that changed places in a word of four are as unlike as this.
_ALIKE = 0.75
_NOT_IN_NAMES = ("--", "..")
# A missing file of ours is no model of the hub's.
_ENDINGS_OF_FILES = (".keras", ".git")


@dataclass(frozen=True)
class HubName:
    """The name of a model in the hub.

    Attributes:
        name: such as "sentence-transformers/all-MiniLM-L6-v2".
        revision: a branch, a tag or a commit; None for the newest commit of the main branch.
    """

    name: str
    revision: str | None = None

    def __str__(self) -> str:
        return self.name if self.revision is None else f"{self.name} at {self.revision}"


def hub_name(given: str | os.PathLike[str], revision: str | None = None) -> HubName | None:
    """Return the name of the hub that is given; None for a path.

    A folder or file that exists is a path. So is all that begins with ".", "/" or "~", or whose first part is
    here, since it is a mistyped path then; and all that the hub would not take as a name. `hf://NAME` and
    `hf://NAME@REVISION` are names, whatever is here.

    Args:
        given: a str; an object of `pathlib` is always a path.
        revision: as in `HubName`.

    Raises:
        ConfigError: for `hf://` before another thing than a name, for a revision in another form, for two
            revisions, and for one of a path.

    Example:

        >>> hub_name("hf://google/electra-small-generator@main")
        HubName(name='google/electra-small-generator', revision='main')
        >>> hub_name("./google/electra-small-generator")
    """
    text = str(given)
    if isinstance(given, str) and text.startswith(SCHEME):
        return _forced(text, revision)
    if not isinstance(given, str) or _is_path(text):
        if revision is not None:
            raise ConfigError(
                f"A revision is of a name in the Hugging Face hub, and {text} is a path here. Leave it out, "
                f"or write {SCHEME}NAME."
            )
        return None
    return HubName(text, _checked(revision))


def _forced(text: str, revision: str | None) -> HubName:
    """Return the name after `hf://`."""
    name, at, own = text.removeprefix(SCHEME).partition("@")
    if not _is_name(name):
        raise ConfigError(
            f"{SCHEME} stands before the name of a model, such as {EXAMPLE}. Received {text!r}."
        )
    if at and revision is not None:
        raise ConfigError(f"{text} names a revision, and so does {revision!r}. Leave one of them out.")
    return HubName(name, _checked(own if at else revision))


def _checked(revision: str | None) -> str | None:
    if revision is not None and (not _REVISION.fullmatch(revision) or ".." in revision):
        raise ConfigError(f"A revision is a branch, a tag or a commit, such as main. Received {revision!r}.")
    return revision


def _is_path(text: str) -> bool:
    first = text.partition("/")[0]
    return not _is_name(text) or Path(text).exists() or (first != text and Path(first).exists())


def _is_name(text: str) -> bool:
    """Return True if the hub may have a model of that name; none begins with ".", "/" or "~"."""
    forbidden = any(part in text for part in _NOT_IN_NAMES) or text.endswith(_ENDINGS_OF_FILES)
    return _NAME.fullmatch(text) is not None and not forbidden


def near(path: str | os.PathLike[str]) -> str:
    """Return a question with the entries that a path which does not exist may mean; "" if there are none.

    Example:

        >>> near("no-folder/no-entry")
        ''
    """
    path = Path(path)
    try:
        place = next(each for each in (path, *path.parents) if not each.exists() and each.parent.is_dir())
        names = sorted(each.name for each in place.parent.iterdir())
    except (StopIteration, OSError):
        return ""
    found = [str(place.parent / name) for name in difflib.get_close_matches(place.name, names, cutoff=_ALIKE)]
    return f" Did you mean {' or '.join(found)}?" if found else ""
