"""`sparklake diff-table`, `write`, `writes` and `abandon-write`."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import asdict
from typing import Annotated

from sparklake.cli import options
from sparklake.cli.invocation import Invocation, command
from sparklake.cli.options import argument, flag, one_of, option
from sparklake.cli.parsing import ROWS_SHOWN, labels
from sparklake.cli.spark_rows import ToOption, complete_format, refused_by_spark, source_rows
from sparklake.cli.text import SIGNS, change_counts, date, one_line, size, total
from sparklake.documents import Document, table_diff_document, write_document
from sparklake.uri import object_uri, repository_uri
from sparklake.visible import count_of


@command
def diff_table(
    invocation: Invocation,
    left: Annotated[str, argument("lakefs://REPO/LEFT")],
    right: Annotated[str, argument("lakefs://REPO/RIGHT")],
    path: Annotated[str, argument("PATH")],
    key: Annotated[
        list[str], option("Use this column as part of the key; repeatable.", metavar="COLUMN")
    ],
    table_format: Annotated[
        str | None,
        option(
            "Format: delta or parquet (default: detected), or orc.",
            "--format",
            metavar="FORMAT",
            autocompletion=one_of("parquet", "orc", "delta"),
        ),
    ] = None,
    column: Annotated[
        list[str] | None, option("Compare only this column; repeatable.", metavar="COLUMN")
    ] = None,
    limit: Annotated[int, option("Show at most this many rows.", min=1)] = ROWS_SHOWN,
    summary: Annotated[bool, flag("Show only counts and schema changes.")] = False,
    to: ToOption = None,
) -> None:
    """Show the rows of a table that differ between two refs."""
    invocation.uses_spark = True
    one, other = invocation.two_refs(left, right)
    repository = invocation.repository(one.repository)
    with invocation.out.working("comparing"):
        diffs = repository.diff_table(one.ref, other.ref, path, key, table_format, column)
        if to is not None:
            with refused_by_spark(f"Spark cannot write to {to}"):
                report = table_diff_document(diffs.saved(to))
            invocation.out.one(report, f"{_summary_text(report)}\nthe rows are in {one_line(to)}")
            return
        if summary:
            report = table_diff_document(diffs)
            invocation.out.one(report, _summary_text(report))
            return
        rows = diffs.documents(limit + 1)
    counts: Counter[str] = Counter()

    def line(row: Document) -> str:
        counts[row["change"]] += 1
        sign, colour = SIGNS[row["change"]]
        return invocation.out.coloured(f"{sign} {row['change']:<8}  {_row_text(row, key)}", colour)

    invocation.out.many(rows[:limit], line)
    note = total(counts)
    if len(rows) > limit:
        note += "; there are more: raise --limit, or count all rows with --summary"
    invocation.out.note(note)
    for each in diffs.schema_changes:
        invocation.out.note(f"column {each.column} {each.change}: {each.left} -> {each.right}")


def _summary_text(report: Document) -> str:
    columns = [
        one_line(f"column {each['column']} {each['change']}: {each['left']} -> {each['right']}")
        for each in report["schema_changes"]
    ]
    files = sum(report["files"].values())
    read = f"read {count_of(files, 'differing file')} ({size(report['bytes'])})"
    return "\n".join([change_counts(report), *columns, read])


def _row_text(row: Document, key: list[str]) -> str:
    key_text = " ".join(f"{one_line(name)}={_value(row[name])}" for name in key)
    if row["change"] != "changed":
        side = row["right"] or row["left"]
        rest = (f"{one_line(name)}={_value(side[name])}" for name in side if name not in key)
        return " ".join([key_text, *rest])
    old, new = row["left"], row["right"]
    changes = (
        f"{one_line(name)}={_value(old.get(name))} -> {_value(new.get(name))}"
        for name in row["changed_columns"]
    )
    return " ".join([key_text, *changes])


def _value(value: object) -> str:
    return json.dumps(value, ensure_ascii=True)


@command
def write(
    invocation: Invocation,
    uri: Annotated[str, argument("lakefs://REPO/BRANCH/PATH")],
    source: Annotated[
        str, option("Write the rows at this URI, read with Spark.", "--from", metavar="URI")
    ],
    source_format: Annotated[
        str,
        option(
            "Read the rows in this Spark format.", metavar="FORMAT", autocompletion=complete_format
        ),
    ] = "parquet",
    table_format: Annotated[
        str,
        option(
            "Write parquet, delta or another format.",
            "--format",
            metavar="FORMAT",
            autocompletion=complete_format,
        ),
    ] = "parquet",
    mode: Annotated[
        str,
        option(
            "How to treat existing objects of the table.",
            metavar="MODE",
            autocompletion=one_of(
                "append", "overwrite", "overwrite-partitions", "errorifexists", "ignore"
            ),
        ),
    ] = "errorifexists",
    partition_by: Annotated[
        list[str] | None, option("Partition by this column; repeatable.", metavar="COLUMN")
    ] = None,
    option: Annotated[
        list[str] | None, option("Set a Spark writer option; repeatable.", metavar="K=V")
    ] = None,
    source_option: Annotated[
        list[str] | None, option("Set a Spark reader option; repeatable.", metavar="K=V")
    ] = None,
    no_schema_check: options.NoSchemaCheckOption = False,
    once: options.OnceOption = None,
) -> None:
    """Write rows with Spark as a table of a branch (staged).

    MODE is append, overwrite, overwrite-partitions (replaces only the partitions of the rows),
    errorifexists or ignore.
    """
    target, writing, reading = object_uri(uri), labels(option), labels(source_option)
    run = invocation.once(once, source, source_format, *(source_option or ()))
    invocation.uses_spark = True
    branch = invocation.repository(target.repository).branch(target.ref)
    with invocation.out.working(f"writing {one_line(str(target))}"):
        rows = source_rows(source, source_format, reading)
        with refused_by_spark(f"Spark cannot write {target}"):
            done = invocation.run(
                branch.write,
                rows,
                target.key,
                format=table_format,
                mode=mode,
                partition_by=partition_by or (),
                once=run,
                schema_check=not no_schema_check,
                **writing,
            )
    text = f"staged {count_of(done.files, 'file')} of {size(done.size)} at {one_line(str(target))}"
    invocation.out.one(asdict(done), text)


@command
def writes(invocation: Invocation, uri: options.RepositoryArgument) -> None:
    """Show open and abandoned table writes.

    A write whose driver died stays open until it is abandoned.
    """
    open_writes = invocation.repository(repository_uri(uri)).writes()
    invocation.out.table(
        [write_document(each) for each in open_writes],
        {
            "started": lambda each: date(each["started_at"]),
            "age": _age,
            "state": lambda each: each["state"],
            "branch": lambda each: each["branch"],
            "who": lambda each: one_line(each["who"]),
            "write": lambda each: each["id"],
        },
    )


@command
def abandon_write(
    invocation: Invocation,
    uri: options.RepositoryArgument,
    write: Annotated[str, argument("WRITE")],
) -> None:
    """Abandon an open write, so that it can never stage its files."""
    ended = invocation.repository(repository_uri(uri)).abandon_write(write)
    text = f"the write {ended.id} to {ended.branch} is abandoned. It stages nothing."
    invocation.out.one(write_document(ended), text)


def _age(write: Document) -> str:
    minutes = max(int(time.time()) - int(write["started_at"]), 0) // 60
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d} h"
