"""Tell which rows of the table at PATH differ from LEFT to RIGHT; write them as a table."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence

from sparklake.arguments import ROWS_SHOWN
from sparklake.documents import Document, table_diff_document
from sparklake.jobs.job import job_parser, positive, refs_at, run
from sparklake.lake import Lake


def diff_table(lake: Lake, arguments: Namespace) -> Document | Iterable[Document]:
    """List rows that differ, or counts them."""
    repository, left, right = refs_at(lake, arguments.left, arguments.right)
    found = repository.diff_table(
        *(left, right, arguments.path, arguments.key, arguments.format, arguments.column)
    )
    if arguments.to:
        return table_diff_document(found.saved(arguments.to))
    if arguments.summary:
        return table_diff_document(found)
    return found.documents(arguments.limit)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("left", metavar="lakefs://REPO/LEFT")
    parser.add_argument("right", metavar="lakefs://REPO/RIGHT")
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("--key", action="append", required=True, metavar="COLUMN")
    parser.add_argument("--format", default="parquet", help="parquet, orc or delta")
    parser.add_argument("--column", action="append", help="compare only this one; repeatable")
    parser.add_argument("--limit", type=positive, default=ROWS_SHOWN, help="at most so many rows")
    parser.add_argument("--summary", action="store_true", help="how many rows, and which columns")
    parser.add_argument("--to", metavar="URI", help="where all rows go, as Parquet")
    return run(parser, diff_table, argv)


if __name__ == "__main__":
    sys.exit(main())
