"""List the repositories of the lake."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence

from sparklake.documents import Document, repository_document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake


def list_repositories(lake: Lake, arguments: Namespace) -> Iterable[Document]:
    """List repositories."""
    return (repository_document(each.info) for each in lake.repositories())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    return run(parser, list_repositories, argv)


if __name__ == "__main__":
    sys.exit(main())
