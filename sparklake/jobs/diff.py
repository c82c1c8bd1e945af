"""Count what differs from LEFT to RIGHT, or what is staged on a branch; write it as a table."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.errors import InvalidInputError
from sparklake.jobs.job import explain_option, job_parser, refs_at, run
from sparklake.lake import Lake
from sparklake.report import Document, explanation_document
from sparklake.session import described


def diff(lake: Lake, arguments: Namespace) -> Document:
    """Counts differences by type, as Spark computes them."""
    repository, left, right = refs_at(lake, arguments.left, arguments.right or arguments.left)
    if arguments.right is None:
        if arguments.three_way:
            raise InvalidInputError("--three-way compares two refs: name the second one, too")
        rows = repository.diff_uncommitted(left, arguments.prefix)
    else:
        rows = repository.diff(left, right, arguments.prefix, arguments.three_way)
    if arguments.explain:
        return explanation_document(rows.explain())
    changes = rows.to_df()
    with described(changes.sparkSession, rows.title):
        if arguments.to:
            changes.write.parquet(arguments.to)
            changes = changes.sparkSession.read.parquet(arguments.to)
        counts = {row["type"]: row["count"] for row in changes.groupBy("type").count().collect()}
    return {kind: counts.get(kind, 0) for kind in ("added", "removed", "changed", "conflict")}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the job; returns its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("left", metavar="lakefs://REPO/LEFT")
    parser.add_argument("right", metavar="lakefs://REPO/RIGHT", nargs="?")
    parser.add_argument("--to", metavar="URI", help="where the rows go, as Parquet")
    parser.add_argument("--prefix", default="", help="only keys that begin so")
    parser.add_argument("--three-way", action="store_true", help="as a merge of RIGHT would")
    explain_option(parser)
    return run(parser, diff, argv)


if __name__ == "__main__":
    sys.exit(main())
