"""Stage what makes chosen paths of a branch what they are at any ref, removals included."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document, restored_document
from sparklake.jobs.job import job_parser, paths_option, refs_at, run
from sparklake.lake import Lake


def restore(lake: Lake, arguments: Namespace) -> Document:
    """Restore paths."""
    repository, branch, ref = refs_at(lake, arguments.branch, arguments.source)
    return restored_document(repository.branch(branch).restore(ref, arguments.path))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("branch", metavar="lakefs://REPO/BRANCH")
    parser.add_argument("--from", dest="source", metavar="lakefs://REPO/REF", required=True)
    paths_option(parser, required=True)
    return run(parser, restore, argv)


if __name__ == "__main__":
    sys.exit(main())
