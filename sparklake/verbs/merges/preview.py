"""The preview of a merge: changes, counts and cost, without a write or a move."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from sparklake._html import html_table
from sparklake.engine.execution import cut_for_tasks
from sparklake.engine.explanation import THREE_WAY, Explanation, explained
from sparklake.engine.lazy_rows import RowShape
from sparklake.errors import InvalidInputError
from sparklake.graveler.algebra.changes import Conflict
from sparklake.graveler.commits import Commit
from sparklake.graveler.keys import key_prefix, prefix_interval
from sparklake.graveler.planning.filtered import filtered_plan
from sparklake.graveler.planning.packing import divided, pack_tasks
from sparklake.graveler.planning.plan import Plan, plan_three_way_diff
from sparklake.graveler.sums import bounded
from sparklake.metadata import registry
from sparklake.metadata.union.dropped import DroppedCommits
from sparklake.rows.diffs import THREE_WAY_SCHEMA, ThreeWayRow, three_way_rows
from sparklake.rows.merges import ConflictResult, DeferredResult, KeptResult, PreviewResult
from sparklake.rows.results import CacheResult, TaskResult, decode_results
from sparklake.stores.cache.counts import TALLY
from sparklake.strategies.resolution import Resolution
from sparklake.strategies.row_strategy import Rows
from sparklake.udfs.diffs import three_way_diff_body
from sparklake.udfs.merges import preview_body
from sparklake.udfs.tasks import encode_tasks
from sparklake.verbs.base.attempts import Attempts
from sparklake.verbs.base.context import Context, naming_collected
from sparklake.verbs.base.merge_bases import ThreeWayTrees, merge_base
from sparklake.verbs.base.resolve import listed_commit
from sparklake.verbs.diffs.differences import Differences
from sparklake.verbs.merges.folder_rows import is_below
from sparklake.verbs.merges.keep_both import MergedView, kept_sizes
from sparklake.verbs.merges.merge import MergeOptions, merge_sides, nothing_to_merge
from sparklake.verbs.merges.settled_tables import (
    changed_tables,
    settled,
    tables_by_rows,
    union_counts,
)
from sparklake.verbs.merges.three_way import (
    BaseTrees,
    conflict_rows,
    naming_verb,
    plan_sides,
    refused_conflicts,
    without_expired_base,
)
from sparklake.verbs.tables.registry import PARQUET, get_format
from sparklake.verbs.tables.row_merges import RowMergeCounts, open_row_merge
from sparklake.verbs.tables.unions import (
    Settled,
    dropped_commits,
    merged_tables,
    row_merges,
    table_winners,
)
from sparklake.verbs.tables.version import table_prefix

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COUNTS = (
    "added",
    "changed",
    "removed",
    "added_bytes",
    "changed_bytes",
    "removed_bytes",
    "conflicts",
    "unresolved",
)
"""The numbers in the results of tasks."""

THREE_WAY_ROWS: RowShape[ThreeWayRow] = RowShape(THREE_WAY_SCHEMA, three_way_rows)


@dataclass(frozen=True, slots=True)
class MergePreview:
    """The changes of a merge, including those decided by a strategy.

    Both sides changed `conflict_count` objects; the `unresolved` ones would stop the merge, and
    `conflicts` has the first ones in key order. Bytes are those of new or removed objects, and sums
    are capped at 2^63 - 1. `cost` is that of the merge. `merged_tables` has the Delta and Iceberg
    tables with merged histories, `table_winners` those for which a strategy selects one side, by
    that strategy, and `dropped_commits` the commits dropped from the other side. `row_merges`
    counts the rows of each table with a merge of rows; its new files are not counted as objects.
    `dirty` reports staged changes of dest: the merge is rejected if it changes the same paths or
    tables.
    """

    base: Commit
    source: Commit
    dest: Commit
    added: int
    changed: int
    removed: int
    added_bytes: int
    changed_bytes: int
    removed_bytes: int
    conflict_count: int
    unresolved: int
    conflicts: tuple[ThreeWayRow, ...]
    cost: Explanation
    merged_tables: tuple[str, ...] = ()
    table_winners: Mapping[str, str] = field(default_factory=dict)
    dropped_commits: Mapping[str, DroppedCommits] = field(default_factory=dict)
    row_merges: Mapping[str, RowMergeCounts] = field(default_factory=dict)
    dirty: bool = False

    def __repr__(self) -> str:
        names = ("added", "changed", "removed", "conflict_count", "unresolved")
        counts = ", ".join(f"{name}={getattr(self, name)}" for name in names)
        return f"MergePreview({self.source.id[:12]} into {self.dest.id[:12]}, {counts})"

    def _repr_html_(self) -> str:
        rows = (
            {
                "path": each.path,
                "base": each.base,
                "source": each.source,
                "dest": each.dest,
                "reason": each.reason,
            }
            for each in self.conflicts
        )
        return html_table(repr(self), ("path", "base", "source", "dest", "reason"), rows)

    @property
    def changes_nothing(self) -> bool:
        """Whether dest would stay the same."""
        return not (self.added or self.changed or self.removed or self.unresolved)


def preview_merge(context: Context, source: str, dest: str, options: MergeOptions) -> MergePreview:
    """Return the preview of a merge with a branch's head. Raises NoChangesError."""
    source_ref, dest_commit, trees, dirty = merge_sides(context, source, dest, options)
    resolution = without_expired_base(context, trees, options.resolution)
    results = list(
        _results(context, _plan(context, trees), trees, resolution, f"{source} -> {dest}")
    )
    previews = [each for each in results if isinstance(each, PreviewResult)]
    met = [each.conflict for each in results if isinstance(each, ConflictResult)]
    deferred = [each for each in results if isinstance(each, DeferredResult)]
    additions = sorted(each.addition for each in results if isinstance(each, KeptResult))
    beside = kept_sizes(context, trees, resolution, additions)
    merging = plan_sides(context, trees)
    attempts = Attempts(context, context.title("preview", f"{source} -> {dest}"))
    for each in previews:
        attempts.logs.update(each.logs)
        attempts.tables.update(each.tables)
        attempts.added.join(each.added_files)
    pending = changed_tables(attempts, trees, resolution)
    find_many = MergedView(context, trees, resolution).find_many
    unions = [
        each.checked(find_many) if isinstance(each, Settled) else each
        for each in settled(attempts, pending, write=False)
    ]
    counts = union_counts(unions)
    for each in previews:
        counts.update({name: getattr(each, name) for name in _COUNTS})
    conflicts = dict[bytes, tuple[Conflict, str | None]]((each.key, (each, None)) for each in met)
    refused = [*refused_conflicts(unions)]
    conflicts.update((each.key, (each, reason)) for each, reason in refused)
    by_rows = tables_by_rows(pending)
    counts.update(
        added=len(beside),
        added_bytes=sum(beside),
        unresolved=len(refused)
        + sum(not is_below(each.conflict.key, by_rows) for each in deferred),
    )
    preview = MergePreview(
        base=merge_base(context, source_ref.commit, dest_commit),
        source=source_ref.commit,
        dest=dest_commit,
        added=counts["added"],
        changed=counts["changed"],
        removed=counts["removed"],
        added_bytes=bounded(counts["added_bytes"]),
        changed_bytes=bounded(counts["changed_bytes"]),
        removed_bytes=bounded(counts["removed_bytes"]),
        conflict_count=counts["conflicts"],
        unresolved=counts["unresolved"],
        conflicts=tuple(conflict_rows(context, trees, conflicts.values())),
        cost=explained("merge", merging, cut_for_tasks, context.runners, THREE_WAY),
        merged_tables=merged_tables(unions),
        table_winners=table_winners(unions),
        dropped_commits=dropped_commits(unions),
        row_merges=row_merges(unions),
        dirty=dirty,
    )
    if options.has_one_parent and preview.changes_nothing and not options.allow_empty:
        raise nothing_to_merge(context, source_ref, dest, options.paths)
    return preview


def merge_conflicts(context: Context, source: str, dest: str, path: str, rows: Rows) -> DataFrame:
    """Return the rows of a table that a merge of rows leaves in conflict, computed on demand."""
    sides = merge_sides(context, source, dest, MergeOptions()).trees
    folder = table_prefix(path)
    with naming_verb(f"cannot merge the rows of {path!r}"):
        names = (*(each.name for each in registry.BUILT_IN), PARQUET)
        tables = (get_format(each).find_rows(context, sides, folder, rows) for each in names)
        table = next((each for each in tables if each is not None), None)
        if table is None:
            raise InvalidInputError(
                f"it is not a table with files that both {source!r} and {dest!r} changed"
            )
        return open_row_merge(table).conflicts()


def diff_three_way(
    context: Context, dest: str, source: str, prefix: str
) -> Differences[ThreeWayRow]:
    """Return the changes to dest if source were merged into it, with conflicts."""
    ours, theirs = (listed_commit(context, ref) for ref in (dest, source))
    within, what = prefix_interval(key_prefix(prefix)), f"{dest} -> {source}"
    base = BaseTrees(context).tree(theirs, ours).ranges
    trees = context.tree(theirs).ranges, context.tree(ours).ranges
    plan = plan_three_way_diff(base, *trees, within)
    body = partial(three_way_diff_body, context.workspace)
    return Differences(plan, THREE_WAY_ROWS, context.job("diff", what, THREE_WAY), body, prefix)


def _plan(context: Context, sides: ThreeWayTrees) -> Plan:
    with naming_collected(context, sides.bases):
        base, source, dest = (context.trees.get(each).ranges for each in sides.trees)
    plan = plan_three_way_diff(base, source, dest, sides.path_filter.hull)
    return filtered_plan(plan, sides.path_filter)


def _results(
    context: Context, plan: Plan, sides: ThreeWayTrees, resolution: Resolution, what: str
) -> Iterable[TaskResult]:
    runner = context.runner(plan.records, "preview", what)
    task_records = runner.task_records(plan.records)
    tasks = encode_tasks(pack_tasks(divided(plan, task_records), task_records))
    body = partial(preview_body, context.workspace, resolution, sides.path_filter)
    for result in decode_results(runner.collect(body, tasks)):
        if isinstance(result, CacheResult):
            TALLY.note(result.process, result.counts)
        yield result
