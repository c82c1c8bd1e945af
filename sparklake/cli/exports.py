"""`sparklake export` and `register`."""

from __future__ import annotations

from typing import Annotated

from sparklake.cli.invocation import Invocation, command
from sparklake.cli.options import argument, flag, one_of, option
from sparklake.cli.text import one_line
from sparklake.documents import export_document, registration_document
from sparklake.uri import object_uri, prefix_uri
from sparklake.visible import count_of


@command
def export(
    invocation: Invocation,
    uri: Annotated[str, argument("lakefs://REPO/REF[/PREFIX]")],
    to: Annotated[
        str,
        option("Export to a directory, or a prefix such as s3://bucket/out.", metavar="URI_OR_DIR"),
    ],
    since: Annotated[
        str | None, option("Export only the changes since this ref.", metavar="REF")
    ] = None,
    incremental: Annotated[bool, flag("Export only the changes since the last export.")] = False,
    keep_removed: Annotated[
        bool, flag("Keep files of removed objects at the destination.")
    ] = False,
    overwrite: Annotated[bool, flag("Overwrite other files at the destination.")] = False,
    manifest_only: Annotated[bool, flag("Write only the manifest; copy nothing.")] = False,
    manifest_format: Annotated[
        str,
        option(
            "Format of the manifest: parquet, csv or jsonl.",
            metavar="NAME",
            autocompletion=one_of("parquet", "csv", "jsonl"),
        ),
    ] = "parquet",
    dry_run: Annotated[bool, flag("Show what would be exported; write nothing.")] = False,
) -> None:
    """Copy the objects of a commit to a folder or bucket.

    A branch exports its head, without staged changes. A manifest lists the objects.
    """
    source = prefix_uri(uri)
    repository = invocation.repository(source.repository)
    with invocation.out.working(f"exporting to {one_line(to)}"):
        result = repository.export(
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
    if result.dirty:
        invocation.out.note(
            f"staged changes of {one_line(source.ref)} are not exported: commit them first"
        )
    verb = "would export" if dry_run else "listed" if manifest_only else "exported"
    text = (
        f"{verb} {result.commit[:12]} to {one_line(result.to)}: {result.added:,} added, "
        f"{result.changed:,} changed, {result.removed:,} removed, "
        f"{count_of(result.size, 'byte')}"
    )
    invocation.out.one(export_document(result), text)


@command
def register(
    invocation: Invocation,
    uri: Annotated[str, argument("lakefs://REPO/REF/TABLE")],
    exported: Annotated[
        str, option("Register the table in this export of REF.", "--from", metavar="URI_OR_DIR")
    ],
    table: Annotated[
        str, option("Register it as this table.", "--as", metavar="CATALOG.DATABASE.TABLE")
    ],
    run: Annotated[bool, flag("Run the statement in a Spark session.")] = False,
) -> None:
    """Register an exported Iceberg table in a catalog.

    Without --run, the statement is only printed. Metadata with the paths of the export is written
    beside the exported files.
    """
    source = object_uri(uri)
    invocation.uses_spark = run
    repository = invocation.repository(source.repository)
    result = repository.register(source.ref, source.key, exported, table, run=run)
    invocation.out.one(registration_document(result), result.statement)
