"""Checks of ranges that were written before the latest fence was read."""

from __future__ import annotations

from functools import partial
from operator import attrgetter

from sparklake.engine.sort import sliced
from sparklake.graveler.ranges import Ranges, record_count
from sparklake.udfs.adopted_ranges import check_objects_body
from sparklake.udfs.gc import encode_work
from sparklake.verbs.base.context import Context


def check_adopted_objects(context: Context, verb: str, branch: str, ranges: Ranges) -> None:
    """Check that the objects of the lake that ranges name were not deleted meanwhile.

    A range that existed may name other objects than the verb. Tasks read all ranges. Raises
    CollectionBegunError, CollectionOpenError and PurgeOpenError.
    """
    records = record_count(ranges)
    runner = context.runner(records, verb, branch)
    work = encode_work(sliced(ranges, runner.task_records(records), attrgetter("count")))
    list(runner.collect(partial(check_objects_body, context.workspace), work))
