"""Create a repository in an unused storage namespace."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.arguments import labels
from sparklake.documents import Document, repository_document
from sparklake.graveler.planning.split import DEFAULT_RANGE_RECORDS
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import repository_uri


def create_repository(lake: Lake, arguments: Namespace) -> Document:
    """Create a repository."""
    name = repository_uri(arguments.repository)
    made = lake.create_repository(
        name,
        arguments.storage_namespace,
        arguments.default_branch,
        arguments.range_records,
        arguments.read_only,
        labels(arguments.meta),
    )
    return repository_document(made.info)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("repository", metavar="lakefs://REPO")
    parser.add_argument("storage_namespace", metavar="STORAGE_NAMESPACE")
    parser.add_argument("--default-branch", default="main")
    parser.add_argument("--range-records", type=int, default=DEFAULT_RANGE_RECORDS)
    parser.add_argument("--read-only", action="store_true", help="let it refuse all changes")
    parser.add_argument("--meta", action="append", metavar="K=V", help="a label; repeatable")
    return run(parser, create_repository, argv)


if __name__ == "__main__":
    sys.exit(main())
