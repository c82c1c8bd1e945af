"""Show the best common ancestor of two refs, or all of them."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence

from sparklake.documents import Document, commit_document
from sparklake.jobs.job import job_parser, refs_at, run
from sparklake.lake import Lake


def merge_base(lake: Lake, arguments: Namespace) -> Document | Iterable[Document]:
    """Find a common ancestor, or a list of them."""
    repository, left, right = refs_at(lake, arguments.left, arguments.right)
    if arguments.all:
        return map(commit_document, repository.merge_bases(left, right))
    return commit_document(repository.merge_base(left, right))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("left", metavar="lakefs://REPO/A")
    parser.add_argument("right", metavar="lakefs://REPO/B")
    parser.add_argument("--all", action="store_true", help="a list of all that are best")
    return run(parser, merge_base, argv)


if __name__ == "__main__":
    sys.exit(main())
