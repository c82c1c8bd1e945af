"""Protect branches by patterns of their names; merges into them go on."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence

from sparklake.documents import Document, rule_document
from sparklake.graveler.guards import ALL_ACTIONS, Action
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import repository_uri


def add_protection(lake: Lake, arguments: Namespace) -> Iterable[Document]:
    """Add rules."""
    settings = lake.repository(repository_uri(arguments.repository)).settings
    settings.protect(*arguments.patterns, block=arguments.block or ALL_ACTIONS)
    return map(rule_document, settings.protection)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("repository", metavar="lakefs://REPO")
    parser.add_argument("patterns", metavar="PATTERN", nargs="+")
    actions = [each.value for each in Action]
    parser.add_argument("--block", action="append", choices=actions, help="what; repeatable")
    return run(parser, add_protection, argv)


if __name__ == "__main__":
    sys.exit(main())
