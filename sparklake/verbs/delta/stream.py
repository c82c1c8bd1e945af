"""New rows of Delta tables, for streaming reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sparklake.delta_log.actions import decode_actions, fields_of
from sparklake.delta_log.file_names import commit_name, commit_version
from sparklake.graveler.algebra.changes import ChangeType
from sparklake.verbs.delta.scan import check_readable, scan_files
from sparklake.verbs.delta.table_copy import entry_bodies
from sparklake.verbs.tables.formats import log_files
from sparklake.verbs.tables.stream_reads import TableChange
from sparklake.verbs.tables.version import TableVersion

if TYPE_CHECKING:
    from sparklake.frames.tables.parquet_scan import ScanFile


def new_files(change: TableChange) -> Iterator[ScanFile]:
    """Yield the files that new table versions add, except rewrites of existing rows.

    A table version with changes or removals of rows raises TableChangedError, or is left out.
    """
    # Lazy import: it loads Spark.
    from sparklake.frames.tables.parquet_scan import INSTEAD

    table, log = change.after, dict(log_files(change.after))
    for version in _new_versions(change):
        name = commit_name(version)
        ((_, body),) = entry_bodies(log, (name,), table.ref)
        actions = decode_actions(body, name)
        for fields in fields_of(actions, "protocol"):
            check_readable(fields, {}, change.what, INSTEAD)
        for fields in fields_of(actions, "metaData"):
            check_readable({}, fields, change.what, INSTEAD)
        if any(fields.get("dataChange", True) for fields in fields_of(actions, "remove")):
            change.reject(f"changes or removes rows in its version {version}")
            continue
        adds = fields_of(actions, "add")
        yield from scan_files(table, [dict(each) for each in adds if each.get("dataChange", True)])


def _new_versions(change: TableChange) -> list[int]:
    """Return the versions that a commit appends to the log, if it keeps all others."""
    before, present = _versions(change.before), _versions(change.after)
    last = max(before, default=-1)
    new = sorted(each for each in present if each > last)
    altered = [name for kind, name in change.log if kind is ChangeType.CHANGED]
    is_rewritten = any(commit_version(name) is not None for name in altered)
    is_shorter = max(present, default=-1) < last
    if is_rewritten or is_shorter or new != list(range(last + 1, last + 1 + len(new))):
        change.reject("replaces versions of its Delta log")
        return []
    return new


def _versions(table: TableVersion) -> set[int]:
    versions = (commit_version(name) for name, _ in log_files(table))
    return {each for each in versions if each is not None}
