"""The tree of a three-way merge: what merge, revert and cherry-pick have in common."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from sparklake.engine.execution import Outcome
from sparklake.errors import InvalidInputError, MergeConflictError
from sparklake.graveler.classification import Strategy
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.planning import Plan, plan_merge
from sparklake.udfs.reading import DiffRow, diff_row
from sparklake.udfs.writing import merge_body
from sparklake.verbs.attempts import Attempts
from sparklake.verbs.context import Context


@dataclass(frozen=True, slots=True)
class Sides:
    """Is the three trees of a merge."""

    base: MetaRangeId
    source: MetaRangeId
    dest: MetaRangeId


def plan_sides(context: Context, sides: Sides) -> Plan:
    """Returns the plan of a merge."""
    trees = (context.trees.get(each) for each in (sides.base, sides.source, sides.dest))
    return plan_merge(*(each.ranges for each in trees))


def merged_tree(attempts: Attempts, sides: Sides, strategy: Strategy | None) -> MetaRangeId:
    """Writes the tree of a merge; raises MergeConflictError, and then nothing was written.

    Where one side is the base's, the other one is the tree, and nothing is read.
    """
    if sides.source in (sides.base, sides.dest):
        return sides.dest
    if sides.dest == sides.base:
        return sides.source
    plan = plan_sides(attempts.context, sides)
    outcome = attempts.run(partial(merge_body, attempts.context.workspace, strategy), plan)
    if outcome.conflict_count and strategy is None:
        raise _conflict_error(outcome)
    return attempts.finish(plan, outcome, sides.dest).id


def _conflict_error(outcome: Outcome) -> MergeConflictError:
    rows: list[DiffRow] = [diff_row(conflict) for conflict in outcome.conflicts]
    some = ", ".join(repr(row.path) for row in rows[:3])
    return MergeConflictError(
        f"{outcome.conflict_count} objects were changed on both sides: {some}"
        f"{', ...' if outcome.conflict_count > 3 else ''}; nothing has changed. "
        "Change one side, or choose a strategy: source-wins or dest-wins",
        rows,
        outcome.conflict_count,
    )


def parse_strategy(strategy: Strategy | str | None) -> Strategy | None:
    """Returns a strategy by name; raises InvalidInputError."""
    if strategy is None:
        return None
    try:
        return Strategy(strategy)
    except ValueError as error:
        known = " or ".join(each.value for each in Strategy)
        raise InvalidInputError(f"{strategy!r} is no merge strategy: choose {known}") from error
