"""`sparklake export`."""

from __future__ import annotations

from typing import Annotated

import typer

from sparklake.cli.session import Session, command
from sparklake.cli.text import one_line
from sparklake.documents import export_document
from sparklake.uri import prefix_uri


@command
def export(
    session: Session,
    uri: Annotated[str, typer.Argument(metavar="lakefs://REPO/REF[/PREFIX]", show_default=False)],
    to: Annotated[
        str,
        typer.Option(
            metavar="URI_OR_DIR", help="A directory, or s3://bucket/prefix.", show_default=False
        ),
    ],
    since: Annotated[
        str | None,
        typer.Option(metavar="REF", help="Only what changed since then.", show_default=False),
    ] = None,
    incremental: Annotated[
        bool, typer.Option("--incremental", help="Only what changed since the last export to it.")
    ] = False,
    keep_removed: Annotated[
        bool, typer.Option("--keep-removed", help="Leave there what is gone by now.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Even where there is something else.")
    ] = False,
    manifest_only: Annotated[
        bool, typer.Option("--manifest-only", help="Write what there is, and copy nothing.")
    ] = False,
    manifest_format: Annotated[
        str, typer.Option(metavar="NAME", help="parquet, csv or jsonl.")
    ] = "parquet",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done.")
    ] = False,
) -> None:
    """Copy the objects of a commit to a folder or bucket, with a manifest.

    Of a branch it is the head: what is staged is no part of it.
    """
    source = prefix_uri(uri)
    repository = session.repository(source.repository)
    with session.out.working(f"exporting to {one_line(to)}"):
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
        session.out.note(
            f"what is staged on {one_line(source.ref)} is no part of it: commit it first"
        )
    verb = "would export" if dry_run else "listed" if manifest_only else "exported"
    text = (
        f"{verb} {made.commit[:12]} to {one_line(made.to)}: {made.added:,} added, "
        f"{made.changed:,} changed, {made.removed:,} removed, {made.size:,} bytes"
    )
    session.out.one(export_document(made), text)
