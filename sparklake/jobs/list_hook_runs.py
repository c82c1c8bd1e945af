"""Show which hooks have run on which branch or tag, and what came of them; the latest first."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence

from sparklake.documents import Document, hook_run_document
from sparklake.jobs.job import job_parser, positive, run
from sparklake.lake import Lake
from sparklake.uri import refs_uri


def list_hook_runs(lake: Lake, arguments: Namespace) -> Iterable[Document]:
    """List runs of hooks."""
    repository, ref = refs_uri(arguments.refs)
    return map(hook_run_document, lake.repository(repository).hook_runs(arguments.amount, ref))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("refs", metavar="lakefs://REPO[/REF]")
    parser.add_argument("--amount", type=positive, default=100, help="at most so many")
    return run(parser, list_hook_runs, argv)


if __name__ == "__main__":
    sys.exit(main())
