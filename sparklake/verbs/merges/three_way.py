"""The trees of three-way merges, and of their bases."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from sparklake import errors
from sparklake.engine.execution import PlanResult, finish, run_plan
from sparklake.graveler.algebra.changes import Conflict
from sparklake.graveler.commits import Commit
from sparklake.graveler.graph.virtual_base import VirtualBases, disagreement
from sparklake.graveler.ids import EMPTY_META_RANGE, CommitId, MetaRangeId
from sparklake.graveler.planning.filtered import plan_filtered_merge
from sparklake.graveler.planning.plan import Plan
from sparklake.graveler.ports import BranchState
from sparklake.graveler.ranges import MetaRange
from sparklake.graveler.records import stored_record_id
from sparklake.rows.diffs import ThreeWayRow, conflict_row
from sparklake.rows.merges import add_tables
from sparklake.strategies.judging import MAX_CONFLICTS_REPORTED
from sparklake.strategies.resolution import Resolution
from sparklake.udfs.write_ranges import merge_body, virtual_merge_body
from sparklake.verbs.base.attempts import Attempts
from sparklake.verbs.base.commit_graph import Walk
from sparklake.verbs.base.context import Context, naming_collected
from sparklake.verbs.base.merge_bases import ThreeWayTrees, best_common_ancestors
from sparklake.verbs.base.namespace import check_namespace
from sparklake.verbs.base.staging import StagedLayers
from sparklake.verbs.commits import apply_layers
from sparklake.verbs.history.origins import WalkLimits, last_changes
from sparklake.verbs.merges.folder_rows import is_below
from sparklake.verbs.merges.keep_both import places, with_records
from sparklake.verbs.merges.overlaps import row_overlaps
from sparklake.verbs.merges.replaced_folders import files_in, replaced_folders
from sparklake.verbs.merges.settled_tables import changed_tables, settled, tables_by_rows
from sparklake.verbs.merges.table_unions import logs_losing_keys, table_unions
from sparklake.verbs.tables.unions import (
    Pending,
    Refused,
    Settled,
    TableUnion,
    union_labels,
    union_records,
)
from sparklake.visible import count_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class MergedTree(NamedTuple):
    id: MetaRangeId
    labels: Mapping[str, str] = MappingProxyType({})


def plan_sides(context: Context, sides: ThreeWayTrees) -> Plan:
    with naming_collected(context, sides.bases):
        base, source, dest = (context.trees.get(each).ranges for each in sides.trees)
    return plan_filtered_merge(base, source, dest, sides.path_filter)


def without_expired_base(
    context: Context, sides: ThreeWayTrees, resolution: Resolution
) -> Resolution:
    """Return a resolution without the objects of an expired base."""
    if not resolution.asks_functions:
        return resolution
    expired = context.refs.commits.expired(sides.bases) if sides.bases else ()
    first = next(filter(expired.__contains__, sides.bases), None)
    return replace(resolution, expired_base=first)


@contextmanager
def naming_verb(what: str) -> Iterator[None]:
    """Prefix the message of an error, such as with "cannot revert ..."."""
    try:
        yield
    except (
        errors.MergeConflictError,
        errors.StrategyError,
        errors.ExpiredError,
        errors.InvalidInputError,
    ) as error:
        error.args = (f"{what}: {error}", *error.args[1:])
        raise


def merged_tree(attempts: Attempts, sides: ThreeWayTrees, resolution: Resolution) -> MergedTree:
    """Write the merged tree.

    Errors do not contain the verb: see `naming_verb`. If one side equals the base, the result is
    the other side, and nothing is read except differing Delta logs that must not shrink.
    """
    with naming_collected(attempts.context, sides.bases):
        return _merged_tree(attempts, sides, resolution)


def _merged_tree(attempts: Attempts, sides: ThreeWayTrees, resolution: Resolution) -> MergedTree:
    if sides.source in (sides.base, sides.dest):
        return MergedTree(sides.dest)
    if not sides.path_filter.is_everything:
        # Results for a part of some ranges do not apply to the whole ranges.
        attempts = Attempts(attempts.context, attempts.title)
    elif sides.dest == sides.base:
        return _source_tree(attempts, sides, resolution)
    context = attempts.context
    attempts.logs |= _losing_logs(context, sides, resolution)
    plan = plan_sides(context, sides)
    resolution = without_expired_base(context, sides, resolution)
    body = partial(merge_body, context.workspace, resolution, path_filter=sides.path_filter)
    outcome = attempts.run(body, plan)
    attempts.logs |= outcome.logs
    attempts.added.join(outcome.added)
    add_tables(attempts.tables, outcome.tables)
    pending = changed_tables(attempts, sides, resolution)
    leave_deferred(outcome, tables_by_rows(pending))
    unions = _settled(attempts, sides, outcome, pending)
    tree = attempts.finish(plan, outcome, sides.dest)
    if outcome.kept_objects or outcome.deferred:
        # Another attempt must collect the kept objects and the deferred conflicts again.
        attempts.forget()
    if outcome.kept_objects:
        find = partial(context.open_ranges.lookup, tree.ranges)
        records = places(outcome.kept_objects, find)
        tree = context.trees.keep(with_records(context, attempts.title, tree, records))
    return _with_tables(attempts, sides, tree, unions)


def _settled(
    attempts: Attempts, sides: ThreeWayTrees, outcome: PlanResult, unions: Sequence[TableUnion]
) -> list[Settled]:
    """Run the pending checks and merges of rows, unless something else is in conflict."""
    context = attempts.context
    _without_conflict(
        context, sides, outcome, [each for each in unions if not isinstance(each, Pending)]
    )
    return _without_conflict(context, sides, outcome, settled(attempts, unions, write=True))


def _with_tables(
    attempts: Attempts, sides: ThreeWayTrees, tree: MetaRange, unions: Sequence[Settled]
) -> MergedTree:
    """Write the tables of a merge over a tree, unless it lacks files."""
    context = attempts.context
    if unions:
        find_many = partial(context.open_ranges.lookup_many, tree.ranges)
        checked = [each.checked(find_many) for each in unions]
        unions = _without_conflict(context, sides, PlanResult(), checked)
        records = union_records(context, unions)
        tree = context.trees.keep(with_records(context, attempts.title, tree, records))
    return MergedTree(tree.id, union_labels(unions))


def leave_deferred(outcome: PlanResult, merged: Collection[bytes]) -> None:
    """Report the deferred conflicts outside of the tables with merged rows."""
    remaining = [each for each in outcome.deferred if not is_below(each.key, merged)]
    outcome.left_count += len(remaining)
    outcome.conflicts += remaining[: MAX_CONFLICTS_REPORTED - len(outcome.conflicts)]


def check_staged_changes(
    context: Context, title: str, state: BranchState, tree_id: MetaRangeId
) -> None:
    """Raise DirtyBranchError if a new tree and the staged changes overlap."""
    if not state.layers:
        return
    head = context.tree(context.graph.head(state))
    staged = StagedLayers(context)  # Read once: an open layer may grow concurrently.
    before, after = (
        apply_layers(Attempts(context, title, layered=True), tree, staged, state.layers)
        for tree in (head, context.trees.get(tree_id))
    )
    met = ""
    try:
        sides = ThreeWayTrees(head.id, before.id, tree_id)
        both = merged_tree(Attempts(context, title), sides, Resolution())
    except errors.MergeConflictError as error:
        met = f", such as {getattr(error.conflicts[0], 'path', None)!r}"
    else:
        # A record that changes nothing over the head may hide a change of the tree.
        if both.id == after.id and not both.labels:
            return
    raise errors.DirtyBranchError(
        f"{state.name!r} has uncommitted changes to paths or tables that the merge changes, "
        f"too{met}: commit or drop them before you merge into it"
    )


def _source_tree(attempts: Attempts, sides: ThreeWayTrees, resolution: Resolution) -> MergedTree:
    """Return source's tree for a dest equal to base, with logs extended instead of truncated."""
    context = attempts.context
    logs = _losing_logs(context, sides, resolution)
    unions = table_unions(context, sides, resolution, logs) if logs else []
    if not unions:
        return MergedTree(sides.source)
    tables = _settled(attempts, sides, PlanResult(), unions)
    return _with_tables(attempts, sides, context.trees.get(sides.source), tables)


def _losing_logs(context: Context, sides: ThreeWayTrees, resolution: Resolution) -> set[bytes]:
    if not (sides.logs_grow and resolution.unite_tables):
        return set()
    return logs_losing_keys(context, sides.base, sides.source)


def _without_conflict(
    context: Context, sides: ThreeWayTrees, outcome: PlanResult, unions: Iterable[Settled | Refused]
) -> list[Settled]:
    """Return the unions. Raises MergeConflictError for those of a merge, and for conflicts."""
    result = list[Settled]()
    refused = list[Refused]()
    for each in unions:
        refused.append(each) if isinstance(each, Refused) else result.append(each)
    if outcome.left_count or refused:
        raise _conflict_error(context, sides, outcome, refused)
    return result


def refused_conflicts(unions: Iterable[TableUnion]) -> Iterator[tuple[Conflict, str]]:
    for each in unions:
        if isinstance(each, Refused):
            for conflict in each.conflicts:
                yield conflict, each.message


def _subjects(
    sides: Sequence[ThreeWayRow], count: int, refused: Sequence[Refused]
) -> Iterator[str]:
    """Yield the number and first names of conflicting tables, and of other objects."""
    if refused:
        names = [each.table.name for each in refused[:3]]
        yield _named("conflicting table", len(refused), names)
    if count:
        yield _named("conflicting object", count, [each.path for each in sides[:3]])


def _named(noun: str, count: int, names: Sequence[str]) -> str:
    listed = ", ".join(map(repr, names))
    return f"{count_of(count, noun)} ({listed}{', ...' if count > len(names) else ''})"


def _conflict_error(
    context: Context, sides: ThreeWayTrees, outcome: PlanResult, unions: Sequence[Refused]
) -> errors.MergeConflictError:
    refused = [each for each in unions if each.table.kind]
    folders = [each for each in unions if not each.table.kind]
    tables = [*refused_conflicts(unions)]
    rows = conflict_rows(context, sides, [*((each, None) for each in outcome.conflicts), *tables])
    total = outcome.left_count + len(tables)
    logs = {each.key for each, _ in refused_conflicts(refused)}
    others = [each for each in rows if each.path.encode() not in logs]
    subjects = " and ".join(_subjects(others, total - len(logs), refused))
    by_rows = next((each.table.name for each in refused if each.may_merge_rows), None)
    rule = "" if by_rows is None else f", or merge its rows by key: --rule '{by_rows}/=rows(KEY)'"
    reasons = [each.message for each in (*refused[:3], *folders[:3])]
    why = "".join(f". {each}" for each in reasons)
    hint = (
        "Change one side, or choose a strategy, such as source-wins or dest-wins, for "
        f"all paths or by rules{rule}"
        if outcome.left_count or any(each.may_be_taken for each in refused)
        else "Change one side, for example with `restore` of the table from the other branch"
    )
    # The reason of a schema, or of rows, says what to do.
    is_open = outcome.left_count or any(each.row_counts is None for each in refused)
    hints = f". {hint}" if is_open else ""
    return errors.MergeConflictError(
        f"{subjects}{why}{hints}",
        rows,
        total,
        row_overlaps(context, sides.dest, refused),
        _conflicting_rows(unions),
    )


def _conflicting_rows(refused: Sequence[Refused]) -> DataFrame | None:
    each_rows = ((each.table.name, each.conflicting_rows) for each in refused)
    tables = [(name, rows) for name, rows in each_rows if rows is not None]
    if not tables:
        return None
    # Lazy import: it loads Spark.
    from sparklake.frames.tables.row_merge import of_tables

    return of_tables(tables)


CONFLICTS_WITH_COMMITS = 100
"""The number of conflicts of a verb whose commits are looked up."""

_LIMITS = WalkLimits(commits=20_000, trees=200)
"""The limits of the search on each side, for all conflicts together."""


def conflict_rows(
    context: Context, sides: ThreeWayTrees, conflicts: Iterable[tuple[Conflict, str | None]]
) -> list[ThreeWayRow]:
    """Return the first conflicts in key order as rows, some with their commits."""
    first = sorted(conflicts, key=lambda each: each[0].key)[:MAX_CONFLICTS_REPORTED]
    rows = [conflict_row(*each) for each in first]
    detailed = [conflict for conflict, _ in first[:CONFLICTS_WITH_COMMITS]]
    source = _commits(context, sides.source_head, [(each.key, each.source) for each in detailed])
    dest = _commits(context, sides.dest_head, [(each.key, each.dest) for each in detailed])
    for at, commits in enumerate(zip(source, dest, strict=True)):
        rows[at] = replace(rows[at], source_commit=commits[0], dest_commit=commits[1])
    return rows


def _commits(
    context: Context, head: CommitId | None, values: Sequence[tuple[bytes, bytes | None]]
) -> Sequence[Commit | None]:
    if head is None:
        return [None] * len(values)
    record_ids = [(key, stored_record_id(stored)) for key, stored in values]
    return last_changes(context, head, record_ids, _LIMITS)


class BaseTree(NamedTuple):
    id: MetaRangeId
    commits: tuple[CommitId, ...]


@dataclass(slots=True)
class BaseTrees:
    """A verb's base trees. The virtual base of a criss-cross merge is written only once."""

    context: Context
    _made: dict[tuple[CommitId, ...], MetaRangeId] = field(default_factory=dict)

    def get(self, source: Commit, dest: Commit) -> BaseTree:
        """Return the base tree of a merge. A criss-cross merge writes an unreferenced one."""
        bases = best_common_ancestors(self.context, source, dest)
        ids = tuple(each.id for each in bases)
        if len(bases) == 1:
            return BaseTree(bases[0].meta_range_id, ids)
        if ids not in self._made:
            self._made[ids] = _virtual_tree(self.context, ids)
        return BaseTree(self._made[ids], ids)

    def tree(self, source: Commit, dest: Commit) -> MetaRange:
        """Return the base metarange of a merge; a collected one raises ExpiredError."""
        tree_id, commits = self.get(source, dest)
        with naming_collected(self.context, commits):
            return self.context.trees.get(tree_id)


def _virtual_tree(context: Context, bases: tuple[CommitId, ...]) -> MetaRangeId:
    check_namespace(context.store)
    walk = Walk(context.graph)

    def tree(commit_id: CommitId) -> MetaRangeId:
        return context.tree(walk.commit(commit_id)).id

    def merge(
        name: CommitId, base: MetaRangeId, source: MetaRangeId, dest: MetaRangeId
    ) -> MetaRangeId:
        if source in (base, dest):
            return dest
        if dest == base:
            return source
        sides = ThreeWayTrees(base, source, dest)
        plan = plan_sides(context, sides)
        runner = context.runner(plan.records, "merge", "common ancestors")
        body = partial(virtual_merge_body, context.workspace, name)
        outcome = run_plan(runner, body, plan, progress=context.runners.progress)
        tree = finish(context.store, context.workspace, outcome.pieces)
        # Without a state of these folders, a merge could drop the files of both sides.
        folders = replaced_folders(context, sides, [b""])
        keys = {row[0] for each in folders for row in files_in(context, sides, each)}
        records = [(key, disagreement(key, name)) for key in sorted(keys)]
        return with_records(context, "common ancestors", tree, records).id

    virtual = VirtualBases(walk.parents, walk.generation, tree, merge, EMPTY_META_RANGE)
    return virtual.of(bases)
