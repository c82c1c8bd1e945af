"""List the rules by which branches are protected."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence

from sparklake.documents import Document, rule_document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import repository_uri


def list_protections(lake: Lake, arguments: Namespace) -> Iterable[Document]:
    """List rules."""
    repository = lake.repository(repository_uri(arguments.repository))
    return map(rule_document, repository.settings.protection)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("repository", metavar="lakefs://REPO")
    return run(parser, list_protections, argv)


if __name__ == "__main__":
    sys.exit(main())
