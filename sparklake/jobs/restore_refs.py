"""Make a repository out of the dump in a storage namespace, all of it verified."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document, repository_document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import repository_uri


def restore_refs(lake: Lake, arguments: Namespace) -> Document:
    """Restore refs."""
    name = repository_uri(arguments.repository)
    made = lake.restore_repository(
        name, arguments.storage_namespace, arguments.default_branch, arguments.range_records
    )
    return repository_document(made.info)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("repository", metavar="lakefs://REPO")
    parser.add_argument("storage_namespace", metavar="STORAGE_NAMESPACE")
    parser.add_argument("--default-branch", help="where a dump of lakeFS has no main")
    parser.add_argument("--range-records", type=int, help="where lakeFS dumped")
    return run(parser, restore_refs, argv)


if __name__ == "__main__":
    sys.exit(main())
