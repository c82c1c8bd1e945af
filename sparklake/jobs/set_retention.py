"""Set for how long garbage collections keep commits."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.arguments import branch_days
from sparklake.documents import Document, retention_document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import repository_uri


def set_retention(lake: Lake, arguments: Namespace) -> Document:
    """Replace all rules."""
    settings = lake.repository(repository_uri(arguments.repository)).settings
    return retention_document(
        settings.set_retention(arguments.default, branch_days(arguments.branch))
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("repository", metavar="lakefs://REPO")
    parser.add_argument("--default", metavar="DAYS", type=int, required=True)
    parser.add_argument("--branch", metavar="PATTERN=DAYS", action="append", help="repeatable")
    return run(parser, set_retention, argv)


if __name__ == "__main__":
    sys.exit(main())
