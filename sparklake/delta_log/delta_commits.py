"""Commits of a Delta log: their effects, and which may follow others."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sparklake.delta_log.actions import Action, FileKey, decode_actions, said_of
from sparklake.errors import CorruptFileError

ORIGIN = "sparklakeOrigin"
"""The field of a repeated commit's commitInfo with the original's identity."""

UNDONE = "sparklakeUndone"
"""The field of an undo's commitInfo with the identities of the undone commits."""

REPEATED = "MERGE BRANCH"
"""The operation of a commit made by a merge."""

_KINDS = {*("add", "remove", "cdc", "metaData", "protocol", "txn", "domainMetadata", "commitInfo")}


class UnmergeableTableError(Exception):
    """Logs of a table that cannot be united: the reason, and the conflicting files."""

    def __init__(self, reason: str, files: Iterable[str] = ()) -> None:
        self.files = sorted(set(files))
        super().__init__(f"{reason}: {_listed(self.files)}" if self.files else reason)


def _listed(files: Sequence[str], most: int = 5) -> str:
    rest = f" and {len(files) - most:,} more" if len(files) > most else ""
    return ", ".join(files[:most]) + rest


@dataclass(frozen=True)
class DeltaCommit:
    """One commit of a table's log."""

    version: int
    actions: tuple[Action, ...]

    def said(self, kind: str) -> Iterator[Mapping[str, Any]]:
        """Yield the fields of the actions of a kind."""
        return said_of(self.actions, kind)

    def last(self, kind: str) -> Mapping[str, Any] | None:
        """Return the fields of the last action of a kind."""
        return next(iter([*self.said(kind)][::-1]), None)

    @cached_property
    def adds(self) -> list[FileKey]:
        """The files that the commit adds."""
        return [FileKey.of(each) for each in self.said("add")]

    @cached_property
    def removes(self) -> list[FileKey]:
        """The files that the commit removes."""
        return [FileKey.of(each) for each in self.said("remove")]

    @property
    def info(self) -> Mapping[str, Any]:
        """The commitInfo."""
        return self.last("commitInfo") or {}

    @property
    def undone(self) -> tuple[str, ...]:
        """The origins of the commits that this one undoes."""
        found = self.info.get(UNDONE)
        return tuple(found) if isinstance(found, list) else ()

    @cached_property
    def origin(self) -> str:
        """The identity shared by a commit and its repetitions in other logs."""
        kept = self.info.get(ORIGIN)
        if isinstance(kept, str):
            return kept
        # The commitInfo is included: two writers of equal actions write at different times.
        lines = sorted(json.dumps(each, sort_keys=True) for each in self.actions)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def parse_commit(version: int, body: bytes) -> DeltaCommit:
    """Return the commit in a log file; raise UnmergeableTableError for invalid contents."""
    try:
        actions = decode_actions(body, f"commit {version}")
    except CorruptFileError as error:
        raise UnmergeableTableError(str(error)) from error
    for each in actions:
        unknown = each.keys() - _KINDS
        if unknown:
            raise UnmergeableTableError(f"commit {version} has an unknown action, {min(unknown)!r}")
    return DeltaCommit(version, tuple(actions))


def undo_origin(undone: Iterable[str]) -> str:
    """Return the origin of an undo. Undos of the same commits share it."""
    return hashlib.sha256("\n".join(("undo", *sorted(undone))).encode()).hexdigest()


def standing(commits: Sequence[DeltaCommit], shared: Container[str] = ()) -> list[DeltaCommit]:
    """Return the commits in a log, last first, without those undone later in the log.

    An undone undo has no effect. An undo whose origin is in `shared` has none either, because
    the other side has it, too.
    """
    found = []
    gone: Counter[str] = Counter()
    for each in reversed(commits):
        if gone[each.origin] > 0:
            gone[each.origin] -= 1
            continue
        found.append(each)
        if each.origin not in shared:
            gone.update(each.undone)
    return found


def origins(commits: Iterable[DeltaCommit]) -> Counter[str]:
    """Return the origins of commits with their counts."""
    return Counter(each.origin for each in commits)


def still_to_undo(commits: Iterable[DeltaCommit], log: Sequence[DeltaCommit]) -> list[DeltaCommit]:
    """Return the commits that a log has and has not undone otherwise, in their order.

    Undos among `commits` themselves are ignored.
    """
    wanted = origins(commits)
    found: Counter[str] = Counter()
    gone: Counter[str] = Counter()
    for each in reversed(log):
        if gone[each.origin] > 0:
            gone[each.origin] -= 1
        elif found[each.origin] < wanted[each.origin]:
            found[each.origin] += 1
        else:
            gone.update(each.undone)
    left = []
    for each in commits:
        if found[each.origin] > 0:
            found[each.origin] -= 1
            left.append(each)
    return left


def commits_but(commits: Iterable[DeltaCommit], others: Counter[str]) -> list[DeltaCommit]:
    """Return the commits whose origins are not among others. Each other cancels one commit."""
    left, rest = Counter(others), []
    for each in commits:
        if left[each.origin] > 0:
            left[each.origin] -= 1
        else:
            rest.append(each)
    return rest


_OF_APPENDS = {"commitInfo", "add", "txn"}
_OF_SHAPE = ("metaData", "protocol")


def is_blind_append(actions: Sequence[Action]) -> bool:
    """Return whether a log entry only adds rows, independent of the table's contents."""
    kinds = {kind for each in actions for kind, said in each.items() if said is not None}
    infos = list(said_of(actions, "commitInfo"))
    tracked = any("baseRowId" in said for said in said_of(actions, "add"))
    return (
        kinds <= _OF_APPENDS
        and not tracked
        and len(infos) == 1
        and infos[0].get("isBlindAppend") is True
        and "inCommitTimestamp" not in infos[0]
    )


def lets_append(landed: Sequence[Action], appended: Sequence[Action]) -> bool:
    """Return whether a blind append is valid after an unseen entry."""
    shaped = any(True for _ in said_of(landed, *_OF_SHAPE))
    ids = {said["appId"] for said in said_of(appended, "txn")}
    return not shaped and ids.isdisjoint(said["appId"] for said in said_of(landed, "txn"))
