"""Base trees of merges: the best common ancestor, or a virtual merge."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from sparklake.engine.execution import finish, run_plan
from sparklake.graveler.commits import Commit
from sparklake.graveler.graph.virtual_base import VirtualBases
from sparklake.graveler.ids import EMPTY_META_RANGE, CommitId, MetaRangeId
from sparklake.graveler.ranges import MetaRange
from sparklake.udfs.write_ranges import virtual_merge_body
from sparklake.verbs.base.commit_graph import Walk
from sparklake.verbs.base.context import Context, naming_collected
from sparklake.verbs.base.merge_bases import ThreeWayTrees, best_common_ancestors
from sparklake.verbs.base.namespace import check_namespace
from sparklake.verbs.merges.three_way import plan_sides


class BaseTree(NamedTuple):
    id: MetaRangeId
    commits: tuple[CommitId, ...]


@dataclass(slots=True)
class BaseTrees:
    """A verb's base trees. The tree of a criss-cross is written only once."""

    context: Context
    _made: dict[tuple[CommitId, ...], MetaRangeId] = field(default_factory=dict)

    def get(self, source: Commit, dest: Commit) -> BaseTree:
        """Return the base tree of a merge. Raises RefNotFoundError.

        For several best common ancestors, an unreferenced tree is written.
        """
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
        plan = plan_sides(context, ThreeWayTrees(base, source, dest))
        runner = context.runner(plan.records, "merge", "common ancestors")
        body = partial(virtual_merge_body, context.workspace, name)
        outcome = run_plan(runner, body, plan, progress=context.runners.progress)
        return finish(context.store, context.workspace, outcome.pieces).id

    made = VirtualBases(walk.parents, walk.generation, tree, merge, EMPTY_META_RANGE)
    return made.of(bases)
