"""Move a branch to any ref, without a commit."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document, branch_document
from sparklake.jobs.job import job_parser, refs_at, run
from sparklake.lake import Lake


def hard_reset(lake: Lake, arguments: Namespace) -> Document:
    """Move a branch."""
    repository, name, ref = refs_at(lake, arguments.branch, arguments.ref)
    wanted = arguments.expect
    expected = None if wanted is None else refs_at(lake, arguments.branch, wanted)[2]
    branch = repository.branch(name)
    branch.hard_reset(ref, expected, arguments.force)
    return branch_document(branch.state)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("branch", metavar="lakefs://REPO/BRANCH")
    parser.add_argument("ref", metavar="lakefs://REPO/REF")
    parser.add_argument("--expect", metavar="lakefs://REPO/REF", help="where it must be now")
    parser.add_argument("--force", action="store_true", help="drop what is staged on it")
    return run(parser, hard_reset, argv)


if __name__ == "__main__":
    sys.exit(main())
