"""Show what is known of one object."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document, object_document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import object_uri


def stat(lake: Lake, arguments: Namespace) -> Document:
    """Look an object up."""
    target = object_uri(arguments.object)
    return object_document(lake.repository(target.repository).stat(target.ref, target.key))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("object", metavar="lakefs://REPO/REF/KEY")
    return run(parser, stat, argv)


if __name__ == "__main__":
    sys.exit(main())
