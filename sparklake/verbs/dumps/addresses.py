"""Unusable addresses in the heads of branches and tags."""

from __future__ import annotations

from functools import partial
from operator import attrgetter

from sparklake.graveler.chunks import sliced
from sparklake.graveler.ports import RefsSnapshot
from sparklake.udfs.dumps import AddressTest, refused_body
from sparklake.udfs.tasks import encode_tasks
from sparklake.verbs.base.context import Context
from sparklake.visible import visible_line


def find_refused(
    context: Context, refs: RefsSnapshot, test: AddressTest, verb: str
) -> tuple[int, str] | None:
    """Return the number of refused addresses in all heads, and the first one."""
    heads = {each.commit_id for each in refs.named}
    trees = dict.fromkeys(each.meta_range_id for each in refs.commits if each.id in heads)
    ranges = {info.id: info for each in trees for info in context.trees.get(each).ranges}
    records = sum(each.count for each in ranges.values())
    runner = context.runner(records, "refs", verb)
    shares = sliced(ranges.values(), runner.task_records(records), attrgetter("count"))
    body = partial(refused_body, context.workspace, test)
    batches = runner.collect(body, encode_tasks(shares))
    rows = [row for batch in batches for row in batch.to_pylist()]
    if not rows:
        return None
    first = min(rows, key=lambda row: row["path"])
    sample = f"{first['path'].decode(errors='replace')!r} at {visible_line(first['address'])}"
    return sum(row["count"] for row in rows), sample
