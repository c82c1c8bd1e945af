"""Show the writes of tables that have not landed: open ones, and abandoned ones."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence

from sparklake.documents import Document, write_document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import repository_uri


def list_writes(lake: Lake, arguments: Namespace) -> Iterable[Document]:
    """List writes."""
    found = lake.repository(repository_uri(arguments.repository)).writes()
    return map(write_document, found)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("repository", metavar="lakefs://REPO")
    return run(parser, list_writes, argv)


if __name__ == "__main__":
    sys.exit(main())
