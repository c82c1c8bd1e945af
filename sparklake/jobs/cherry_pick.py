"""Make the changes of commits on a branch, each as a commit of its own; all, or none."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence

from sparklake.documents import Document, commit_document
from sparklake.jobs.job import replay_parser, replaying, run
from sparklake.lake import Lake


def cherry_pick(lake: Lake, arguments: Namespace) -> Iterable[Document]:
    """Cherry-pick commits."""
    branch, refs, terms = replaying(lake, arguments)
    return [commit_document(each) for each in branch.cherry_pick(*refs, **terms)]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    return run(replay_parser(__doc__), cherry_pick, argv)


if __name__ == "__main__":
    sys.exit(main())
