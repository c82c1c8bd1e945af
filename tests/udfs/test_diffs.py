"""Task bodies that read: tree listings and diffs, compared with dicts of checksums."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest

from benchmarks.counting import recorded_reads
from sparklake.graveler.algebra.changes import Change, ChangeType
from sparklake.graveler.entries import Entry, entry_record
from sparklake.graveler.keys import EVERYTHING, Interval, prefix_interval
from sparklake.graveler.planning.layers import plan_listing, plan_view
from sparklake.graveler.planning.packing import pack_tasks
from sparklake.graveler.planning.plan import Plan, SideStream, plan_diff, plan_three_way_diff
from sparklake.graveler.ranges import MetaRange, overlapping
from sparklake.graveler.records import Record, tombstone
from sparklake.rows.diffs import (
    DIFF_SCHEMA,
    THREE_WAY_SCHEMA,
    DiffRow,
    SideObject,
    ThreeWayRow,
    diff_rows,
    three_way_rows,
)
from sparklake.rows.objects import OBJECT_SCHEMA, object_rows
from sparklake.udfs.diffs import diff_body, staged_diff_body, three_way_diff_body
from sparklake.udfs.objects import list_body
from sparklake.udfs.tasks import encode_tasks
from tests.support.trees import Rows, Run, Trees, open_trees, touched

if TYPE_CHECKING:
    import pyarrow as pa

Objects = dict[str, int]
"""The size of each object; it is also all that its content depends on."""

MTIME = 1_700_000_000 * 10**9
PATHS = [f"{folder}/{number:03}.csv" for folder in "abc" for number in range(60)]


@pytest.fixture
def trees() -> Iterator[Trees]:
    with open_trees(5) as opened:
        yield opened


@pytest.fixture(params=[1, 40, 1_000_000], ids=lambda size: f"tasks of {size}")
def task_records(request: pytest.FixtureRequest) -> int:
    return request.param


def object_of(path: str, size: int) -> Record:
    return entry_record(path, Entry(f"data/{path}", size, f"sum-{size}", MTIME))


def write(trees: Trees, objects: Objects) -> MetaRange:
    return trees.write_records([object_of(*each) for each in sorted(objects.items())])


def staged(changes: dict[str, int | None]) -> tuple[Record, ...]:
    return tuple(
        tombstone(path.encode()) if size is None else object_of(path, size)
        for path, size in sorted(changes.items())
    )


def edited(objects: Objects, chance: random.Random, rate: float = 0.1) -> Objects:
    after = dict(objects)
    for path in PATHS:
        if chance.random() < rate:
            after[path] = chance.randint(1, 3)
        elif chance.random() < rate / 2:
            after.pop(path, None)
    return after


def some(chance: random.Random) -> Objects:
    return {path: chance.randint(1, 3) for path in PATHS if chance.random() < 0.8}


def ran(
    trees: Trees, body: Callable, plan: Plan, task_records: int, schema: pa.Schema
) -> list[pa.RecordBatch]:
    tasks = encode_tasks(pack_tasks(plan, task_records))
    batches = list(trees.runner.stream(partial(body, trees.workspace), tasks))
    assert all(batch.schema == schema for batch in batches)
    assert all(batch.num_rows for batch in batches)
    return batches


def diffs(trees: Trees, body: Callable, plan: Plan, task_records: int) -> list[DiffRow]:
    batches = ran(trees, body, plan, task_records, DIFF_SCHEMA)
    return [row for batch in batches for row in diff_rows(batch)]


def kind_of(left: int | None, right: int | None) -> ChangeType:
    sides = [None if size is None else str(size).encode() for size in (left, right)]
    return Change(b"", *sides).type


def row_of(path: str, left: int | None, right: int | None) -> DiffRow:
    return DiffRow(
        type=kind_of(left, right),
        path=path,
        size=left if right is None else right,
        left_checksum=None if left is None else f"sum-{left}",
        right_checksum=None if right is None else f"sum-{right}",
    )


def side_of(size: int | None) -> SideObject | None:
    return None if size is None else SideObject(size, f"sum-{size}", MTIME)


def rows_between(left: Objects, right: Objects) -> list[DiffRow]:
    return [
        row_of(path, left.get(path), right.get(path))
        for path in sorted({*left, *right})
        if left.get(path) != right.get(path)
    ]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "within", [EVERYTHING, prefix_interval(b"b/"), Interval(b"a/030", b"c/010")], ids=str
)
def test_a_diff_matches_dicts(trees: Trees, task_records: int, seed: int, within: Interval) -> None:
    chance = random.Random(seed)
    left = some(chance)
    right = edited(left, chance)
    plan = plan_diff(write(trees, left).ranges, write(trees, right).ranges, within)
    assert diffs(trees, diff_body, plan, task_records) == [
        row for row in rows_between(left, right) if row.path.encode() in within
    ]


@pytest.mark.parametrize("seed", range(2))
def test_a_three_way_diff_matches_dicts(trees: Trees, task_records: int, seed: int) -> None:
    chance = random.Random(seed)
    base = some(chance)
    source, dest = edited(base, chance, 0.2), edited(base, chance, 0.2)
    plan = plan_three_way_diff(*(write(trees, side).ranges for side in (base, source, dest)))
    expected = []
    for path in sorted({*base, *source, *dest}):
        ancestor, theirs, ours = base.get(path), source.get(path), dest.get(path)
        if theirs in (ancestor, ours):
            continue
        is_conflict = ours != ancestor
        kind = ChangeType.CONFLICT if is_conflict else kind_of(ours, theirs)
        sides = (ancestor if is_conflict else None, theirs, ours)
        expected.append(ThreeWayRow(kind, path, *map(side_of, sides)))
    assert {each.type for each in expected} == {*ChangeType}
    batches = ran(trees, three_way_diff_body, plan, task_records, THREE_WAY_SCHEMA)
    rows = [row for batch in batches for row in three_way_rows(batch)]
    assert rows == expected
    sizes = [size for batch in batches for size in batch.column("size").to_pylist()]
    assert sizes == [each.size for each in rows]


LAYERS = ("rows", "run", "run under rows")


def layers_of(
    trees: Trees, shape: str, chance: random.Random
) -> tuple[list[Rows | Run], dict[str, int | None]]:
    """Return staged layers, newest first, and their combined changes."""

    def changes() -> dict[str, int | None]:
        return {path: chance.choice((1, 2, 3, None)) for path in PATHS if chance.random() < 0.07}

    lower, upper = changes(), changes()
    if shape == "rows":
        return [Rows(staged(upper))], upper
    run = Run(trees.write_records(staged(lower)))
    return ([run], lower) if shape == "run" else ([Rows(staged(upper)), run], lower | upper)


def sides_of(layers: list[Rows | Run]) -> list[SideStream]:
    return [
        SideStream(tuple(layer.tree.ranges))
        if isinstance(layer, Run)
        else SideStream(rows=layer.records)
        for layer in layers
    ]


def staged_over(objects: Objects, changes: dict[str, int | None]) -> Objects:
    after = {**objects, **changes}
    return {path: size for path, size in after.items() if size is not None}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("shape", LAYERS)
def test_a_diff_of_staged_layers_matches_dicts(
    trees: Trees, task_records: int, shape: str, seed: int
) -> None:
    chance = random.Random(seed)
    base = some(chance)
    layers, changes = layers_of(trees, shape, chance)
    plan = plan_view(write(trees, base).ranges, sides_of(layers), touched(layers))
    expected = rows_between(base, staged_over(base, changes))
    assert diffs(trees, staged_diff_body, plan, task_records) == expected


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("shape", LAYERS)
@pytest.mark.parametrize("within", [EVERYTHING, prefix_interval(b"b/01")], ids=str)
def test_a_listing_through_staged_layers_matches_dicts(
    trees: Trees, task_records: int, shape: str, within: Interval, seed: int
) -> None:
    chance = random.Random(seed)
    base = some(chance)
    layers, changes = layers_of(trees, shape, chance)
    plan = plan_listing(write(trees, base).ranges, sides_of(layers), within)
    tasks = encode_tasks(pack_tasks(plan, task_records))
    batches = list(trees.runner.stream(partial(list_body, trees.workspace), tasks))
    assert all(batch.schema == OBJECT_SCHEMA for batch in batches)
    listed = [each for batch in batches for each in object_rows(batch)]
    assert [(each.path, each.size) for each in listed] == [
        (path, size)
        for path, size in sorted(staged_over(base, changes).items())
        if path.encode() in within
    ]
    namespace = trees.workspace.storage_namespace
    assert all(each.address == f"{namespace}/data/{each.path}" for each in listed)


def test_the_listing_of_a_prefix_reads_only_its_ranges(trees: Trees) -> None:
    tree = write(trees, dict.fromkeys(PATHS, 1))
    within = prefix_interval(b"b/01")
    plan = plan_listing(tree.ranges, [], within)
    with recorded_reads() as reads:
        work = encode_tasks(pack_tasks(plan, 1000))
        batches = list(trees.runner.collect(partial(list_body, trees.workspace), work))
    assert sum(batch.num_rows for batch in batches) == 10
    assert reads == [
        each.id for each in tree.ranges if each.max_key >= b"b/01" and each.min_key < b"b/02"
    ]


def test_a_restricted_plan_counts_and_reads_only_its_ranges(trees: Trees) -> None:
    base = write(trees, dict.fromkeys(PATHS[:70], 1))
    run = write(trees, dict.fromkeys(PATHS[50:], 2))
    within = prefix_interval(b"b/01")
    sides = [[*base.ranges], [*run.ranges]]
    for layered in (sides, [[], run.ranges]):
        plan = plan_listing(layered[0], [SideStream(tuple(layered[1]))]).restricted(within)
        needed = {each for side in layered for each in overlapping(side, within)}
        assert set(plan.opened) == needed
        assert plan.records == sum(each.count for each in needed)
        with recorded_reads() as reads:
            work = encode_tasks(pack_tasks(plan, 1000))
            batches = list(trees.runner.collect(partial(list_body, trees.workspace), work))
        assert sum(batch.num_rows for batch in batches) == 10
        assert sorted(reads) == sorted(each.id for each in needed)
