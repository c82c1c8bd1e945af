"""HTML tables of rows for notebooks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from html import escape
from itertools import islice

from sparklake.visible import CHECKSUM_DIGITS

SHOWN = 20
"""The maximum number of rows in a table."""

_DIGEST = re.compile(r"[0-9a-f]{32,}(?:-[0-9]+)?")
_CHANGE_COLUMNS = ("type", "change")
_COLOURS = {"added": "#2e9d62", "removed": "#d9603b", "changed": "#b0801f", "conflict": "#8a56c9"}
"""Colours that can be read on white and on black."""

_LEFT = ' style="text-align: left"'


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Return the first rows as a table without empty columns; read at most one more row."""
    first = list(islice(rows, SHOWN + 1))
    used = [each for each in columns if not first or any(_text(row.get(each)) for row in first)]
    body = "".join(
        f"<tr>{''.join(_cell(each, row.get(each)) for each in used)}</tr>" for row in first[:SHOWN]
    )
    head = "".join(f"<th{_LEFT}>{escape(each)}</th>" for each in used)
    more = f" (the first {SHOWN})" if len(first) > SHOWN else ""
    return (
        f"<table><caption>{escape(caption)}{more}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def fields_html(caption: str, fields: Mapping[str, object]) -> str:
    """Return names and values as a table of two columns."""
    rows = ({"name": name, "value": value} for name, value in fields.items())
    return html_table(caption, ["name", "value"], rows)


def text_table(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> list[str]:
    """Return the lines of the first rows as plain text, without empty columns."""
    first = list(islice(rows, SHOWN + 1))
    used = [each for each in columns if any(_text(row.get(each)) for row in first)]
    cells = [used, *([_short_text(row.get(each)) for each in used] for row in first[:SHOWN])]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]
    return [*lines, *(["..."] if len(first) > SHOWN else [])]


def _cell(column: str, value: object) -> str:
    text = _text(value)
    if _DIGEST.fullmatch(text):
        return f'<td{_LEFT} title="{text}"><code>{text[:CHECKSUM_DIGITS]}</code></td>'
    if column in _CHANGE_COLUMNS and text in _COLOURS:
        return f'<td style="text-align: left; color: {_COLOURS[text]}"><b>{text}</b></td>'
    return f"<td{'' if isinstance(value, int) else _LEFT}>{escape(text)}</td>"


def _short_text(value: object) -> str:
    text = _text(value)
    return text[:CHECKSUM_DIGITS] if _DIGEST.fullmatch(text) else text


def _text(value: object) -> str:
    if value is None or value == []:
        return ""
    if isinstance(value, datetime):
        return value.isoformat(" ", "seconds").replace("+00:00", "Z")
    if isinstance(value, dict):
        return ", ".join(filter(None, map(_short_text, value.values())))
    return str(value)
