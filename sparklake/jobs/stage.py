"""Stage many objects at once, from rows that describe them: path, size, address and so on."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document, branch_document
from sparklake.jobs.job import branch_at, job_parser, run
from sparklake.lake import Lake
from sparklake.session import spark_session


def stage(lake: Lake, arguments: Namespace) -> Document:
    """Stage the rows of a table that Spark can read."""
    branch = branch_at(lake, arguments.branch)
    branch.stage(spark_session().read.format(arguments.format).load(arguments.rows))
    return branch_document(branch.state)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("branch", metavar="lakefs://REPO/BRANCH")
    parser.add_argument("rows", metavar="URI", help="a file or directory of rows, for Spark")
    parser.add_argument("--format", default="parquet", help="how Spark reads them (parquet)")
    return run(parser, stage, argv)


if __name__ == "__main__":
    sys.exit(main())
