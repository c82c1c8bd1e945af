"""Union inputs, and the signatures of their commits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from sparklake.metadata.delta.actions import Action, Fields, FileKey
from sparklake.metadata.delta.delta_commits import REPEATED, DeltaCommit
from sparklake.metadata.delta.vectors import inline_rows
from sparklake.metadata.vectors.bitmaps import Positions

FindAdds = Callable[[Set[str]], Mapping[FileKey, Fields]]
"""A lookup of the `add` fields of live files in a log, by path."""

FindRows = Callable[[Fields], Positions]
"""A function from the fields of an `add` or `remove` to the rows in its deletion vector."""

HadFile = Callable[[Set[str]], bool]
"""A function that returns whether a table had a live file beside the given paths."""


@dataclass(frozen=True, slots=True)
class LogSide:
    """A table on one side: its commits since the sides diverged, and its final state.

    A side without a log has neither metadata nor protocol. In a union, `own` are the commits with
    effects that the other side lacks. `had_file_beside` refers to the table
    before the commits, and returns False if unknown. `find_adds` and `find_domain` refer to the
    final state. `start` returns the metadata and protocol before the commits, and `parent` the last
    commit before them, as far as they are known. `deleted_rows` reads deletion vectors, by
    default only those in the log.
    """

    commits: tuple[DeltaCommit, ...] = ()
    metadata: Mapping[str, Any] | None = None
    protocol: Mapping[str, Any] | None = None
    had_file_beside: HadFile = lambda _: False
    find_adds: FindAdds = lambda _: {}
    deleted_rows: FindRows = inline_rows
    find_domain: Callable[[str], Mapping[str, Any] | None] = lambda _: None
    start: Callable[[], Mapping[str, Mapping[str, Any]]] = dict
    parent: Callable[[], DeltaCommit | None] = lambda: None
    own: Sequence[DeltaCommit] = ()

    @property
    def last_commit(self) -> DeltaCommit | None:
        return self.commits[-1] if self.commits else self.parent()


@dataclass(frozen=True, slots=True)
class UnionSignature:
    """The author of a union's commits. `timestamp` is in unix milliseconds."""

    timestamp: int
    engine: str


@dataclass(frozen=True, slots=True)
class RowClaim:
    """Constraints of one side, by property, and the live files of the other to check.

    `metadata` and `protocol` are those of the merged table, and `side` has the files. `changer` is
    the other side.
    """

    side: LogSide
    constraints: Mapping[str, str]
    metadata: Mapping[str, Any]
    protocol: Mapping[str, Any]
    changer: str
    paths: Set[str]


@dataclass(frozen=True, slots=True)
class UnitedLog:
    """The commits to add to dest's log, and the new files of the table by name.

    It is valid if rows satisfy the claims.
    """

    commits: list[tuple[Action, ...]]
    files: Mapping[str, bytes] = field(default_factory=dict)
    row_claims: tuple[RowClaim, ...] = ()


_CARRIED = ("path", "partitionValues", "size", "deletionVector")


def removal(fields: Fields, signature: UnionSignature, data_change: bool) -> Action:
    removed = {name: fields[name] for name in _CARRIED if fields.get(name) is not None}
    removed |= {"deletionTimestamp": signature.timestamp, "dataChange": data_change}
    return {"remove": {**removed, "extendedFileMetadata": True}}


def commit_info(
    signature: UnionSignature, parameters: Mapping[str, str], more: Mapping[str, Any]
) -> Action:
    return {
        "commitInfo": {
            "timestamp": signature.timestamp,
            "operation": REPEATED,
            "operationParameters": parameters,
            "engineInfo": signature.engine,
            **more,
        }
    }
