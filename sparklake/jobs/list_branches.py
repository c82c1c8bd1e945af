"""List the branches of a repository."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence

from sparklake.documents import Document, branch_document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import repository_uri


def list_branches(lake: Lake, arguments: Namespace) -> Iterable[Document]:
    """List branches."""
    repository = lake.repository(repository_uri(arguments.repository))
    return map(branch_document, repository.branch_states(hidden=arguments.all))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("repository", metavar="lakefs://REPO")
    parser.add_argument("--all", action="store_true", help="the hidden ones, too")
    return run(parser, list_branches, argv)


if __name__ == "__main__":
    sys.exit(main())
