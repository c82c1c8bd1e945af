"""Stage the removal of an object, or with -r of a folder."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import folder_uri, object_uri


def rm(lake: Lake, arguments: Namespace) -> Document:
    """Stage a removal."""
    target = (folder_uri if arguments.recursive else object_uri)(arguments.object)
    branch = lake.repository(target.repository).branch(target.ref)
    return {"path": target.key, "removed": branch.remove(target.key, arguments.recursive)}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("object", metavar="lakefs://REPO/BRANCH/KEY")
    parser.add_argument("-r", "--recursive", action="store_true", help="with everything below KEY/")
    return run(parser, rm, argv)


if __name__ == "__main__":
    sys.exit(main())
