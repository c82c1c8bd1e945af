"""Merge a ref into a branch; conflicts are listed, and then nothing is written."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.jobs.job import (
    commit_parser,
    deciding,
    deciding_options,
    explain_option,
    refs_at,
    run,
    signing,
)
from sparklake.lake import Lake
from sparklake.report import Document, commit_document, explanation_document


def merge(lake: Lake, arguments: Namespace) -> Document:
    """Merges source into dest."""
    repository, source, dest = refs_at(lake, arguments.source, arguments.dest)
    if arguments.explain:
        return explanation_document(repository.plan_merge(source, dest))
    options = {**deciding(arguments), **signing(arguments)}
    return commit_document(repository.merge(source, dest, **options))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the job; returns its exit code."""
    parser = commit_parser(__doc__)
    parser.add_argument("source", metavar="lakefs://REPO/SOURCE")
    parser.add_argument("dest", metavar="lakefs://REPO/DEST")
    deciding_options(parser)
    explain_option(parser)
    return run(parser, merge, argv)


if __name__ == "__main__":
    sys.exit(main())
