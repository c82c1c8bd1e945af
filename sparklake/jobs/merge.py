"""Merge a ref into a branch; conflicts are listed, and then nothing is written."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.arguments import labels
from sparklake.graveler.classification import Strategy
from sparklake.jobs.job import commit_parser, run
from sparklake.lake import Lake
from sparklake.report import Document, commit_document
from sparklake.uri import ref_uri, same_repository


def merge(lake: Lake, arguments: Namespace) -> Document:
    """Merges source into dest."""
    source, dest = ref_uri(arguments.source), ref_uri(arguments.dest)
    made = lake.repository(same_repository(source, dest)).merge(
        source.ref,
        dest.ref,
        arguments.strategy,
        arguments.message,
        arguments.committer,
        labels(arguments.meta),
    )
    return commit_document(made)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the job; returns its exit code."""
    parser = commit_parser(__doc__)
    parser.add_argument("source", metavar="lakefs://REPO/SOURCE")
    parser.add_argument("dest", metavar="lakefs://REPO/DEST")
    parser.add_argument("--strategy", choices=[each.value for each in Strategy])
    return run(parser, merge, argv)


if __name__ == "__main__":
    sys.exit(main())
