"""Tell for each object under a prefix the commit in which it became what it is."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence

from sparklake.documents import Document, blame_document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import prefix_uri


def blame(lake: Lake, arguments: Namespace) -> Iterable[Document]:
    """List objects with their commits as they come."""
    place = prefix_uri(arguments.prefix)
    return map(blame_document, lake.repository(place.repository).blame(place.ref, place.key))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("prefix", metavar="lakefs://REPO/REF/[PREFIX]")
    return run(parser, blame, argv)


if __name__ == "__main__":
    sys.exit(main())
