"""The text form of conflicts, with the facts needed to resolve them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparklake.cli.output import Output
from sparklake.cli.text import date, one_line, short, size
from sparklake.documents import SIDES, Document, conflict_document, json_line
from sparklake.metadata.delta.file_names import LOG_FOLDER
from sparklake.metadata.iceberg.file_names import METADATA_FOLDER
from sparklake.visible import CHECKSUM_DIGITS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SHOWN_CONFLICTS = 100
_SHOWN_ROWS = 20
_DOCUMENT_ROWS = 100
_ROW_COLUMNS = ("table", "key", "column", *SIDES)
_COLUMNS = ("conflict", "side", "size", "time", "checksum", "author", "commit")


_IN_METADATA = re.compile(rf"/({LOG_FOLDER}|{METADATA_FOLDER})[^/]*$")
"""The end of a path that the reason of a conflict names by its table."""


def print_conflicts(
    out: Output, conflicts: Sequence[Any], count: int, rest: str, message: str = ""
) -> None:
    """Print the first conflicts, each table once. `rest` describes how to list the others.

    Reasons that the error's message contains are omitted.
    """
    rows = conflicts[:_SHOWN_CONFLICTS]
    by_subject = {_subject(row): conflict_document(row) for row in reversed(rows)}
    lines = (line for name in reversed(by_subject) for line in _lines(name, by_subject[name]))
    _print_table(out, _COLUMNS, lines)
    for reason in dict.fromkeys(row.reason for row in rows if row.reason is not None):
        if reason not in message:
            out.note(one_line(reason))
    if count > len(rows):
        out.note(f"... and {count - len(rows):,} more; {rest}")


def print_rows(out: Output, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows that both sides changed, each as JSON, with its file and position."""
    columns = {
        "file": lambda row: one_line(row["path"]),
        "position": lambda row: f"{row['position']:,}",
        "row": lambda row: one_line(json.dumps(row["row"], default=str, ensure_ascii=False)),
    }
    if rows:
        out.table([dict(each) for each in rows], columns)


def print_conflict_rows(out: Output, rows: DataFrame, file: str | None) -> list[Document]:
    """Print the first rows in conflict as a table, write all to a file, return a document's."""
    if file is not None:
        try:
            with Path(file).open("x", encoding="utf-8") as lines:
                lines.writelines(json_line(each.asDict()) for each in rows.toLocalIterator())
            out.note(f"the rows in conflict are in {file}")
        except OSError as error:
            why = error.strerror or error
            out.note(f"cannot write the rows in conflict to {file}: {why}. Choose another file")
    first: list[Document] = [each.asDict() for each in rows.take(_DOCUMENT_ROWS)]
    if out.is_json:
        return first
    cells = (
        ["-" if each[name] is None else one_line(each[name]) for name in _ROW_COLUMNS]
        for each in first[:_SHOWN_ROWS]
    )
    _print_table(out, _ROW_COLUMNS, cells)
    if len(first) > _SHOWN_ROWS and file is None:
        out.note("... and more; --conflict-rows FILE writes all of them")
    return first


def side_lines(document: Document) -> Iterator[str]:
    for side in SIDES:
        count, time, checksum = _object_cells(side, document[side])
        yield f"    {side:<6}  {count:>9}  {time:<20}  {checksum}".rstrip()


def _subject(row: Any) -> str:
    path: str = row.path
    return path if row.reason is None else _IN_METADATA.sub("/", path)


def _lines(subject: str, document: Document) -> Iterable[Sequence[str]]:
    path = one_line(subject)
    for side in SIDES:
        yield [path, side, *_object_cells(side, document[side]), *_commit_cells(document, side)]
        path = ""


def _object_cells(side: str, document: Document | None) -> Sequence[str]:
    if document is None:
        return ["-" if side == "base" else "removed", "", ""]
    return [size(document["size"]), date(document["mtime"]), document["checksum"][:CHECKSUM_DIGITS]]


def _commit_cells(document: Document, side: str) -> Sequence[str]:
    commit = document.get(f"{side}_commit")
    if commit is None:
        return ["", ""]
    return [one_line(commit["committer"]), short(commit["id"])]


def _print_table(out: Output, columns: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    rows = [dict(zip(columns, line, strict=True)) for line in lines]
    out.table(rows, {name: itemgetter(name) for name in columns})
