"""The check of objects: presence, sizes and content."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sparklake.graveler.chunks import chunked
from sparklake.layout import DATA_FOLDER, PURGES_FOLDER, purge_list_folder
from sparklake.namespace.markers import open_purges
from sparklake.rows.findings import MOST_AFFECTED, Finding, FindingKind
from sparklake.stores.objects.listings import split_listing
from sparklake.udfs.checks.compared import COMPARE, BucketShare
from sparklake.udfs.checks.listed import LIST_OBJECTS, LIST_PURGED
from sparklake.udfs.checks.named import range_tag
from sparklake.udfs.checks.resolved import RESOLVE, AffectedTable, FaultShare
from sparklake.verbs.checks.refs import moment_of
from sparklake.verbs.checks.report import CheckLevel, CheckOptions
from sparklake.verbs.checks.steps import Steps
from sparklake.verbs.checks.trees import Affected, CheckedTrees, affected_by

_FAULT_BUCKETS = 16
_LEAST_LISTINGS = 16
_OBJECTS_OF_A_LISTING = 250_000
"""The approximate number of objects that a task lists: several folders, or a part of one."""


@dataclass(slots=True)
class CheckedObjects:
    """The findings about objects: counts by kind, and the first ones."""

    kinds: Counter[FindingKind] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    objects: int = 0
    contents: int = 0
    purged: int = 0

    def add(self, kinds: Mapping[str, int], findings: Sequence[Finding]) -> None:
        self.kinds.update({FindingKind(kind): count for kind, count in kinds.items()})
        self.findings += findings


def check_objects(
    steps: Steps, trees: CheckedTrees, options: CheckOptions, *, shows_unnamed: bool
) -> CheckedObjects:
    """Compare all referenced objects with the stored ones, and read a sample of them."""
    checked = CheckedObjects()
    listed_files = _list_objects(steps, trees.records)
    purged_files = _list_purged(steps, checked)
    before = time.time_ns() - int(options.grace.total_seconds() * 1_000_000_000)
    shares = [
        BucketShare(
            bucket=bucket,
            named=tuple(trees.files),
            listed=tuple(listed_files),
            purged=tuple(purged_files),
            before=before,
            shows_unnamed=shows_unnamed,
            sample=options.sample if options.level is CheckLevel.CONTENT else 0.0,
            salt=steps.state.salt,
            fault_buckets=_FAULT_BUCKETS,
        )
        for bucket in range(steps.place.buckets)
    ]
    tags: set[int] = set()
    for result in steps.run(COMPARE, shares, trees.records):
        checked.objects += result.objects
        checked.contents += result.contents
        checked.purged += result.purged
        tags.update(result.tables)
        checked.add(result.kinds, result.findings)
    if tags:
        _resolve(steps, trees, tags, list(map(COMPARE.rows_key, shares)), checked)
    return checked


def _list_objects(steps: Steps, records: int) -> list[str]:
    parts = split_listing(steps.store, start=DATA_FOLDER)
    tasks = max(_LEAST_LISTINGS, records // _OBJECTS_OF_A_LISTING)
    size = -(-len(parts) // tasks) or 1
    shares = list(map(tuple, chunked(parts, size)))
    steps.run(LIST_OBJECTS, shares, records)
    return list(map(LIST_OBJECTS.rows_key, shares))


def _list_purged(steps: Steps, checked: CheckedObjects) -> list[str]:
    """Read the lists and receipts of purges; return the files with their addresses."""
    # An open purge that ends after this line has its receipt below.
    lists = tuple(purge_list_folder(each) for each in open_purges(steps.store))
    keys = [
        each.key
        for each in steps.store.list(PURGES_FOLDER)
        if each.key.endswith(".parquet")
        and (each.key.split("/")[-2] == "receipt" or each.key.startswith(lists))
    ]
    shares = [(each,) for each in sorted(keys)]
    for result in steps.run(LIST_PURGED, shares, 0):
        checked.add(Counter(each.kind for each in result.findings), result.findings)
    return list(map(LIST_PURGED.rows_key, shares))


def _resolve(
    steps: Steps, trees: CheckedTrees, tags: set[int], files: Sequence[str], checked: CheckedObjects
) -> None:
    """Find the paths of faulty objects, and their current commits and branches."""
    moment = moment_of(steps.context)
    infos = {range_tag(each.id): each for each in trees.ranges if range_tag(each.id) in tags}
    affected = affected_by(steps, moment, [each.id for each in infos.values()])
    branches = {each.name for each in moment.refs.branches}
    buckets: dict[int, list[AffectedTable]] = {}
    for tag in sorted(tags):
        if info := infos.get(tag):
            users = affected.get(info.id, Affected())
            commits, names = users.commits[:MOST_AFFECTED], users.branches[:MOST_AFFECTED]
            table = AffectedTable(tag, info, commits, len(users.commits), names)
        else:
            names = tuple(branches & {trees.rows.get(tag, "")})
            table = AffectedTable(tag, None, (), 0, names)
        if table.commits or table.branches:
            buckets.setdefault(tag % _FAULT_BUCKETS, []).append(table)
    shares = [
        FaultShare(bucket, tuple(files), tuple(group)) for bucket, group in sorted(buckets.items())
    ]
    records = sum(each.count for each in infos.values())
    for result in steps.run(RESOLVE, shares, records):
        checked.add(result.kinds, result.findings)
