"""A union whose source is what was before base: what base did is undone on top of dest's log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparklake.udfs.delta.actions import Action, FileKey
from sparklake.udfs.delta.commits import UNDONE, DeltaCommit, NotUnitedError
from sparklake.udfs.delta.union.features import check_covers
from sparklake.udfs.delta.union.liveness import Files
from sparklake.udfs.delta.union.schemas import check_fits
from sparklake.udfs.delta.union.sides import FindAdds, LogSide, Made, commit_info


def undoing(
    undone: Sequence[DeltaCommit],
    files: Files,
    source: LogSide,
    dest: LogSide,
    find_adds: FindAdds,
    made: Made,
) -> list[tuple[Action, ...]]:
    """Returns the commit that undoes some, or none; raises NotUnitedError."""
    if not undone:
        return []
    _check_kinds(undone)
    added, removed = _net(undone)
    gone = [key.path for key in added if not files.is_live(key)]
    if gone:
        raise NotUnitedError("files that are to be removed were removed or rewritten since", gone)
    back = [key.path for key in removed if files.is_live(key)]
    if back:
        raise NotUnitedError("files that are to come back are back already", back)
    if removed:
        check_covers(dest.protocol or {}, source.protocol or {}, "dest", "source")
        check_fits(source.metadata or {}, dest.metadata or {}, "dest")
    feed = str(((dest.metadata or {}).get("configuration") or {}).get("delta.enableChangeDataFeed"))
    if added and removed and feed.lower() == "true":
        raise NotUnitedError("the table keeps a feed of changed rows, and rows are to change back")
    adds = find_adds(frozenset({*added, *removed}))
    again = [key.path for key in added if key in adds]
    if again:
        raise NotUnitedError("what is to be undone has added files that were there before", again)
    lost = [key.path for key in removed if key not in adds]
    if lost:
        raise NotUnitedError("the log no longer says what is in files to come back", lost)
    changes = any(
        said.get("dataChange", True)
        for each in undone
        for kind in ("add", "remove")
        for said in each.said(kind)
    )
    if added and changes:
        _check_append_only(dest)
    parameters = {"undone": ", ".join(str(each.version) for each in undone[:100])}
    back_again = ({"add": {**adds[key], "dataChange": changes}} for key in removed)
    removals = ({"remove": _removal(said, made, changes)} for said in added.values())
    return [
        (
            commit_info(made, parameters, {UNDONE: [each.origin for each in undone]}),
            *removals,
            *back_again,
        )
    ]


def _check_kinds(undone: Sequence[DeltaCommit]) -> None:
    for kind in ("metaData", "protocol", "domainMetadata"):
        if any(True for each in undone for _ in each.said(kind)):
            raise NotUnitedError(f"what is to be undone has changed the table's {kind}")


def _check_append_only(dest: LogSide) -> None:
    settings = (dest.metadata or {}).get("configuration") or {}
    if str(settings.get("delta.appendOnly", "")).lower() == "true":
        raise NotUnitedError("the table only takes appends")


def _net(
    commits: Sequence[DeltaCommit],
) -> tuple[dict[FileKey, Mapping[str, Any]], list[FileKey]]:
    """Returns the files that commits have added in the end, and those that they have removed."""
    added: dict[FileKey, Mapping[str, Any]] = {}
    removed: dict[FileKey, None] = {}
    for commit in commits:
        for key in commit.removes:
            if added.pop(key, None) is None:
                removed[key] = None
        for said in commit.said("add"):
            key = FileKey.of(said)
            if key in removed:
                del removed[key]
            else:
                added[key] = said
    return added, list(removed)


_CARRIED = ("path", "partitionValues", "size", "deletionVector")


def _removal(add: Mapping[str, Any], made: Made, changes: bool) -> Mapping[str, Any]:
    kept = {name: add[name] for name in _CARRIED if add.get(name) is not None}
    return {
        **kept,
        "deletionTimestamp": made.timestamp,
        "dataChange": changes,
        "extendedFileMetadata": True,
    }
