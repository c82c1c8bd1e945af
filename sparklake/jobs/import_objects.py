"""Commit the objects of a directory or bucket prefix where they lie, copying nothing."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.jobs.job import commit_parser, run, signing
from sparklake.lake import Lake
from sparklake.report import Document, commit_document
from sparklake.uri import prefix_uri


def import_objects(lake: Lake, arguments: Namespace) -> Document:
    """Imports objects under a prefix of a branch."""
    target = prefix_uri(arguments.target)
    branch = lake.repository(target.repository).branch(target.ref)
    made = branch.import_objects(arguments.source, target.key, **signing(arguments))
    return commit_document(made)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the job; returns its exit code."""
    parser = commit_parser(__doc__)
    parser.add_argument("target", metavar="lakefs://REPO/BRANCH/[PREFIX]")
    parser.add_argument("--from", dest="source", metavar="URI_OR_DIR", required=True)
    return run(parser, import_objects, argv)


if __name__ == "__main__":
    sys.exit(main())
