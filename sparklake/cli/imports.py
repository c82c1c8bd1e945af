"""`sparklake import`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from sparklake.cli import options
from sparklake.cli.commit_text import commit_line
from sparklake.cli.invocation import Invocation, command
from sparklake.cli.options import argument, flag, option
from sparklake.cli.parsing import labels
from sparklake.cli.spark_rows import RowsFormatOption, source_rows
from sparklake.cli.text import change_counts, one_line
from sparklake.documents import import_document
from sparklake.errors import InvalidInputError, ReplacementError
from sparklake.uri import prefix_uri
from sparklake.visible import count_of

if TYPE_CHECKING:
    from sparklake.verbs.imports.import_objects import ImportReport


@command
def import_objects(
    invocation: Invocation,
    uri: Annotated[str, argument("lakefs://REPO/BRANCH/[PREFIX]")],
    source: Annotated[
        str | None,
        option(
            "Import a directory, prefix, object or catalog:TABLE.", "--from", metavar="URI_OR_DIR"
        ),
    ] = None,
    inventory: Annotated[
        str | None, option("Import the inventory of a bucket with this manifest.", metavar="URI")
    ] = None,
    inventory_prefix: Annotated[
        str | None, option("Import only keys of the inventory with this prefix.", metavar="PREFIX")
    ] = None,
    rows: Annotated[
        str | None, option("Import the rows at this URI, read with Spark.", metavar="URI")
    ] = None,
    rows_format: RowsFormatOption = "parquet",
    replace: Annotated[bool, flag("Replace all of the branch's objects under PREFIX.")] = False,
    exclude: Annotated[
        list[str] | None, option("Leave out paths that match. Can be repeated.", metavar="GLOB")
    ] = None,
    skip_errors: Annotated[bool, flag("Skip rows that cannot be imported.")] = False,
    errors_to: Annotated[
        str | None, option("Write rows that cannot be imported here, as Parquet.", metavar="URI")
    ] = None,
    message: options.MessageOption = None,
    committer: options.CommitterOption = None,
    meta: options.MetaOption = None,
    if_needed: options.IfNeededOption = False,
    once: options.OnceOption = None,
) -> None:
    """Commit existing objects without copying them.

    New objects are added. Objects under PREFIX that the source brought are updated, and removed if
    it no longer has them; others stay. With --replace, the source's objects replace all there.

    The source is a directory, a bucket prefix, one object, an inventory, a table of rows, or an
    Iceberg table: its metadata.json, or catalog:NAME in Spark's catalogs.
    """
    # Lazy import: it takes longer than the start of the command.
    from sparklake.verbs.iceberg.import_source import CATALOG
    from sparklake.verbs.imports.sources import one_source

    target, metadata = prefix_uri(uri), labels(meta)
    if rows is None:
        place = one_source(source, inventory, inventory_prefix)
    elif source or inventory or inventory_prefix:
        raise InvalidInputError("choose one source: --from, --inventory or --rows")
    run = invocation.once(once, rows, rows_format if rows else None)
    invocation.uses_spark = rows is not None or (source or "").startswith(CATALOG)
    branch = invocation.repository(target.repository).branch(target.ref)
    out = invocation.out

    def imported(replaces: bool) -> ImportReport:
        with out.working(f"importing {one_line(rows or str(place))}"):
            return invocation.run(
                branch.import_objects,
                place if rows is None else source_rows(rows, rows_format),
                prefix=target.key,
                message=message,
                committer=committer,
                metadata=metadata,
                replace=replaces,
                exclude=exclude or (),
                on_error="skip" if skip_errors else "abort",
                errors_to=errors_to,
                if_needed=if_needed,
                once=run,
            )

    try:
        report = imported(replace)
    except ReplacementError as error:
        # The location of errors is used only once.
        can_repeat = out.can_ask and errors_to is None
        if not can_repeat or not out.agrees(f"{error}.\nReplace everything there now?"):
            raise
        report = imported(True)
    document = import_document(report)
    line = commit_line(out, target.ref, report.commit)
    out.one(document, f"{line}\n    {change_counts(document)}")
    if report.retained:
        out.note(
            f"kept {count_of(report.retained, 'object')} there that this source did not bring: "
            "--replace removes such objects"
        )
    if report.skipped:
        counts = ", ".join(f"{count:,} {reason}" for reason, count in report.counts.items())
        out.note(f"skipped {count_of(report.skipped, 'row')}: {counts}")
