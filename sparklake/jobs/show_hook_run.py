"""Show all of one run of hooks."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document, hook_run_document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import repository_uri


def show_hook_run(lake: Lake, arguments: Namespace) -> Document:
    """Show a run of hooks."""
    repository = lake.repository(repository_uri(arguments.repository))
    return hook_run_document(repository.hook_run(arguments.run))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("repository", metavar="lakefs://REPO")
    parser.add_argument("run", metavar="RUN")
    return run(parser, show_hook_run, argv)


if __name__ == "__main__":
    sys.exit(main())
