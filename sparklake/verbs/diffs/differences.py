"""Diffs of refs, trees and staged changes: as rows, by folder, in total, as a tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial, reduce
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

import pyarrow as pa

from sparklake.engine.explanation import LAYERED, TWO_WAY
from sparklake.engine.lazy_rows import Row, Rows, RowShape
from sparklake.errors import InvalidInputError
from sparklake.graveler.keys import key_prefix, prefix_interval
from sparklake.graveler.planning.layers import plan_view
from sparklake.graveler.planning.packing import divided, pack_tasks
from sparklake.graveler.planning.plan import Plan, plan_diff
from sparklake.graveler.ranges import MetaRange
from sparklake.rows.diffs import COUNTS, FOLDER_SCHEMA, DiffRow, FolderDiff, folder_rows
from sparklake.udfs.diffs import Encode, FolderBatch, diff_body, staged_diff_body
from sparklake.udfs.tasks import encode_tasks
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import merge_base
from sparklake.verbs.base.read import DIFFS
from sparklake.verbs.base.resolve import ResolvedRef, get_branch, listed_commit, read_consistently
from sparklake.verbs.base.staging import StagedLayers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_LEVELS = 100
_NODES_HELD = 10_000

FOLDERS: RowShape[FolderDiff] = RowShape(FOLDER_SCHEMA, folder_rows)


@dataclass(frozen=True, slots=True)
class Differences(Rows[Row]):
    """Differences, one row per object, with sums by folder."""

    prefix: str = ""

    def by_folder(self, depth: int = 1) -> FolderDiffs:
        """Return the differences of each folder at a depth, and of objects above it."""
        if not 1 <= depth <= MOST_LEVELS:
            raise InvalidInputError(
                f"a depth of {depth} is invalid: choose 1 to {MOST_LEVELS} levels"
            )
        return FolderDiffs(self.encoded_as(FOLDERS, FolderBatch(self.prefix, depth)))

    def summary(self) -> FolderDiff:
        """Return the number of differing objects, and their bytes."""
        parts = self.encoded_as(FOLDERS, FolderBatch(self.prefix, 0))
        return reduce(FolderDiff.plus, parts, FolderDiff(""))

    def tree(self, depth: int = 3, most: int = 100) -> DiffTree:
        """Return the differing folders as a tree of at most `depth` levels and `most` nodes."""
        tree = DiffTree(FolderDiff(self.prefix))
        for each in self.by_folder(depth):
            tree.add(each, depth)
            if tree.size > max(_NODES_HELD, most):
                while depth > 1 and tree.size > most:
                    depth -= 1
                    tree = tree.folded(depth)
        while depth > 1 and tree.size > most:
            depth -= 1
            tree = tree.folded(depth)
        return tree


@dataclass(frozen=True, slots=True)
class FolderDiffs:
    """Differences by folder, in the byte order of paths. Iteration streams them."""

    _parts: Rows[FolderDiff]

    def __iter__(self) -> Iterator[FolderDiff]:
        for _, parts in groupby(self._parts, attrgetter("path")):
            yield reduce(FolderDiff.plus, parts)

    def to_arrow(self) -> pa.Table:
        """Return all rows as one Arrow table of FOLDER_SCHEMA, in memory."""
        return pa.Table.from_pylist([asdict(each) for each in self], schema=FOLDER_SCHEMA)

    def to_df(self) -> DataFrame:
        """Return the rows as a Spark DataFrame, computed by its tasks, in no fixed order."""
        # Not at the top: reading must not pay for importing Spark.
        from sparklake.frames.diffs import summed

        return summed(self._parts.to_df(), "path", COUNTS)


@dataclass(slots=True)
class DiffTree:
    """The total of a folder's differences, and its folders and objects."""

    total: FolderDiff
    children: dict[str, DiffTree] = field(default_factory=dict)
    size: int = 1
    """The number of nodes, including this one."""

    def add(self, row: FolderDiff, depth: int) -> int:
        """Add a row up to `depth` levels below; return the number of new nodes."""
        self.total = self.total.plus(row)
        rest = row.path[len(self.total.path) :]
        if not rest or not depth:
            return 0
        head = self.total.path + rest[: rest.find("/") + 1 or None]
        added = int(head not in self.children)
        child = self.children.setdefault(head, DiffTree(FolderDiff(head)))
        added += child.add(row, depth - 1)
        self.size += added
        return added

    def folded(self, depth: int) -> DiffTree:
        """Return the tree without its deeper levels."""
        if not depth:
            return DiffTree(self.total)
        children = {name: each.folded(depth - 1) for name, each in self.children.items()}
        return DiffTree(self.total, children, 1 + sum(each.size for each in children.values()))


def diff_refs(
    context: Context, left: str, right: str, prefix: str, *, three_dot: bool
) -> Differences[DiffRow]:
    """Return the differences from left, or its merge base, to right, as committed."""
    commit, other = (listed_commit(context, ref) for ref in (left, right))
    # As git has it: of several best common ancestors the first, not what they are merged to.
    start = merge_base(context, other, commit) if three_dot else commit
    within = prefix_interval(key_prefix(prefix))
    plan = plan_diff(context.tree(start).ranges, context.tree(other).ranges, within)
    return diff_of_plan(context, plan, f"{left} -> {right}", "diff", prefix)


def diff_uncommitted(context: Context, branch: str, prefix: str) -> Differences[DiffRow]:
    name, start = get_branch(context, branch).name, key_prefix(prefix)

    def plan(resolved: ResolvedRef) -> Plan:
        plan = StagedLayers(context, start).plan(resolved.tree(context), resolved.layers, plan_view)
        return plan.restricted(prefix_interval(start))

    planned = read_consistently(context, name, plan)
    job, body = context.job("diff", name, LAYERED), partial(staged_diff_body, context.workspace)
    return Differences(planned, DIFFS, job, body, prefix)


def diff_trees(
    context: Context, left: MetaRange, right: MetaRange, prefix: str, what: str
) -> Differences[DiffRow]:
    plan = plan_diff(left.ranges, right.ranges, prefix_interval(key_prefix(prefix)))
    return diff_of_plan(context, plan, what, "diff")


def diff_of_plan(
    context: Context, plan: Plan, what: str, verb: str, prefix: str = ""
) -> Differences[DiffRow]:
    job, body = context.job(verb, what, TWO_WAY), partial(diff_body, context.workspace)
    return Differences(plan, DIFFS, job, body, prefix)


def streamed_keys(context: Context, plan: Plan, encode: Encode, what: str) -> Iterator[bytes]:
    """Yield the `key` column of a two-way diff's encoded batches."""
    if not plan.pieces:
        return
    runner = context.runner(plan.records, "merge", what)
    size = runner.task_records(plan.records)
    work = encode_tasks(pack_tasks(divided(plan, size), size))
    body = partial(diff_body, context.workspace, encode=encode)
    for batch in runner.stream(body, work):
        yield from batch["key"].to_pylist()
