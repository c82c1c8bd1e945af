"""Which files of a table a side has removed from its tree: by a vacuum, or by hand."""

from __future__ import annotations

from functools import partial

from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.keys import prefix_interval
from sparklake.graveler.packing import divided, pack
from sparklake.graveler.planning import plan_diff
from sparklake.udfs.delta.names import LOG_FOLDER, table_folder, table_name
from sparklake.udfs.reading import diff_body, removed_batch
from sparklake.udfs.tasks import encode_tasks
from sparklake.verbs.context import Context


def gone_files(
    context: Context, folder: bytes, base: MetaRangeId, side: MetaRangeId
) -> frozenset[str]:
    """Returns the names of the files that a tree has no more, of the table with a log in a folder.

    Only ranges are read in which the two trees differ.
    """
    table = table_folder(folder)
    before, after = (context.trees.get(each).ranges for each in (base, side))
    plan = plan_diff(before, after, prefix_interval(table))
    runner = context.runner(plan.records, "merge", table_name(folder))
    size = runner.task_records(plan.records)
    work = encode_tasks(pack(divided(plan, size), size))
    body = partial(diff_body, context.workspace, encode=removed_batch)
    keys = (key for batch in runner.stream(body, work) for key in batch["key"].to_pylist())
    # No log names what is not UTF-8.
    names = {key[len(table) :].decode(errors="replace") for key in keys}
    return frozenset(each for each in names if not each.startswith(LOG_FOLDER))
