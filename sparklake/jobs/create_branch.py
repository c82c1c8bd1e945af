"""Create a branch at any ref."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.jobs.job import job_parser, refs_at, run
from sparklake.lake import Lake
from sparklake.report import Document, branch_document


def create_branch(lake: Lake, arguments: Namespace) -> Document:
    """Creates a branch."""
    repository, branch, source = refs_at(lake, arguments.branch, arguments.source)
    return branch_document(repository.create_branch(branch, source).state)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the job; returns its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("branch", metavar="lakefs://REPO/NAME")
    parser.add_argument("--source", metavar="lakefs://REPO/REF", required=True)
    return run(parser, create_branch, argv)


if __name__ == "__main__":
    sys.exit(main())
