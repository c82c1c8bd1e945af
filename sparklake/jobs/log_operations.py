"""Show who has moved which branch or tag, when, how and where; the latest first."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence

from sparklake.documents import Document, operation_document
from sparklake.jobs.job import job_parser, positive, run
from sparklake.lake import Lake
from sparklake.uri import refs_uri


def log_operations(lake: Lake, arguments: Namespace) -> Iterable[Document]:
    """List moves."""
    repository, ref = refs_uri(arguments.refs)
    found = lake.repository(repository).operations(arguments.amount, ref)
    return map(operation_document, found)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("refs", metavar="lakefs://REPO[/REF]")
    parser.add_argument("--amount", type=positive, default=100, help="at most so many")
    return run(parser, log_operations, argv)


if __name__ == "__main__":
    sys.exit(main())
