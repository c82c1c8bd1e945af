"""The tree of a three-way merge: what merge, revert and cherry-pick have in common."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from sparklake.engine.execution import Outcome
from sparklake.errors import MergeConflictError
from sparklake.graveler.chosen import ALL, Choice
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.partial import plan_chosen_merge
from sparklake.graveler.planning import Plan
from sparklake.udfs.reading import DiffRow, diff_row
from sparklake.udfs.strategies.resolution import Resolution
from sparklake.udfs.writing import merge_body
from sparklake.verbs.attempts import Attempts
from sparklake.verbs.context import Context
from sparklake.verbs.keeping import with_kept


@dataclass(frozen=True, slots=True)
class Sides:
    """Is the three trees of a merge, which leaves all but the chosen keys as they are in dest."""

    base: MetaRangeId
    source: MetaRangeId
    dest: MetaRangeId
    choice: Choice = ALL


def plan_sides(context: Context, sides: Sides) -> Plan:
    """Returns the plan of a merge."""
    trees = (context.trees.get(each) for each in (sides.base, sides.source, sides.dest))
    base, source, dest = (each.ranges for each in trees)
    return plan_chosen_merge(base, source, dest, sides.choice)


def merged_tree(attempts: Attempts, sides: Sides, resolution: Resolution) -> MetaRangeId:
    """Writes the tree of a merge.

    Raises MergeConflictError where conflicts are left, and StrategyError; then nothing has moved.
    Where one side is the base's, the other one is the tree, and nothing is read.
    """
    if sides.source in (sides.base, sides.dest):
        return sides.dest
    if not sides.choice.is_everything:
        # What an attempt made of a part of some ranges is no sign of what the rest makes.
        attempts = Attempts(attempts.context, attempts.title)
    elif sides.dest == sides.base:
        return sides.source
    context = attempts.context
    plan = plan_sides(context, sides)
    body = partial(merge_body, context.workspace, resolution, choice=sides.choice)
    outcome = attempts.run(body, plan)
    if outcome.left_count:
        raise _conflict_error(outcome)
    tree = attempts.finish(plan, outcome, sides.dest)
    if outcome.kept:
        # Another attempt must hear again what is to be kept.
        attempts.forget()
        tree = context.trees.keep(with_kept(context, attempts.title, tree, outcome.kept))
    return tree.id


def _conflict_error(outcome: Outcome) -> MergeConflictError:
    rows: list[DiffRow] = [diff_row(conflict) for conflict in outcome.conflicts]
    some = ", ".join(repr(row.path) for row in rows[:3])
    count = "1 object was" if outcome.left_count == 1 else f"{outcome.left_count:,} objects were"
    return MergeConflictError(
        f"{count} changed on both sides: {some}"
        f"{', ...' if outcome.left_count > 3 else ''}; nothing has changed. "
        "Change one side, or choose a strategy: source-wins or dest-wins, for all or by rules",
        rows,
        outcome.left_count,
    )
