"""Stage many objects at once, from rows that describe them: path, size, address and so on."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.report import Document
from sparklake.session import spark_session
from sparklake.uri import ref_uri


def stage(lake: Lake, arguments: Namespace) -> Document:
    """Stages the rows of a table that Spark can read."""
    target = ref_uri(arguments.branch)
    branch = lake.repository(target.repository).branch(target.ref)
    branch.stage(spark_session().read.format(arguments.format).load(arguments.rows))
    return {"name": branch.name, "commit_id": branch.head.id, "dirty": branch.is_dirty}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the job; returns its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("branch", metavar="lakefs://REPO/BRANCH")
    parser.add_argument("rows", metavar="URI", help="a file or directory of rows, for Spark")
    parser.add_argument("--format", default="parquet", help="how Spark reads them (parquet)")
    return run(parser, stage, argv)


if __name__ == "__main__":
    sys.exit(main())
