"""Commit what is staged on a branch."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.arguments import labels
from sparklake.jobs.job import commit_parser, run
from sparklake.lake import Lake
from sparklake.report import Document, commit_document
from sparklake.uri import ref_uri


def commit(lake: Lake, arguments: Namespace) -> Document:
    """Commits a branch."""
    target = ref_uri(arguments.branch)
    branch = lake.repository(target.repository).branch(target.ref)
    made = branch.commit(
        arguments.message or "",
        arguments.committer,
        labels(arguments.meta),
        arguments.allow_empty,
    )
    return commit_document(made)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the job; returns its exit code."""
    parser = commit_parser(__doc__)
    parser.add_argument("branch", metavar="lakefs://REPO/BRANCH")
    parser.add_argument("--allow-empty", action="store_true", help="even where nothing is staged")
    return run(parser, commit, argv)


if __name__ == "__main__":
    sys.exit(main())
