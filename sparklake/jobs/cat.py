"""Write the content of one object to stdout, byte for byte."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import object_uri


def cat(lake: Lake, arguments: Namespace) -> bytes:
    """Read an object."""
    target = object_uri(arguments.object)
    return lake.repository(target.repository).read_bytes(target.ref, target.key)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("object", metavar="lakefs://REPO/REF/KEY")
    return run(parser, cat, argv)


if __name__ == "__main__":
    sys.exit(main())
