"""Drop what is staged on a branch, or a part of it."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document
from sparklake.jobs.job import branch_at, job_parser, run
from sparklake.lake import Lake


def reset(lake: Lake, arguments: Namespace) -> Document:
    """Reset a branch."""
    branch = branch_at(lake, arguments.branch)
    branch.reset(arguments.prefix, arguments.object)
    return {"name": branch.name, "dirty": branch.is_dirty}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("branch", metavar="lakefs://REPO/BRANCH")
    parser.add_argument("--prefix", help="only of keys that begin so")
    parser.add_argument("--object", metavar="KEY", help="only of this key")
    return run(parser, reset, argv)


if __name__ == "__main__":
    sys.exit(main())
