"""Show a commit, and how many objects differ from its first parent's."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document, summary_document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import ref_uri


def show(lake: Lake, arguments: Namespace) -> Document:
    """Compare a commit with its first parent."""
    target = ref_uri(arguments.ref)
    return summary_document(lake.repository(target.repository).show(target.ref))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("ref", metavar="lakefs://REPO/REF")
    return run(parser, show, argv)


if __name__ == "__main__":
    sys.exit(main())
