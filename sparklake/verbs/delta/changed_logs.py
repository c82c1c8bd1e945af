"""Diffs of Delta logs for merges: logs losing entries, and missing files."""

from __future__ import annotations

from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.keys import prefix_interval
from sparklake.graveler.planning.plan import Plan, plan_diff
from sparklake.metadata.delta import file_names
from sparklake.udfs.diffs import removed_batch
from sparklake.verbs.base.context import Context
from sparklake.verbs.diffs.differences import streamed_keys


def logs_losing_keys(context: Context, before: MetaRangeId, after: MetaRangeId) -> frozenset[bytes]:
    """Return the folders of Delta logs with possibly fewer keys in the second tree.

    Ranges are read only where both trees have some. If one tree alone has ranges in a stretch, a
    log that the other tree shares extends beyond the stretch, so an edge of it is a key of the log.
    """
    old_tree, new_tree = (context.trees.get(each).ranges for each in (before, after))
    plan = plan_diff(old_tree, new_tree)
    both = [each for each in plan.stretches if all(side.ranges for side in each.sides)]
    read = streamed_keys(context, Plan(tuple(both)), file_names.log_folders_batch, "logs")
    lone = [old.ranges for old, new in (each.sides for each in plan.stretches) if not new.ranges]
    edges = (key for each in lone for key in (each[0].min_key, each[-1].max_key))
    folders = frozenset((*read, *filter(None, map(file_names.log_folder, edges))))
    if len(folders) > file_names.MAX_TABLES:
        raise file_names.too_many_tables()
    return folders


def gone_files(
    context: Context, folder: bytes, base: MetaRangeId, side: MetaRangeId
) -> frozenset[str]:
    """Return a table's files in base but not in a side, from differing ranges."""
    table = file_names.folder_of_log(folder)
    before, after = (context.trees.get(each).ranges for each in (base, side))
    plan = plan_diff(before, after, prefix_interval(table))
    keys = streamed_keys(context, plan, removed_batch, file_names.table_name(folder))
    # A log refers to files with UTF-8 names only.
    names = {key[len(table) :].decode(errors="replace") for key in keys}
    return frozenset(each for each in names if not each.startswith(file_names.LOG_FOLDER))
