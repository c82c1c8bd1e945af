"""Remove rules by which branches are protected, all of them or none."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence

from sparklake.documents import Document, rule_document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import repository_uri


def remove_protection(lake: Lake, arguments: Namespace) -> Iterable[Document]:
    """Remove rules."""
    settings = lake.repository(repository_uri(arguments.repository)).settings
    settings.unprotect(*arguments.patterns)
    return map(rule_document, settings.protection)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("repository", metavar="lakefs://REPO")
    parser.add_argument("patterns", metavar="PATTERN", nargs="+")
    return run(parser, remove_protection, argv)


if __name__ == "__main__":
    sys.exit(main())
