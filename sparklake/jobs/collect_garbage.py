"""Delete the objects of a storage namespace that no commit and no staged change names."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.arguments import duration
from sparklake.documents import Document, collection_document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import repository_uri


def collect_garbage(lake: Lake, arguments: Namespace) -> Document:
    """Collect garbage; it asks nobody."""
    spared = duration(arguments.grace)
    assert spared is not None
    repository = lake.repository(repository_uri(arguments.repository))
    made = repository.collect_garbage(arguments.dry_run, arguments.sweep, spared)
    return collection_document(made)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("repository", metavar="lakefs://REPO")
    parser.add_argument("--dry-run", "--mark-only", action="store_true", help="delete nothing")
    parser.add_argument("--sweep", metavar="RUN", help="take the list of a dry run")
    parser.add_argument("--grace", default="6h", help="spare what is younger: 30m, 12h, 7d")
    parser.add_argument("-y", "--yes", action="store_true", help="as the command has it")
    return run(parser, collect_garbage, argv)


if __name__ == "__main__":
    sys.exit(main())
