"""List the commits that a ref contains, the latest first."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence

from sparklake.arguments import moment
from sparklake.documents import Document, log_document
from sparklake.jobs.job import job_parser, positive, run
from sparklake.lake import Lake
from sparklake.uri import ref_uri
from sparklake.verbs.history.graph import history_graph
from sparklake.verbs.history.lanes import names_of


def log(lake: Lake, arguments: Namespace) -> Document | Iterable[Document]:
    """List commits, or draws them."""
    target = ref_uri(arguments.ref)
    repository = lake.repository(target.repository)
    commits = repository.log(
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
    if arguments.picture is None:
        return map(log_document, commits.marked())
    is_part = arguments.no_merges or arguments.path is not None or arguments.prefix is not None
    sides = 0 if is_part else 1 if arguments.first_parent else None
    drawing = history_graph(commits, names_of(repository.branch_states(), repository.tags()), sides)
    drawing.save(arguments.picture)
    return {"picture": arguments.picture, "commits": len(drawing.nodes)}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
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
    parser.add_argument("--picture", metavar="FILE", help="draw it as .svg or .png")
    return run(parser, log, argv)


if __name__ == "__main__":
    sys.exit(main())
