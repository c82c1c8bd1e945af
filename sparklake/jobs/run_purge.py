"""Delete the bytes of objects for good, whatever commit names them."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document, purge_document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import repository_uri

_SWITCHES = ("commit", "even_shared", "also_external", "dry_run")


def run_purge(lake: Lake, arguments: Namespace) -> Document:
    """Purge paths."""
    repository = lake.repository(repository_uri(arguments.repository))
    switches = {name: getattr(arguments, name) for name in _SWITCHES}
    made = repository.purge(arguments.patterns, arguments.message, **switches)
    return purge_document(made, "" if arguments.dry_run else repository.receipt(made.id))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("repository", metavar="lakefs://REPO")
    parser.add_argument("patterns", metavar="PATTERN", nargs="+")
    parser.add_argument("-m", "--message", default="", help="why: it is kept in the receipt")
    for name in _SWITCHES:
        parser.add_argument(f"--{name.replace('_', '-')}", action="store_true")
    parser.add_argument("-y", "--yes", action="store_true", help="as the command has it")
    return run(parser, run_purge, argv)


if __name__ == "__main__":
    sys.exit(main())
