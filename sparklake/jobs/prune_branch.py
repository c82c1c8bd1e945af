"""Delete the branches that have expired, but for the default one and protected ones."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence

from sparklake.documents import Document, branch_document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import repository_uri


def prune_branch(lake: Lake, arguments: Namespace) -> Iterable[Document]:
    """Prune branches."""
    repository = lake.repository(repository_uri(arguments.repository))
    return map(branch_document, repository.prune_branches(arguments.dry_run))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("repository", metavar="lakefs://REPO")
    parser.add_argument("--dry-run", action="store_true", help="only tell which ones")
    return run(parser, prune_branch, argv)


if __name__ == "__main__":
    sys.exit(main())
