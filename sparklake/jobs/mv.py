"""Stage an object, or a folder KEY/, under another path; no byte of it is copied."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import same_branch, transfer_uris


def mv(lake: Lake, arguments: Namespace) -> Document:
    """Stage a move."""
    old, new = transfer_uris(arguments.source, arguments.dest)
    branch = lake.repository(old.repository).branch(same_branch(old, new))
    moved = branch.move(old.key, new.key, arguments.recursive, arguments.force)
    return {"source": old.key, "path": new.key, "moved": moved}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("source", metavar="lakefs://REPO/BRANCH/KEY")
    parser.add_argument("dest", metavar="lakefs://REPO/BRANCH/KEY")
    parser.add_argument("-r", "--recursive", action="store_true", help="with everything below KEY/")
    parser.add_argument("--force", action="store_true", help="overwrite what is there")
    return run(parser, mv, argv)


if __name__ == "__main__":
    sys.exit(main())
