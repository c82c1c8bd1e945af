"""Write all branches, tags and commits into the storage namespace, as lakeFS does."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document, dump_document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import repository_uri


def dump_refs(lake: Lake, arguments: Namespace) -> Document:
    """Dump refs."""
    return dump_document(lake.repository(repository_uri(arguments.repository)).dump_refs())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("repository", metavar="lakefs://REPO")
    return run(parser, dump_refs, argv)


if __name__ == "__main__":
    sys.exit(main())
