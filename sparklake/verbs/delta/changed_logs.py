"""Two-way diffs of what merges look at beside their own tasks: logs that lose keys, files gone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from sparklake.delta_log.names import (
    LOG_FOLDER,
    MAX_TABLES,
    log_folder,
    log_folders_batch,
    table_folder,
    table_name,
    too_many_tables,
)
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.keys import prefix_interval
from sparklake.graveler.planning.packing import divided, pack
from sparklake.graveler.planning.plan import Plan, plan_diff
from sparklake.udfs.read import Encode, diff_body, removed_batch
from sparklake.udfs.workspace import encode_tasks
from sparklake.verbs.base.context import Context


def logs_losing_keys(context: Context, before: MetaRangeId, after: MetaRangeId) -> frozenset[bytes]:
    """Return the folders of the Delta logs of which a tree may lack keys that another one had.

    Ranges are read only where both trees have some. Where one tree alone has ranges, a log that the
    other tree has a part of leads out of them: an edge is a key of it. Raises InvalidInputError for
    too many tables.
    """
    old_tree, new_tree = (context.trees.get(each).ranges for each in (before, after))
    plan = plan_diff(old_tree, new_tree)
    both = [each for each in plan.stretches if all(side.ranges for side in each.sides)]
    read = _streamed(context, Plan(tuple(both)), log_folders_batch, "logs")
    lone = [old.ranges for old, new in (each.sides for each in plan.stretches) if not new.ranges]
    edges = (key for each in lone for key in (each[0].min_key, each[-1].max_key))
    folders = frozenset((*read, *filter(None, map(log_folder, edges))))
    if len(folders) > MAX_TABLES:
        raise too_many_tables()
    return folders


def gone_files(
    context: Context, folder: bytes, base: MetaRangeId, side: MetaRangeId
) -> frozenset[str]:
    """Return the names of the files that a tree has no more, of the table with a log in a folder.

    Only ranges are read in which the two trees differ.
    """
    table = table_folder(folder)
    before, after = (context.trees.get(each).ranges for each in (base, side))
    plan = plan_diff(before, after, prefix_interval(table))
    found = _streamed(context, plan, removed_batch, table_name(folder))
    # No log names what is not UTF-8.
    names = {key[len(table) :].decode(errors="replace") for key in found}
    return frozenset(each for each in names if not each.startswith(LOG_FOLDER))


def _streamed(context: Context, plan: Plan, encode: Encode, what: str) -> Iterator[bytes]:
    """Yield the keys that the tasks of a two-way diff send."""
    if not plan.pieces:
        return
    runner = context.runner(plan.records, "merge", what)
    size = runner.task_records(plan.records)
    work = encode_tasks(pack(divided(plan, size), size))
    body = partial(diff_body, context.workspace, encode=encode)
    for batch in runner.stream(body, work):
        yield from batch["key"].to_pylist()
