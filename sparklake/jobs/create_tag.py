"""Name the commit of a ref for good."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document, tag_document
from sparklake.jobs.job import job_parser, refs_at, run
from sparklake.lake import Lake


def create_tag(lake: Lake, arguments: Namespace) -> Document:
    """Create a tag."""
    repository, tag, ref = refs_at(lake, arguments.tag, arguments.ref)
    return tag_document(repository.create_tag(tag, ref))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("tag", metavar="lakefs://REPO/TAG")
    parser.add_argument("ref", metavar="lakefs://REPO/REF")
    return run(parser, create_tag, argv)


if __name__ == "__main__":
    sys.exit(main())
