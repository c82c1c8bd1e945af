"""Merges and diffs by an engine: plan, tasks and stitching against plain dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial

from sparklake.engine.base import Body
from sparklake.engine.execution import PlanResult
from sparklake.graveler.entries import Entry, encode_entry
from sparklake.graveler.planning.packing import divided, pack_tasks
from sparklake.graveler.planning.plan import Plan, plan_diff, plan_three_way_diff
from sparklake.graveler.ranges import MetaRange
from sparklake.graveler.records import Record, decode_record
from sparklake.rows.diffs import DiffRow, ThreeWayRow, diff_rows, three_way_rows
from sparklake.udfs.diffs import diff_body, three_way_diff_body
from sparklake.udfs.tasks import encode_tasks
from tests.support import oracle
from tests.support.oracle import Contents
from tests.support.trees import Trees, encoded
from tests.support.triples import STRATEGIES, Triple

Row = tuple[str, bytes, str | None, str | None, str | None]
"""Type and key, and the identities of left, right and base."""


def check_run(trees: Trees, triple: Triple, task_records: int) -> None:
    """Merge under every strategy, and compares trees, conflicts and diffs with the oracle."""
    sides = [trees.write_records(objects_of(each)) for each in triple]
    base, source, dest = sides
    expected_rows = expected_three_way(triple)
    plan = plan_three_way_diff(*(each.ranges for each in sides))
    assert list(diffed(trees, plan, three_way_diff_body, task_records)) == expected_rows
    conflicts = [row[1] for row in expected_rows if row[0] == "conflict"]

    preview = trees.merge(base, source, dest, None, task_records)
    assert [each.key for each in preview.conflicts] == conflicts
    assert preview.conflict_count == len(conflicts)
    for each in preview.conflicts:
        stored = (each.base, each.source, each.dest)
        assert tuple(identity_of(each.key, one) for one in stored) == triple.identities(each.key)

    for policy in STRATEGIES:
        outcome = trees.merge(base, source, dest, policy.strategy, task_records)
        result, contested = oracle.merged(*triple, policy.winner(triple))
        assert contested == conflicts
        assert outcome.conflict_count == len(conflicts)
        check_result(trees, triple, dest, outcome, result, task_records)
    if not conflicts:
        check_result(trees, triple, dest, preview, result, task_records)


def check_result(
    trees: Trees,
    triple: Triple,
    dest: MetaRange,
    outcome: PlanResult,
    expected: Contents,
    task_records: int,
) -> None:
    """Compare a merged tree with the oracle's, and its diff to dest with the oracle's rows."""
    tree = trees.finish(outcome.pieces)
    assert tree.id == oracle.meta_range_id(expected, trees.workspace.range_records)
    assert trees.contents(tree) == expected
    plan = plan_diff(dest.ranges, tree.ranges)
    rows = list(diffed(trees, plan, diff_body, task_records))
    assert rows == two_way_rows(triple.dest, expected)


def diffed(trees: Trees, plan: Plan, body: Body, task_records: int) -> Iterator[Row]:
    """Yield the rows of a diff, with checksums in place of identities."""
    work = encode_tasks(pack_tasks(divided(plan, task_records), task_records))
    decode: Callable[..., Iterator[DiffRow | ThreeWayRow]]
    decode = three_way_rows if body is three_way_diff_body else diff_rows
    for batch in trees.runner.stream(partial(body, trees.workspace), work):
        yield from map(row_of, decode(batch))


def row_of(row: DiffRow | ThreeWayRow) -> Row:
    if isinstance(row, DiffRow):
        return row.type.value, row.path.encode(), row.left_checksum, row.right_checksum, None
    dest, source, base = (each and each.checksum for each in (row.dest, row.source, row.base))
    return row.type.value, row.path.encode(), dest, source, base


def two_way_rows(left: Contents, right: Contents) -> list[Row]:
    rows: list[Row] = []
    for key, sides in oracle.differences(left, right).items():
        kind = "added" if sides[0] is None else "removed" if sides[1] is None else "changed"
        rows.append((kind, key, *map(text, sides), None))
    return rows


def expected_three_way(triple: Triple) -> list[Row]:
    """Return the changes to dest and the conflicts of a merge, by the oracle alone."""
    after, conflicts = oracle.merged(*triple, triple.dest)
    rows = two_way_rows(triple.dest, after)
    for key in conflicts:
        base, source, dest = map(text, triple.identities(key))
        rows.append(("conflict", key, dest, source, base))
    return sorted(rows, key=lambda row: row[1])


def text(identity: bytes | None) -> str | None:
    return None if identity is None else identity.decode()


def objects_of(contents: Contents) -> list[Record]:
    """Return objects with their identities as checksums."""
    return [encoded(key, each, entry_of(each)) for key, each in sorted(contents.items())]


@lru_cache
def entry_of(identity: bytes) -> bytes:
    return encode_entry(Entry("data/x", 1, identity.decode(), 0))


def identity_of(key: bytes, stored: bytes | None) -> bytes | None:
    return None if stored is None else decode_record(key, stored).identity
