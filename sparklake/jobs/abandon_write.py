"""Let an open write of a table stage nothing, ever, whether its driver is dead or not."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document, write_document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import repository_uri


def abandon_write(lake: Lake, arguments: Namespace) -> Document:
    """Abandon a write."""
    repository = lake.repository(repository_uri(arguments.repository))
    return write_document(repository.abandon_write(arguments.write))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("repository", metavar="lakefs://REPO")
    parser.add_argument("write", metavar="WRITE")
    return run(parser, abandon_write, argv)


if __name__ == "__main__":
    sys.exit(main())
