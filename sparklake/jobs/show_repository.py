"""Show a repository, and what is set of it."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document, repository_document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import repository_uri


def show_repository(lake: Lake, arguments: Namespace) -> Document:
    """Show a repository."""
    return repository_document(lake.repository(repository_uri(arguments.repository)).info)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("repository", metavar="lakefs://REPO")
    return run(parser, show_repository, argv)


if __name__ == "__main__":
    sys.exit(main())
