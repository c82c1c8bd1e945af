"""Commit the objects of a place, an S3 Inventory or a table of rows, copying nothing."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparklake.documents import Document, import_document
from sparklake.errors import InvalidInputError
from sparklake.jobs.job import commit_parser, run, signing
from sparklake.lake import Lake
from sparklake.session import spark_session
from sparklake.uri import prefix_uri
from sparklake.verbs.imports.sources import one_source

if TYPE_CHECKING:
    from sparklake.verbs.imports.sources import ImportSource


def import_objects(lake: Lake, arguments: Namespace) -> Document:
    """Import objects under a prefix of a branch."""
    target = prefix_uri(arguments.target)
    branch = lake.repository(target.repository).branch(target.ref)
    report = branch.import_objects(
        _source(arguments),
        target.key,
        **signing(arguments),
        mode=arguments.mode,
        on_error="skip" if arguments.skip_errors else "abort",
        errors_to=arguments.errors_to,
    )
    return import_document(report)


def _source(arguments: Namespace) -> ImportSource:
    if arguments.rows is None:
        return one_source(arguments.source, arguments.inventory, arguments.inventory_prefix)
    if any((arguments.source, arguments.inventory, arguments.inventory_prefix)):
        raise InvalidInputError("name one source: --from, --inventory or --rows")
    return spark_session().read.format(arguments.format).load(arguments.rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = commit_parser(__doc__)
    parser.add_argument("target", metavar="lakefs://REPO/BRANCH/[PREFIX]")
    parser.add_argument("--from", dest="source", metavar="URI_OR_DIR")
    parser.add_argument("--inventory", metavar="URI", help="the manifest.json of an S3 Inventory")
    parser.add_argument("--inventory-prefix", metavar="PREFIX", help="only its keys under this")
    parser.add_argument("--rows", metavar="URI", help="a file or directory of rows, for Spark")
    parser.add_argument("--format", default="parquet", help="how Spark reads them (parquet)")
    parser.add_argument("--mode", choices=["replace", "add"], default="replace")
    parser.add_argument("--skip-errors", action="store_true", help="leave out what cannot be")
    parser.add_argument("--errors-to", metavar="URI", help="an empty place for a table of errors")
    return run(parser, import_objects, argv)


if __name__ == "__main__":
    sys.exit(main())
