"""Delete a tag; its commit stays."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import ref_uri


def delete_tag(lake: Lake, arguments: Namespace) -> Document:
    """Delete a tag."""
    tag = ref_uri(arguments.tag)
    lake.repository(tag.repository).delete_tag(tag.ref)
    return {"name": tag.ref, "deleted": True}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("tag", metavar="lakefs://REPO/TAG")
    return run(parser, delete_tag, argv)


if __name__ == "__main__":
    sys.exit(main())
