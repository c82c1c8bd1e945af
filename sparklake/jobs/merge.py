"""Merge a ref into a branch; conflicts are listed, and then nothing is written."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document, commit_document, explanation_document, preview_document
from sparklake.jobs.job import (
    commit_parser,
    deciding,
    deciding_options,
    explain_option,
    paths_option,
    refs_at,
    run,
    signing,
)
from sparklake.lake import Lake


def merge(lake: Lake, arguments: Namespace) -> Document:
    """Merge source into dest."""
    repository, source, dest = refs_at(lake, arguments.source, arguments.dest, arguments.force)
    options = {"allow_empty": arguments.allow_empty, "paths": arguments.path}
    if arguments.explain:
        return explanation_document(repository.plan_merge(source, dest, **options))
    options |= {"squash": arguments.squash, **deciding(arguments)}
    if arguments.dry_run:
        return preview_document(repository.preview_merge(source, dest, **options))
    options |= signing(arguments)
    return commit_document(repository.merge(source, dest, **options))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = commit_parser(__doc__)
    parser.add_argument("source", metavar="lakefs://REPO/SOURCE")
    parser.add_argument("dest", metavar="lakefs://REPO/DEST")
    deciding_options(parser)
    parser.add_argument("--squash", action="store_true", help="its only parent is DEST")
    parser.add_argument("--allow-empty", action="store_true", help="even with nothing to merge")
    parser.add_argument("--force", action="store_true", help="even in a read-only repository")
    parser.add_argument("--dry-run", action="store_true", help="changes, conflicts and cost")
    paths_option(parser)
    explain_option(parser)
    return run(parser, merge, argv)


if __name__ == "__main__":
    sys.exit(main())
