"""The schemas of Parquet tables to which both sides of a merge have added files.

The merged table would contain files of both. If they have different types for a column, Spark can
no longer read it. So the footer of one added file of each side is compared.
"""

from __future__ import annotations

from collections.abc import Mapping

from sparklake.delta_log.file_names import LOG_FOLDER
from sparklake.graveler.algebra import Conflict
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.keys import key_folders, prefix_interval
from sparklake.graveler.planning.plan import plan_diff
from sparklake.graveler.records import Record
from sparklake.rows.merges import AddedFiles
from sparklake.rows.objects import object_info
from sparklake.strategies.resolution import Resolution
from sparklake.udfs.observed_changes import added_batch, table_folder
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.three_way_trees import ThreeWayTrees
from sparklake.verbs.delta.merge import MovedRanges, MovedSides
from sparklake.verbs.diffs.diff import streamed_keys
from sparklake.verbs.tables.file_schemas import differing_types, find_file_types
from sparklake.verbs.tables.other_formats import find_other_table

MAX_TABLES = 100
"""The most tables that a merge compares: the driver reads two footers of each."""


def schema_conflicts(
    context: Context, sides: ThreeWayTrees, resolution: Resolution, added: AddedFiles
) -> list[tuple[Conflict, str]]:
    """Return the conflicts of tables with other types on both sides, each with its reason."""
    if not resolution.schema_check:
        return []
    moved = MovedSides.of(*(context.trees.get(each).ranges for each in sides.trees))
    folders = _folders(moved.source, added.source) & _folders(moved.dest, added.dest)
    found = (
        _conflict(context, sides, folder, added)
        for folder in sorted(folders)[:MAX_TABLES]
        if sides.path_filter.parts(prefix_interval(folder))
        and not _has_metadata(context, sides, folder)
    )
    return [each for each in found if each is not None]


def _folders(moved: MovedRanges, samples: Mapping[bytes, bytes]) -> set[bytes]:
    """Return the folders to which a side may have added files.

    Two sides that add files to one folder, in ranges that no task reads, have a file of that folder
    at an edge of these ranges.
    """
    edges = (key for each in moved.ranges for key in (each.min_key, each.max_key))
    return {*samples, *(folder for key in edges if (folder := table_folder(key)) is not None)}


def _has_metadata(context: Context, sides: ThreeWayTrees, folder: bytes) -> bool:
    """Return whether a folder is in a table with a log of its own, which decides about schemas."""
    logs = [prefix_interval(each + LOG_FOLDER.encode()) for each in key_folders(folder)]
    name = folder.decode(errors="replace")
    return any(
        context.open_ranges.holding(ranges, logs) or find_other_table(context, ranges, (), name)
        for ranges in (context.trees.get(each).ranges for each in (sides.source, sides.dest))
    )


def _conflict(
    context: Context, sides: ThreeWayTrees, folder: bytes, added: AddedFiles
) -> tuple[Conflict, str] | None:
    source = _find_file(context, sides, folder, sides.source, added.source)
    dest = source and _find_file(context, sides, folder, sides.dest, added.dest)
    if source is None or dest is None:
        return None
    place = context.info.storage_namespace
    found = (find_file_types(object_info(each, place), "a side") for each in (source, dest))
    types = differing_types(*(each or {} for each in found))
    if not types:
        return None
    reason = (
        f"both sides added files to the table {folder.decode(errors='replace')!r}, with other "
        f"types in source and dest: {', '.join(types)}. The merged table could not be read. Cast "
        "the columns of one side, or merge with --no-schema-check"
    )
    return Conflict(source[0], None, source[1], None), reason


def _find_file(
    context: Context,
    sides: ThreeWayTrees,
    folder: bytes,
    side: MetaRangeId,
    samples: Mapping[bytes, bytes],
) -> Record | None:
    """Return the record of a file that a side has added to a folder, or None."""
    key = samples.get(folder) or _find_added(context, sides, folder, side)
    if key is None:
        return None
    stored = context.open_ranges.lookup_many(context.trees.get(side).ranges, [key])[0]
    # An earlier attempt may have seen a file that dest has removed since then.
    return None if stored is None else (key, stored)


def _find_added(
    context: Context, sides: ThreeWayTrees, folder: bytes, side: MetaRangeId
) -> bytes | None:
    """Return a file that a side has added to a folder, where no task of the merge has read it.

    Only ranges of the folder in which the side differs from base are read.
    """
    before, after = (context.trees.get(each).ranges for each in (sides.base, side))
    plan = plan_diff(before, after, prefix_interval(folder))
    found = streamed_keys(context, plan, added_batch, folder.decode(errors="replace"))
    return next((each for each in found if table_folder(each) == folder), None)
