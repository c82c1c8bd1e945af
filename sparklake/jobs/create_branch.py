"""Create a branch at any ref."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.arguments import duration
from sparklake.documents import Document, branch_document
from sparklake.jobs.job import job_parser, refs_at, run
from sparklake.lake import Lake


def create_branch(lake: Lake, arguments: Namespace) -> Document:
    """Create a branch."""
    repository, branch, source = refs_at(lake, arguments.branch, arguments.source)
    lifetime = duration(arguments.expires)
    made = repository.create_branch(branch, source, arguments.hidden, lifetime)
    return branch_document(made.state)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("branch", metavar="lakefs://REPO/NAME")
    parser.add_argument("--source", metavar="lakefs://REPO/REF", required=True)
    parser.add_argument("--hidden", action="store_true", help="leave it out of listings")
    parser.add_argument("--expires", metavar="7d", help="how long it lives: 30m, 12h, 7d or 2w")
    return run(parser, create_branch, argv)


if __name__ == "__main__":
    sys.exit(main())
