"""List the purges of a repository, newest first."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document, purge_document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import repository_uri


def list_purges(lake: Lake, arguments: Namespace) -> list[Document]:
    """List purges."""
    repository = lake.repository(repository_uri(arguments.repository))
    return [purge_document(each, repository.receipt(each.id)) for each in repository.purges()]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("repository", metavar="lakefs://REPO")
    return run(parser, list_purges, argv)


if __name__ == "__main__":
    sys.exit(main())
