"""Commits of a Delta log: their effects, and their valid orders."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sparklake.delta_log.actions import Action, FileKey, decode_actions, fields_of
from sparklake.errors import CorruptFileError

ORIGIN = "sparklakeOrigin"
"""The field in the commitInfo of a repeated commit for the original's identity."""

UNDONE = "sparklakeUndone"
"""The field in the commitInfo of an undo for the identities of the undone commits."""

MERGED = "sparklakeMerged"
"""The field in the commitInfo of a merge of rows for the identities of the merged commits."""

REPEATED = "MERGE BRANCH"
"""The operation of a merge's commits."""

_SHOWN = 5
_KINDS = {*("add", "remove", "cdc", "metaData", "protocol", "txn", "domainMetadata", "commitInfo")}


class UnmergeableTableError(Exception):
    """A conflict between the logs of a table: the reason and the files."""

    def __init__(self, reason: str, files: Iterable[str] = ()) -> None:
        self.files = sorted(set(files))
        text = ", ".join(self.files[:_SHOWN])
        if len(self.files) > _SHOWN:
            text += f" and {len(self.files) - _SHOWN:,} more"
        super().__init__(f"{reason}: {text}" if text else reason)


class OverlappingRowsError(UnmergeableTableError):
    """Rows that both sides deleted or updated, by their positions in each file."""

    def __init__(self, rows: Mapping[str, Sequence[int]]) -> None:
        self.rows = dict(rows)
        super().__init__(
            "both sides deleted, updated or restored the same rows",
            (f"{path} at {_some(positions)}" for path, positions in rows.items()),
        )


def _some(positions: Sequence[int]) -> str:
    noun = "position" if len(positions) == 1 else "positions"
    text = ", ".join(map(str, positions[:_SHOWN]))
    more = len(positions) - _SHOWN
    return f"{noun} {text} and {more:,} more" if more > 0 else f"{noun} {text}"


@dataclass(frozen=True)
class DeltaCommit:
    version: int
    actions: tuple[Action, ...]

    def fields(self, kind: str) -> Iterator[Mapping[str, Any]]:
        return fields_of(self.actions, kind)

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
        """The origins of the commits of which this one has the effects, by a merge of rows."""
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


def undo_origin(undone: Iterable[str]) -> str:
    """Return the shared origin of all undos of the same commits."""
    return hashlib.sha256("\n".join(("undo", *sorted(undone))).encode()).hexdigest()


def standing(commits: Sequence[DeltaCommit], shared: Container[str] = ()) -> list[DeltaCommit]:
    """Return the effective commits, most recent first.

    Undos with an origin in `shared` are ignored.
    """
    effective = []
    undone: Counter[str] = Counter()
    for each in reversed(commits):
        if undone[each.origin] > 0:
            undone[each.origin] -= 1
            continue
        effective.append(each)
        if each.origin not in shared:
            undone.update(each.undone)
    return effective


def origins(commits: Iterable[DeltaCommit]) -> Counter[str]:
    return Counter(each.origin for each in commits)


def effects(commits: Iterable[DeltaCommit]) -> Counter[str]:
    """Count the commits by origin, including those with effects by a merge of rows."""
    return Counter(origin for each in commits for origin in (each.origin, *each.merged))


def still_to_undo(commits: Iterable[DeltaCommit], log: Sequence[DeltaCommit]) -> list[DeltaCommit]:
    """Return the commits in effect in a log, in order. Undos among `commits` are ignored."""
    targets = origins(commits)
    matches: Counter[str] = Counter()
    undone: Counter[str] = Counter()
    for each in reversed(log):
        if undone[each.origin] > 0:
            undone[each.origin] -= 1
        elif matches[each.origin] < targets[each.origin]:
            matches[each.origin] += 1
        else:
            undone.update(each.undone)
    return _split(commits, matches)[0]


def commits_but(commits: Iterable[DeltaCommit], others: Counter[str]) -> list[DeltaCommit]:
    """Drop as many commits of each origin as `others` counts."""
    return _split(commits, others)[1]


def _split(
    commits: Iterable[DeltaCommit], counts: Counter[str]
) -> tuple[list[DeltaCommit], list[DeltaCommit]]:
    """Return the first `counts` commits of each origin, and the remaining ones."""
    remaining, matches, others = Counter(counts), list[DeltaCommit](), list[DeltaCommit]()
    for each in commits:
        is_match = remaining[each.origin] > 0
        remaining[each.origin] -= is_match
        (matches if is_match else others).append(each)
    return matches, others


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
