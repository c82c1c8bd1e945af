"""Commits of a Delta log: their effects."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sparklake.errors import CorruptFileError
from sparklake.metadata.delta.actions import Action, FileKey, decode_actions, fields_of
from sparklake.metadata.union.conflicts import UnmergeableTableError

ORIGIN = "sparklakeOrigin"
"""The field in the commitInfo of a repeated commit for the original's identity."""

UNDONE = "sparklakeUndone"
"""The field in the commitInfo of an undo for the identities of the undone commits."""

MERGED = "sparklakeMerged"
"""The field in the commitInfo of a merge of rows for the identities of the merged commits."""

REPEATED = "MERGE BRANCH"
"""The operation of a merge's commits."""

_KINDS = {*("add", "remove", "cdc", "metaData", "protocol", "txn", "domainMetadata", "commitInfo")}


@dataclass(frozen=True)
class DeltaCommit:
    version: int
    actions: tuple[Action, ...]

    def fields(self, kind: str) -> Iterator[Mapping[str, Any]]:
        return fields_of(self.actions, kind)

    def by_path(self, kind: str) -> dict[str, Mapping[str, Any]]:
        """Return the fields of actions on files by path."""
        return {FileKey.of(each).path: each for each in self.fields(kind)}

    def last(self, kind: str) -> Mapping[str, Any] | None:
        return next(reversed([*self.fields(kind)]), None)

    @cached_property
    def adds(self) -> list[FileKey]:
        return [FileKey.of(each) for each in self.fields("add")]

    @cached_property
    def removes(self) -> list[FileKey]:
        return [FileKey.of(each) for each in self.fields("remove")]

    @property
    def info(self) -> Mapping[str, Any]:
        return self.last("commitInfo") or {}

    @property
    def undone(self) -> tuple[str, ...]:
        """The origins of the undone commits."""
        return self._origins(UNDONE)

    @property
    def merged(self) -> tuple[str, ...]:
        """The origins of merged commits whose effects this one has."""
        return self._origins(MERGED)

    def _origins(self, name: str) -> tuple[str, ...]:
        recorded = self.info.get(name)
        return tuple(recorded) if isinstance(recorded, list) else ()

    @cached_property
    def origin(self) -> str:
        """The identity shared by a commit and its repetitions in other logs."""
        origin = self.info.get(ORIGIN)
        if isinstance(origin, str):
            return origin
        # The commitInfo is included: two writers of equal actions write at different times.
        lines = sorted(json.dumps(each, sort_keys=True) for each in self.actions)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def last_fields(commits: Sequence[DeltaCommit], kind: str) -> Mapping[str, Any] | None:
    """Return the fields of the latest action with the given kind."""
    return next(filter(None, (each.last(kind) for each in commits[::-1])), None)


def parse_commit(version: int, body: bytes) -> DeltaCommit:
    try:
        actions = decode_actions(body, f"commit {version}")
    except CorruptFileError as error:
        raise UnmergeableTableError(str(error)) from error
    for each in actions:
        unknown = each.keys() - _KINDS
        if unknown:
            raise UnmergeableTableError(f"commit {version} has an unknown action, {min(unknown)!r}")
    return DeltaCommit(version, tuple(actions))


_OF_APPENDS = {"commitInfo", "add", "txn"}
_OF_SHAPE = ("metaData", "protocol")


def is_blind_append(actions: Sequence[Action]) -> bool:
    """Return whether a log entry only adds rows, independent of the table's contents."""
    kinds = {kind for each in actions for kind, fields in each.items() if fields is not None}
    infos = list(fields_of(actions, "commitInfo"))
    tracked = any("baseRowId" in fields for fields in fields_of(actions, "add"))
    return (
        kinds <= _OF_APPENDS
        and not tracked
        and len(infos) == 1
        and infos[0].get("isBlindAppend") is True
        and "inCommitTimestamp" not in infos[0]
    )


def lets_append(landed: Sequence[Action], appended: Sequence[Action]) -> bool:
    """Return whether a blind append is valid after an unseen entry."""
    shaped = any(True for _ in fields_of(landed, *_OF_SHAPE))
    ids = {fields["appId"] for fields in fields_of(appended, "txn")}
    return not shaped and ids.isdisjoint(fields["appId"] for fields in fields_of(landed, "txn"))
