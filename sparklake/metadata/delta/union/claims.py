"""Conflicts of Delta commits beyond files: progress, domains, features."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from sparklake.metadata.delta.delta_commits import DeltaCommit
from sparklake.metadata.delta.features import unmergeable_features
from sparklake.metadata.delta.union.log_sides import LogSide, RowClaim
from sparklake.metadata.delta.union.regions import added_rows, region_of
from sparklake.metadata.delta.union.schemas import (
    ROW_TRACKING,
    added_constraints,
    column_ids,
    columns_of,
    is_enabled,
    schema_fields,
)
from sparklake.metadata.delta.union.settings import max_id
from sparklake.metadata.union.conflicts import UnmergeableTableError, rewritten_without

_NAMED = {
    "txn": ("appId", "wrote for the same streaming application"),
    "domainMetadata": ("domain", "changed the same domain"),
}


def check_names(base: LogSide, source: LogSide, dest: LogSide) -> None:
    """Reject reverts of named actions in dest, based on the last commit of each name."""
    places: dict[str, float] = {each.origin: at for at, each in enumerate(source.commits)}
    places.update((each.origin, -1) for each in base.commits)
    for kind, (_, did) in _NAMED.items():
        current, coming = (_latest(each, kind, places) for each in (dest.commits, source.own))
        coming.pop(ROW_TRACKING, None)
        late = [name for name, place in coming.items() if current.get(name, -1) > place]
        if late:
            raise UnmergeableTableError(f"both sides {did}, {min(late)!r}")


def check_rewritten(
    before: Mapping[str, Any], side: LogSide, other: LogSide, writer: str, owner: str
) -> None:
    """Reject rewritten rows without a column that base dropped and the other side has.

    The files before may have its values if the column is older than both sides' commits.
    """
    removed = {key.path for each in side.own for key in each.removes}
    is_rewrite = removed and any(key.path not in removed for each in side.own for key in each.adds)
    if not is_rewrite or other.metadata is None:
        return
    start = other.start().get("metaData")
    known = [*schema_fields(before), *schema_fields(side.metadata or {})]
    older = range(1, max_id(before) + 1) if start is None else column_ids(schema_fields(start))
    dropped = {*older}.difference(column_ids(known))
    for column in schema_fields(other.metadata):
        if not dropped.isdisjoint(column_ids(column)):
            raise rewritten_without(writer, column["name"], owner)


def check_domains(
    before: Mapping[str, Any], after: Mapping[str, Any], changer: str, others: Iterable[DeltaCommit]
) -> None:
    """Reject dropped columns still used by the other side's domains."""
    old, new = columns_of(before), columns_of(after)
    texts = [
        str(fields.get("configuration"))
        for each in others
        for fields in each.fields("domainMetadata")
        if fields.get("domain") != ROW_TRACKING
    ]
    for name in old.keys() - new.keys():
        if any(name in text for text in texts):
            raise UnmergeableTableError(
                f"{changer} dropped the column {old[name]['name']!r}, and the other side changed a "
                "domain that refers to it"
            )


def check_replaced(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    changer: str,
    own: Iterable[DeltaCommit],
    others: Iterable[DeltaCommit],
) -> None:
    """Reject columns that a side dropped and overwrote, beside rows of the other side.

    The new rows stay, so they come after the overwrite, but then they had none of these columns.
    """
    old, new = columns_of(before), columns_of(after)
    lost = [each for name, each in old.items() if each["type"] != new.get(name, {}).get("type")]
    if lost and any(region_of(each, after) for each in own) and any(map(added_rows, others)):
        raise UnmergeableTableError(
            f"{changer} overwrote rows and dropped or changed the column {lost[0]['name']!r}, and "
            "the other side wrote rows with it"
        )


def row_claim(
    side: LogSide,
    other: LogSide,
    merged: Mapping[str, Any],
    protocol: Mapping[str, Any],
    changer: str,
) -> RowClaim | None:
    """Return the constraints of the other side, `changer`, to check on new rows, if any.

    Rows of a file that the changer has, too, satisfy them, unless the side restored some.
    """
    constraints = added_constraints(side.metadata or {}, merged)
    paths = {key.path for each in side.own for key in each.adds} if constraints else set()
    if paths:
        paths -= {key.path for key in other.find_adds(paths)} - _restored(side)
    return RowClaim(side, constraints, merged, protocol, changer, paths) if paths else None


def _restored(side: LogSide) -> set[str]:
    """Return the files with rows that a side's own commits took out of deletion vectors."""
    return {
        path
        for commit in side.own
        for path, added in commit.by_path("add").items()
        if (removed := commit.by_path("remove").get(path)) is not None
        and removed.get("deletionVector")
        and len(np.setdiff1d(side.deleted_rows(removed), side.deleted_rows(added)))
    }


def _latest(
    commits: Iterable[DeltaCommit], kind: str, places: Mapping[str, float]
) -> dict[str, float]:
    """Return the latest position in source of each name's commits; infinity if not in source."""
    latest: dict[str, float] = {}
    for each in commits:
        place = places.get(each.origin, math.inf)
        for fields in each.fields(kind):
            name = str(fields.get(_NAMED[kind][0]))
            latest[name] = max(place, latest.get(name, -1))
    return latest


def check_features(protocol: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
    for what in unmergeable_features(protocol):
        raise UnmergeableTableError(f"the table uses a feature that cannot be merged: {what}")
    schema_fields(metadata)
    if is_enabled(metadata, "delta.rowTrackingSuspended"):
        raise UnmergeableTableError(
            "the table's row tracking is suspended: resume it with ALTER TABLE ... UNSET "
            "TBLPROPERTIES ('delta.rowTrackingSuspended')"
        )


def check_covers(one: Mapping[str, Any], other: Mapping[str, Any], holder: str, asker: str) -> None:
    for name in ("minReaderVersion", "minWriterVersion"):
        if one.get(name, 1) < other.get(name, 1):
            raise UnmergeableTableError(
                f"{holder}'s table has a lower {name} than {asker}'s. Enable the features of "
                f"{asker}'s table there, and merge again"
            )
    for name in ("readerFeatures", "writerFeatures"):
        lacking = {*(other.get(name) or ())} - {*(one.get(name) or ())}
        if lacking:
            raise UnmergeableTableError(
                f"{holder}'s table lacks the feature {min(lacking)!r} of {asker}'s table. Enable "
                "it there, and merge again"
            )
