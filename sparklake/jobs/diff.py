"""Count what differs from LEFT to RIGHT, or what is staged on a branch; write it as a table."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence

from sparklake.arguments import TREE_DEPTH, DiffShape, check_two_refs, diff_shape
from sparklake.documents import (
    Document,
    diff_tree_document,
    explanation_document,
    folder_diff_document,
)
from sparklake.errors import InvalidInputError
from sparklake.jobs.job import explain_option, job_parser, positive, refs_at, run
from sparklake.lake import Lake
from sparklake.session import described
from sparklake.verbs.base.differences import Differences


def diff(lake: Lake, arguments: Namespace) -> Document | Iterable[Document]:
    """Count differences by type, as Spark computes them."""
    shape = diff_shape(
        by_folder=arguments.by_folder,
        tree=arguments.tree,
        summary=arguments.summary,
        depth=arguments.depth,
    )
    if shape is not DiffShape.ROWS and arguments.to:
        raise InvalidInputError("--to writes the rows: leave out --by-folder, --tree and --summary")
    repository, left, right = refs_at(lake, arguments.left, arguments.right or arguments.left)
    if arguments.right is None:
        check_two_refs(three_way=arguments.three_way, three_dot=arguments.three_dot)
        rows = repository.diff_uncommitted(left, arguments.prefix)
    else:
        rows = repository.diff(
            left, right, arguments.prefix, arguments.three_way, arguments.three_dot
        )
    if arguments.explain:
        return explanation_document(rows.explain())
    if shape is DiffShape.SUMMARY:
        return folder_diff_document(rows.summary())
    if shape is DiffShape.TREE:
        return diff_tree_document(rows.tree(arguments.depth or TREE_DEPTH))
    if shape is DiffShape.FOLDERS:
        return map(folder_diff_document, rows.by_folder(arguments.depth or 1))
    return _counted(rows, arguments.to)


def _counted(rows: Differences, to: str | None) -> Document:
    changes = rows.to_df()
    with described(changes.sparkSession, rows.title):
        if to:
            changes.write.parquet(to)
            changes = changes.sparkSession.read.parquet(to)
        counts = {row["type"]: row["count"] for row in changes.groupBy("type").count().collect()}
    return {kind: counts.get(kind, 0) for kind in ("added", "removed", "changed", "conflict")}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("left", metavar="lakefs://REPO/LEFT")
    parser.add_argument("right", metavar="lakefs://REPO/RIGHT", nargs="?")
    parser.add_argument("--to", metavar="URI", help="where the rows go, as Parquet")
    parser.add_argument("--prefix", default="", help="only keys that begin so")
    parser.add_argument("--three-way", action="store_true", help="as a merge of RIGHT would")
    parser.add_argument("--three-dot", action="store_true", help="since the merge base of both")
    parser.add_argument("--by-folder", action="store_true", help="objects and bytes by folder")
    parser.add_argument("--tree", action="store_true", help="the folders as a tree")
    parser.add_argument("--summary", action="store_true", help="objects and bytes in all")
    parser.add_argument("--depth", type=positive, help="how many levels of folders")
    explain_option(parser)
    return run(parser, diff, argv)


if __name__ == "__main__":
    sys.exit(main())
