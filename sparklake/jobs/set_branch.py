"""Set when a branch expires, or that it never does."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.arguments import duration
from sparklake.documents import Document, branch_document
from sparklake.errors import InvalidInputError
from sparklake.jobs.job import branch_at, job_parser, run
from sparklake.lake import Lake


def set_branch(lake: Lake, arguments: Namespace) -> Document:
    """Set an expiry."""
    lifetime = duration(arguments.expires)
    if arguments.never is (lifetime is not None):
        raise InvalidInputError("say either --expires, such as 7d, or --never")
    return branch_document(branch_at(lake, arguments.branch).set_expiry(lifetime))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("branch", metavar="lakefs://REPO/NAME")
    parser.add_argument("--expires", metavar="7d", help="from now: 30m, 12h, 7d or 2w")
    parser.add_argument("--never", action="store_true")
    return run(parser, set_branch, argv)


if __name__ == "__main__":
    sys.exit(main())
