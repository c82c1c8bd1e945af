"""Commit what is staged on a branch."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document, commit_document, explanation_document
from sparklake.jobs.job import branch_at, commit_parser, explain_option, paths_option, run, signing
from sparklake.lake import Lake


def commit(lake: Lake, arguments: Namespace) -> Document:
    """Commit a branch."""
    branch = branch_at(lake, arguments.branch)
    if arguments.explain:
        return explanation_document(branch.plan(arguments.path))
    options = {"allow_empty": arguments.allow_empty, "paths": arguments.path}
    return commit_document(branch.commit(**signing(arguments), **options))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = commit_parser(__doc__)
    parser.set_defaults(message="")
    parser.add_argument("branch", metavar="lakefs://REPO/BRANCH")
    parser.add_argument("--allow-empty", action="store_true", help="even where nothing is staged")
    paths_option(parser)
    explain_option(parser)
    return run(parser, commit, argv)


if __name__ == "__main__":
    sys.exit(main())
