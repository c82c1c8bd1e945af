"""The strategy `rows(key)`: a three-way merge of a table's rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparklake.errors import InvalidInputError
from sparklake.graveler.algebra.classify import Strategy
from sparklake.strategies.functions import FunctionStrategy

if TYPE_CHECKING:
    import pyarrow as pa

    from sparklake.strategies.decisions import Take

_KEY_PROPERTY = "sparklake.key"
"""The property of a Delta or Iceberg table with its key columns, separated by commas."""

RowFunction = Callable[["pa.RecordBatch"], "Sequence[Take | str] | pa.Array"]
"""A function that returns a decision for each row of a batch of conflicts.

The columns of the batch are `key` (a struct of the key columns), `column` (null for a whole row),
and `base`, `source` and `dest` (structs of all columns, null if the row does not exist there).
"""

Parse = Callable[[str], FunctionStrategy]
"""A parser of a function's name."""

_WRITTEN = re.compile(r"rows(?:\((?P<arguments>.*)\))?", re.DOTALL)
_NEWEST = re.compile(r"newest\((?P<column>.*)\)", re.DOTALL)
# An argument ends at a comma outside of backticks and parentheses.
_QUOTE = r"`(?:[^`]|``)*`"
_ARGUMENT = re.compile(rf"(?:{_QUOTE}|\((?:{_QUOTE}|[^`()])*\)|[^`,()])+", re.DOTALL)
_OPTION = re.compile(r"(?P<name>columns|then)\s*=\s*(?P<value>.*)", re.DOTALL)
_QUOTED = re.compile(r"`(?P<name>(?:[^`]|``)+)`", re.DOTALL)
_PLAIN = re.compile(r"[^\s`,()=](?:[^`,()=]*[^\s`,()=])?")


@dataclass(frozen=True, slots=True)
class Newest:
    """Select the side with the greater value of a column."""

    column: str


Then = Strategy | Newest | FunctionStrategy | None
"""The resolution of conflicting rows, or None to leave them."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A merge of rows by `key`. An empty key is the table's own, from its properties.

    With `columns`, changes to different columns of a row merge. `then` resolves conflicts.
    """

    key: tuple[str, ...] = ()
    columns: bool = False
    then: Then = None

    @property
    def name(self) -> str:
        """The strategy as text, accepted by rules."""
        arguments = [*map(_column_text, self.key)]
        if self.columns:
            arguments.append("columns=true")
        if isinstance(self.then, Newest):
            arguments.append(f"then=newest({_column_text(self.then.column)})")
        elif self.then is not None:
            then = self.then.value if isinstance(self.then, Strategy) else self.then.name
            arguments.append(f"then={then}")
        return f"rows({', '.join(arguments)})"


def is_rows(text: str) -> bool:
    """Return whether a text has the form of a strategy for rows."""
    return _WRITTEN.fullmatch(text) is not None


def parse_rows(text: str, parse_function: Parse) -> Rows:
    """Parse `rows(a, b, columns=true, then=newest(c))`."""
    match = _WRITTEN.fullmatch(text)
    assert match is not None
    key, options = list[str](), dict[str, str]()
    for argument in _arguments(text, match["arguments"] or ""):
        option = _OPTION.fullmatch(argument)
        if option is None:
            key.append(_column_name(text, argument))
        elif option["name"] in options:
            raise _invalid(text, f"{option['name']!r} is given twice")
        else:
            options[option["name"]] = option["value"]
    columns = options.get("columns", "false").lower()
    if columns not in ("true", "false"):
        raise _invalid(text, f"columns is true or false, not {columns!r}")
    return checked_rows(
        tuple(key), columns == "true", parse_then(options.get("then"), parse_function)
    )


def checked_rows(key: Sequence[object], columns: object, then: Then) -> Rows:
    """Return a strategy for rows after verifying its arguments."""
    names = [each for each in key if isinstance(each, str) and each]
    if len(names) < len(key):
        raise InvalidInputError(f"the key of rows must be names of columns, not {key!r}")
    if len({*names}) < len(names):
        raise InvalidInputError(f"list each key column of rows once: {', '.join(names)}")
    if not isinstance(columns, bool):
        raise InvalidInputError(f"columns of rows must be True or False, not {columns!r}")
    return Rows(tuple(names), columns, then)


def parse_then(text: str | None, parse_function: Parse) -> Then:
    """Parse the resolution of conflicting rows."""
    if text is None or text == "none":
        return None
    if text in {each.value for each in Strategy}:
        return Strategy(text)
    newest = _NEWEST.fullmatch(text)
    if newest:
        return Newest(_column_name(text, newest["column"].strip()))
    return parse_function(text)


def key_in(properties: Mapping[str, str] | None) -> tuple[str, ...]:
    """Return the key in the properties of a table, possibly empty."""
    value = (properties or {}).get(_KEY_PROPERTY)
    if not value:
        return ()
    names = [_column_name(value, each) for each in _arguments(value, value)]
    return checked_rows(names, False, None).key


def _arguments(text: str, arguments: str) -> Iterator[str]:
    at = 0
    while at < len(arguments):
        match = _ARGUMENT.match(arguments, at)
        if match is None or arguments[match.end() : match.end() + 1] not in ("", ","):
            raise _invalid(text, "a name with a comma, a parenthesis or `=` needs backticks")
        yield match[0].strip()
        at = match.end() + 1
    if arguments.endswith(","):
        raise _invalid(text, "it ends with a comma")


def _column_name(text: str, column: str) -> str:
    quoted = _QUOTED.fullmatch(column)
    if quoted:
        return quoted["name"].replace("``", "`")
    if not _PLAIN.fullmatch(column):
        raise _invalid(text, f"{column!r} is not the name of a column")
    return column


def _column_text(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else f"`{name.replace('`', '``')}`"


def _invalid(text: str, why: str) -> InvalidInputError:
    return InvalidInputError(
        f"{text!r} is not a strategy for rows: {why}. Write it as rows(a, b), "
        "rows(a, columns=true) or rows(a, then=newest(updated_at))"
    )
