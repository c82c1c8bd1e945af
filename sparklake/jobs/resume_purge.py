"""Carry on a purge that was not finished."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document, purge_document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import repository_uri


def resume_purge(lake: Lake, arguments: Namespace) -> Document:
    """Carry on a purge."""
    repository = lake.repository(repository_uri(arguments.repository))
    made = repository.resume_purge(arguments.purge)
    return purge_document(made, repository.receipt(made.id))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("repository", metavar="lakefs://REPO")
    parser.add_argument("purge", metavar="PURGE")
    return run(parser, resume_purge, argv)


if __name__ == "__main__":
    sys.exit(main())
