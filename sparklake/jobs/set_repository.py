"""Make a repository read-only or writable, and set or remove its labels."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.arguments import labels, settings_change
from sparklake.documents import Document, repository_document
from sparklake.errors import InvalidInputError
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import repository_uri


def set_repository(lake: Lake, arguments: Namespace) -> Document:
    """Change settings."""
    name, metadata = repository_uri(arguments.repository), labels(arguments.meta)
    change = settings_change(read_only=arguments.read_only, writable=arguments.writable)
    if change is None and not metadata and not arguments.unset:
        raise InvalidInputError("say what to set: --read-only, --writable, --meta or --unset")
    lake.repository(name).settings.edit_metadata(metadata, arguments.unset or (), change)
    return repository_document(lake.repository(name).info)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("repository", metavar="lakefs://REPO")
    parser.add_argument("--read-only", action="store_true", help="let it refuse all changes")
    parser.add_argument("--writable", action="store_true", help="let it change again")
    parser.add_argument("--meta", action="append", metavar="K=V", help="a label; repeatable")
    parser.add_argument("--unset", action="append", metavar="K", help="a label to remove")
    return run(parser, set_repository, argv)


if __name__ == "__main__":
    sys.exit(main())
