"""`sparklake export`."""

from __future__ import annotations

from typing import Annotated

import typer

from sparklake.cli.invocation import Invocation, command
from sparklake.cli.options import one_of
from sparklake.cli.text import one_line
from sparklake.documents import export_document
from sparklake.uri import prefix_uri


@command
def export(
    invocation: Invocation,
    uri: Annotated[str, typer.Argument(metavar="lakefs://REPO/REF[/PREFIX]", show_default=False)],
    to: Annotated[
        str,
        typer.Option(
            metavar="URI_OR_DIR",
            help="Export to a directory, or s3://bucket/prefix.",
            show_default=False,
        ),
    ],
    since: Annotated[
        str | None,
        typer.Option(
            metavar="REF", help="Export only the changes since this ref.", show_default=False
        ),
    ] = None,
    incremental: Annotated[
        bool, typer.Option("--incremental", help="Export only the changes since the last export.")
    ] = False,
    keep_removed: Annotated[
        bool,
        typer.Option("--keep-removed", help="Keep files of removed objects at the destination."),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Overwrite other files at the destination.")
    ] = False,
    manifest_only: Annotated[
        bool, typer.Option("--manifest-only", help="Write only the manifest; copy nothing.")
    ] = False,
    manifest_format: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=one_of("parquet", "csv", "jsonl"),
            help="Format of the manifest: parquet, csv or jsonl.",
        ),
    ] = "parquet",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be exported; write nothing.")
    ] = False,
) -> None:
    """Copy the objects of a commit to a folder or bucket.

    A branch exports its head, without staged changes. A manifest lists the objects.
    """
    source = prefix_uri(uri)
    repository = invocation.repository(source.repository)
    with invocation.out.working(f"exporting to {one_line(to)}"):
        made = repository.export(
            source.ref,
            to,
            prefix=source.key,
            since=since,
            incremental=incremental,
            keep_removed=keep_removed,
            overwrite=overwrite,
            manifest_only=manifest_only,
            dry_run=dry_run,
            manifest_format=manifest_format,
        )
    if made.left_out:
        invocation.out.note(
            f"staged changes of {one_line(source.ref)} are not exported: commit them first"
        )
    verb = "would export" if dry_run else "listed" if manifest_only else "exported"
    text = (
        f"{verb} {made.commit[:12]} to {one_line(made.to)}: {made.added:,} added, "
        f"{made.changed:,} changed, {made.removed:,} removed, {made.size:,} bytes"
    )
    invocation.out.one(export_document(made), text)
