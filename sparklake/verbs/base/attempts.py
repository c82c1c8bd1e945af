"""Repeated attempts of a verb to write a tree while the branch moves."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from sparklake.engine.base import Body
from sparklake.engine.execution import PlanResult, finish, run_plan
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.planning.change_summary import KnownKeys
from sparklake.graveler.planning.plan import Plan
from sparklake.graveler.planning.resume import ExecutedPlan, reusing
from sparklake.graveler.ranges import MetaRange
from sparklake.rows.merges import AddedFiles
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.read import have_equal_records

_T = TypeVar("_T")

_MAX_PIECES = 10_000
"""The maximum number of pieces of a plan that are searched for changes."""


@dataclass(slots=True)
class Attempts:
    """Results of a verb's attempts: later attempts only read changed ranges."""

    context: Context
    title: str
    layered: bool = False
    logs: set[bytes] = field(default_factory=set)
    """The folders of Delta logs seen by any attempt: reused pieces do not report theirs."""
    added: AddedFiles = field(default_factory=AddedFiles)
    """Samples of added Parquet files of all attempts, likewise."""
    tables: set[bytes] = field(default_factory=set)
    """The tables with data files that one side alone added or changed, likewise."""
    _results: dict[Hashable, Any] = field(default_factory=dict)
    _made: ExecutedPlan | None = None
    _ran: Plan = field(default_factory=lambda: Plan(()))

    @property
    def has_lost(self) -> bool:
        """Whether an attempt lost. Later results do not count the changes reused from it."""
        return self._made is not None

    def run(self, body: Body, plan: Plan) -> PlanResult:
        rest = reusing(plan, self._made, layered=self.layered) if self._made else plan
        self._ran = rest
        runners = self.context.runners
        runner = runners.choose(rest.records, self.title)
        return run_plan(runner, body, rest, progress=runners.progress)

    def finish(self, plan: Plan, outcome: PlanResult, over: MetaRangeId) -> MetaRange:
        """Write the tree of an executed plan durably, unless it equals the base."""
        tree = finish(self.context.store, self.context.workspace, outcome.pieces)
        reuses = self.has_lost
        self._made = ExecutedPlan(plan, tree.ranges)
        self.context.trees.keep(tree)
        if outcome.changed.keys is not None and len(self._ran.pieces) <= _MAX_PIECES:
            # What was taken over from an earlier attempt is no part of it.
            within = [piece.interval for piece in self._ran.stretches]
            known_keys = KnownKeys(frozenset(outcome.changed.keys), within)
            self.context.trees.keep_known(over, tree.id, known_keys)
        keys = outcome.changed.keys
        is_changed = reuses or keys is None or keys or outcome.counts.total
        if not is_changed and have_equal_records(self.context, over, tree.id, self.title):
            return self.context.trees.get(over)
        return tree

    def once(self, identity: Hashable, run: Callable[[], _T]) -> _T:
        """Return the result of an earlier attempt, or run. `identity` determines the result."""
        if identity not in self._results:
            self._results[identity] = run()
        return cast("_T", self._results[identity])

    def forget(self) -> None:
        """Drop incomplete results: the next attempt starts from scratch."""
        self._made = None
