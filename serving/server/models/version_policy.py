"""The choice of a model's versions: which are loaded, and when the others may go.

A version goes when the newer ones answer, not before. So during a swap those that go and those that come are
loaded together, up to twice as many as the policy selects: that is the order of `VersionSwap._serve`.

Reference: ServableVersionPolicy in tensorflow_serving/config/file_system_storage_path_source.proto, and
AvailabilityPreservingPolicy in tensorflow_serving/core.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from ...wire import messages_pb2 as pb

Policy = pb.FileSystemStoragePathSourceConfig.ServableVersionPolicy


class Selection(NamedTuple):
    """The versions that may be served, newest first, and the number to serve.

    If a version does not load, the next older one replaces it, until this number are served.
    """

    candidates: list[int]
    wanted: int


def selected(policy: Policy, versions: Iterable[int]) -> Selection:
    """Return the versions that a policy selects of those that were found.

    Args:
        policy: all versions, some listed ones, or a number of the latest; unset for the latest one.
        versions: the numbers that were found.

    Example:
        >>> selected(Policy(), [1, 3, 2])
        Selection(candidates=[3, 2, 1], wanted=1)
        >>> selected(Policy(specific=Policy.Specific(versions=[1, 3])), [1, 2, 3])
        Selection(candidates=[3, 1], wanted=2)
    """
    newest_first = sorted(versions, reverse=True)
    match policy.WhichOneof("policy_choice"):
        case "all":
            return Selection(newest_first, len(newest_first))
        case "specific":
            listed = [number for number in newest_first if number in policy.specific.versions]
            return Selection(listed, len(listed))
        case _:
            return Selection(newest_first, policy.latest.num_versions or 1)


def is_complete(available: Collection[int], candidates: Collection[int], may_come_back: bool) -> bool:
    """Return True if the loaded versions that are not wanted may go, since the wanted ones have been tried.

    Args:
        available: the wanted versions that answer.
        candidates: the versions that may be served.
        may_come_back: True if nothing was found in a place that cannot tell an empty folder from a lost one.

    Example:
        >>> is_complete(available=[2], candidates=[2, 1], may_come_back=False)
        True
        >>> is_complete(available=[], candidates=[2], may_come_back=False)  # 2 is broken, and 1 stays
        False
    """
    # A half copied or broken version leaves the earlier ones in place. So does an object store's folder
    # that has gone: it cannot be told from one without versions.
    return bool(available) or not (candidates or may_come_back)
