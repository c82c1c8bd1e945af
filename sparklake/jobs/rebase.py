"""Make the commits that a branch has of its own once more on a ref; all of them, or none."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document, branch_document
from sparklake.jobs.job import deciding, deciding_options, job_parser, refs_at, run
from sparklake.lake import Lake


def rebase(lake: Lake, arguments: Namespace) -> Document:
    """Rebase a branch."""
    repository, name, onto = refs_at(lake, arguments.branch, arguments.onto)
    branch = repository.branch(name)
    made = branch.rebase(onto, **deciding(arguments))
    return {**branch_document(branch.state), "made": [each.id for each in made]}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("branch", metavar="lakefs://REPO/BRANCH")
    parser.add_argument("--onto", metavar="lakefs://REPO/REF", required=True)
    deciding_options(parser)
    return run(parser, rebase, argv)


if __name__ == "__main__":
    sys.exit(main())
