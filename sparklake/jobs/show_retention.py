"""Show for how long garbage collections keep commits."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document, retention_document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import repository_uri


def show_retention(lake: Lake, arguments: Namespace) -> Document:
    """Show all rules."""
    repository = lake.repository(repository_uri(arguments.repository))
    return retention_document(repository.settings.retention)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("repository", metavar="lakefs://REPO")
    return run(parser, show_retention, argv)


if __name__ == "__main__":
    sys.exit(main())
