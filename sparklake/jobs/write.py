"""Write what Spark can read as a table of a branch, and stage it."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict

from sparklake.arguments import labels
from sparklake.documents import Document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.session import spark_session
from sparklake.uri import object_uri
from sparklake.verbs.tables.write_request import WriteMode


def write(lake: Lake, arguments: Namespace) -> Document:
    """Write a table."""
    target = object_uri(arguments.target)
    branch = lake.repository(target.repository).branch(target.ref)
    reader = spark_session().read.format(arguments.source_format)
    rows = reader.options(**labels(arguments.source_option)).load(arguments.source)
    partition_by, options = arguments.partition_by or (), labels(arguments.option)
    done = branch.write(rows, target.key, arguments.format, arguments.mode, partition_by, **options)
    return asdict(done)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("target", metavar="lakefs://REPO/BRANCH/PATH")
    parser.add_argument("--from", dest="source", metavar="URI", required=True)
    parser.add_argument("--source-format", default="parquet", help="how Spark reads it (parquet)")
    parser.add_argument("--format", default="parquet", help="how Spark writes it (parquet)")
    modes = [each.value for each in WriteMode]
    parser.add_argument("--mode", choices=modes, default=WriteMode.ERROR_IF_EXISTS.value)
    parser.add_argument("--partition-by", action="append", metavar="COLUMN", help="repeatable")
    parser.add_argument("--option", action="append", metavar="K=V", help="of Spark's writer")
    parser.add_argument("--source-option", action="append", metavar="K=V", help="of its reader")
    return run(parser, write, argv)


if __name__ == "__main__":
    sys.exit(main())
