"""Delete a branch and what is staged on it; its commits stay."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import ref_uri


def delete_branch(lake: Lake, arguments: Namespace) -> Document:
    """Delete a branch."""
    branch = ref_uri(arguments.branch)
    lake.repository(branch.repository).delete_branch(branch.ref)
    return {"name": branch.ref, "deleted": True}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("branch", metavar="lakefs://REPO/NAME")
    return run(parser, delete_branch, argv)


if __name__ == "__main__":
    sys.exit(main())
