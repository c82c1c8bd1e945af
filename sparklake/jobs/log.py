"""List the commits that a ref contains, the latest first."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence

from sparklake.arguments import moment
from sparklake.jobs.job import job_parser, positive, run
from sparklake.lake import Lake
from sparklake.report import Document, commit_document
from sparklake.uri import ref_uri


def log(lake: Lake, arguments: Namespace) -> Iterable[Document]:
    """Lists commits."""
    target = ref_uri(arguments.ref)
    commits = lake.repository(target.repository).log(
        target.ref,
        amount=arguments.amount,
        after=arguments.after,
        since=moment(arguments.since),
        until=moment(arguments.until),
        stop_at=arguments.stop_at,
        first_parent=arguments.first_parent,
        no_merges=arguments.no_merges,
        path=arguments.path,
        prefix=arguments.prefix,
    )
    return map(commit_document, commits)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the job; returns its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("ref", metavar="lakefs://REPO/REF")
    parser.add_argument("--amount", type=positive, help="at most so many commits")
    parser.add_argument("--after", metavar="REF", help="only what comes behind this commit")
    parser.add_argument("--since", metavar="TIME", help="none that is older")
    parser.add_argument("--until", metavar="TIME", help="none that is younger")
    parser.add_argument("--stop-at", metavar="REF", help="up to this commit")
    parser.add_argument("--first-parent", action="store_true", help="of a merge, its first side")
    parser.add_argument("--no-merges", action="store_true", help="none of several parents")
    parser.add_argument("--path", help="only what changed this object")
    parser.add_argument("--prefix", help="only what changed keys that begin so")
    return run(parser, log, argv)


if __name__ == "__main__":
    sys.exit(main())
