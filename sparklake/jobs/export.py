"""Copy the objects of a commit to a folder or bucket, with a manifest."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.documents import Document, export_document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import prefix_uri

_SWITCHES = ("incremental", "keep_removed", "overwrite", "manifest_only", "dry_run")


def export(lake: Lake, arguments: Namespace) -> Document:
    """Export a ref, or what lies under a prefix of it."""
    source = prefix_uri(arguments.source)
    switches = {name: getattr(arguments, name) for name in _SWITCHES}
    made = lake.repository(source.repository).export(
        *(source.ref, arguments.to, source.key, arguments.since),
        manifest_format=arguments.manifest_format,
        **switches,
    )
    return export_document(made)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("source", metavar="lakefs://REPO/REF[/PREFIX]")
    parser.add_argument("--to", metavar="URI_OR_DIR", required=True)
    parser.add_argument("--since", metavar="REF", help="only what changed since then")
    for name in _SWITCHES:
        parser.add_argument(f"--{name.replace('_', '-')}", action="store_true")
    parser.add_argument("--manifest-format", default="parquet", help="parquet, csv or jsonl")
    return run(parser, export, argv)


if __name__ == "__main__":
    sys.exit(main())
