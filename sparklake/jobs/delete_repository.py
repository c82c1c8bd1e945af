"""Forget a repository and its history; its storage namespace stays as it is."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import repository_uri


def delete_repository(lake: Lake, arguments: Namespace) -> Document:
    """Delete a repository."""
    name = repository_uri(arguments.repository)
    namespace = lake.repository(name).info.storage_namespace
    lake.delete_repository(name, arguments.force)
    return {"name": name, "deleted": True, "storage_namespace": namespace}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("repository", metavar="lakefs://REPO")
    parser.add_argument("-y", "--yes", action="store_true", help="never asked by a job")
    parser.add_argument("--force", action="store_true", help="even if it is read-only")
    return run(parser, delete_repository, argv)


if __name__ == "__main__":
    sys.exit(main())
