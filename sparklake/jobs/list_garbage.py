"""List all that a garbage collection has found."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence

from sparklake.documents import Document, object_document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import repository_uri


def list_garbage(lake: Lake, arguments: Namespace) -> Iterable[Document]:
    """List objects as they come."""
    repository = lake.repository(repository_uri(arguments.repository))
    return map(object_document, repository.garbage(arguments.run_id))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("repository", metavar="lakefs://REPO")
    parser.add_argument("run_id", metavar="RUN")
    return run(parser, list_garbage, argv)


if __name__ == "__main__":
    sys.exit(main())
