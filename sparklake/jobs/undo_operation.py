"""Move a branch back to before its latest move; done twice, it makes the move again."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document, branch_document
from sparklake.jobs.job import branch_at, job_parser, run
from sparklake.lake import Lake


def undo_operation(lake: Lake, arguments: Namespace) -> Document:
    """Undo a move."""
    branch = branch_at(lake, arguments.branch)
    branch.undo()
    return branch_document(branch.state)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("branch", metavar="lakefs://REPO/BRANCH")
    return run(parser, undo_operation, argv)


if __name__ == "__main__":
    sys.exit(main())
