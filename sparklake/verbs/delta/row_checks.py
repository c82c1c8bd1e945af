"""Checks of new rows against constraints that the other side added."""

from __future__ import annotations

from collections.abc import Sequence

from sparklake.errors import MissingDependencyError
from sparklake.frames.tables.spark_sources import check_delta, load_delta, missing_files
from sparklake.graveler.ids import MetaRangeId
from sparklake.metadata.delta.union.log_sides import LogSide, RowClaim
from sparklake.metadata.delta.union.schemas import CONSTRAINT
from sparklake.metadata.union.conflicts import UnmergeableTableError
from sparklake.session import job_description
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import DEST, SIDE_NAMES, SOURCE
from sparklake.verbs.delta.files_view import TableTree
from sparklake.visible import count_of

_SHOWN = 3


def find_violation(
    context: Context, trees: Sequence[MetaRangeId], folder: str, claims: Sequence[RowClaim]
) -> UnmergeableTableError | None:
    """Evaluate constraints on the files of the claims with Spark.

    `trees` are those of base, source and dest, `folder` is the table's.
    """
    try:
        spark = context.runners.session()
        check_delta(spark)
    except MissingDependencyError as error:
        first = claims[0]
        return UnmergeableTableError(
            f"{first.changer} added a constraint, and only Spark can check it on the rows that the "
            f"other side wrote ({error}). Merge with Spark, or add it on both sides, and merge "
            "again",
            [_described(*each) for each in first.constraints.items()],
        )
    title = context.title("merge", f"constraints of {folder.rstrip('/')}")
    with job_description(spark, title), missing_files():
        problems = (_problem(context, trees, folder, each) for each in claims)
        return next(filter(None, problems), None)


def _problem(
    context: Context, trees: Sequence[MetaRangeId], folder: str, claim: RowClaim
) -> UnmergeableTableError | None:
    # Lazy imports: they load Spark.
    from sparklake.frames.tables.row_values import json_rows, violations

    at = SOURCE if claim.changer == SIDE_NAMES[DEST] else DEST
    holder, tree = SIDE_NAMES[at], context.trees.get(trees[at - len(SIDE_NAMES)])
    merged = LogSide((), claim.metadata, claim.protocol)
    files = claim.side.find_adds(claim.paths).values()
    view = TableTree(context, holder, tree, folder).view(merged, files)
    assert view is not None
    rows = load_delta(context.runners.session(), view.uri, {})
    for name, text in claim.constraints.items():
        failing = violations(rows, text)
        count = failing.count()
        if count:
            shown = ", ".join(str(dict(each)) for each in json_rows(failing, _SHOWN))
            return UnmergeableTableError(
                f"{count_of(count, 'row')} of {holder} violate a constraint that {claim.changer} "
                f"added. Change or delete them in {holder}, or drop the constraint, and merge "
                f"again: {_described(name, text)} by {shown}"
            )
    return None


def _described(name: str, text: str) -> str:
    return f"{name.removeprefix(CONSTRAINT)} ({text})"
