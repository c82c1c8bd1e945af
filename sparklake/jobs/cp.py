"""Stage an object of any ref, or a folder KEY/, under a path; no byte of it is copied."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import same_repository, transfer_uris


def cp(lake: Lake, arguments: Namespace) -> Document:
    """Stage a copy."""
    old, new = transfer_uris(arguments.source, arguments.dest)
    branch = lake.repository(same_repository(old, new)).branch(new.ref)
    copied = branch.copy(old.key, new.key, old.ref, arguments.recursive, arguments.force)
    return {"source": old.key, "path": new.key, "copied": copied}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("source", metavar="lakefs://REPO/REF/KEY")
    parser.add_argument("dest", metavar="lakefs://REPO/BRANCH/KEY")
    parser.add_argument("-r", "--recursive", action="store_true", help="with everything below KEY/")
    parser.add_argument("--force", action="store_true", help="overwrite what is there")
    return run(parser, cp, argv)


if __name__ == "__main__":
    sys.exit(main())
