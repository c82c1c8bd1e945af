"""List the commits that a ref contains, the latest first."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from itertools import islice

from sparklake.jobs.job import job_parser, positive, run
from sparklake.lake import Lake
from sparklake.report import Document, commit_document
from sparklake.uri import ref_uri


def log(lake: Lake, arguments: Namespace) -> Iterable[Document]:
    """Lists commits."""
    target = ref_uri(arguments.ref)
    commits = lake.repository(target.repository).log(target.ref)
    return map(commit_document, islice(commits, arguments.amount))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the job; returns its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("ref", metavar="lakefs://REPO/REF")
    parser.add_argument("--amount", type=positive, help="at most so many commits")
    return run(parser, log, argv)


if __name__ == "__main__":
    sys.exit(main())
