"""`replaceWhere` predicates: conjunctions of simple comparisons."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, TypeAlias

from sparklake.delta_log.union.claims import schema_fields

Value: TypeAlias = int | str
"""A number, or a string that compares by its characters, as ISO dates do."""

_TOKEN = re.compile(
    r"\s*(?:(?P<text>'[^'\\]*')|(?P<number>-?[0-9]+L?(?![\w.]))|(?P<name>`[^`]+`)"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign><=>|<=|>=|==|[=<>(),]))\s*"
)
_SIGNS = frozenset({"=", "==", "<=>", "<", "<=", ">", ">="})
_EQUAL = frozenset({"=", "==", "<=>"})
"""Signs that are equivalent if one side is a literal other than NULL."""
_KEYWORDS = frozenset({"AND", "OR", "NOT", "IN", "BETWEEN", "IS", "LIKE", "NULL", "TRUE", "FALSE"})
_NUMBERS = frozenset({"byte", "short", "integer", "long"})
_WHOLE = re.compile(r"-?[0-9]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TEXT_CHARACTERS_IN_STATS = 32
"""The length from which a string in statistics may be truncated."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal of SQL. Its kind is `number`, `text` or `date`."""

    kind: str
    value: Value


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a column with literals, by a sign or by IN."""

    column: str
    sign: str
    literals: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Predicate:
    """A conjunction of comparisons over a table's columns."""

    comparisons: tuple[Comparison, ...]
    types: Mapping[str, tuple[str, str]]
    """Name and type, by lower-case name, of each column that compares as literals do."""

    def may_hold(self, add: Mapping[str, Any]) -> bool:
        """Return whether a row of a file may satisfy the predicate.

        It uses the file's partition and statistics. Unknown values may satisfy everything.
        """
        return all(self._comparison_may_hold(each, add) for each in self.comparisons)

    def _comparison_may_hold(self, comparison: Comparison, add: Mapping[str, Any]) -> bool:
        name, kind = self.types.get(comparison.column.lower(), ("", ""))
        values = [_value_of(kind, each) for each in comparison.literals]
        wanted = [each for each in values if each is not None]
        if not kind or len(wanted) < len(values):
            return True
        low, high = _bounds(add, name, kind)
        return any(_may_compare(comparison.sign, each, low, high) for each in wanted)


def parse_predicate(text: str, metadata: Mapping[str, Any]) -> Predicate | None:
    """Parse a predicate on a table's columns, or return None for another grammar."""
    tokens, at = [], 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            return None
        tokens.append((str(found.lastgroup), found[0].strip()))
        at = found.end()
    parser = _Parser(tokens)
    try:
        comparisons = [*parser.conjunction()]
    except _OtherGrammarError:
        return None
    return Predicate(tuple(comparisons), _types(metadata)) if parser.is_done else None


class _OtherGrammarError(Exception):
    """An error for an unsupported predicate."""


class _Parser:
    """A parser of conjunctions, with the remaining tokens as its state."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._left = tokens[::-1]

    @property
    def is_done(self) -> bool:
        return not self._left

    def conjunction(self) -> Iterator[Comparison]:
        """Yield the comparisons up to the end or to a closing bracket."""
        yield from self._term()
        while self._takes("AND"):
            yield from self._term()

    def _term(self) -> Iterator[Comparison]:
        if self._takes("("):
            yield from self.conjunction()
            self._expect(")")
        else:
            yield from self._comparison()

    def _comparison(self) -> Iterator[Comparison]:
        column = self._column()
        if self._takes("IN"):
            self._expect("(")
            literals = [self._literal()]
            while self._takes(","):
                literals.append(self._literal())
            self._expect(")")
            yield Comparison(column, "=", tuple(literals))
        elif self._takes("BETWEEN"):
            yield Comparison(column, ">=", (self._literal(),))
            self._expect("AND")
            yield Comparison(column, "<=", (self._literal(),))
        else:
            kind, sign = self._next()
            if kind != "sign" or sign not in _SIGNS:
                raise _OtherGrammarError
            yield Comparison(column, "=" if sign in _EQUAL else sign, (self._literal(),))

    def _column(self) -> str:
        kind, text = self._next()
        if kind == "name":
            return text[1:-1]
        if kind != "word" or text.upper() in _KEYWORDS:
            raise _OtherGrammarError
        return text

    def _literal(self) -> Literal:
        kind, text = self._next()
        if kind == "word" and text.upper() == "DATE":
            kind, text = self._next()
            if kind == "text":
                return Literal("date", text[1:-1])
        elif kind == "text":
            return Literal(kind, text[1:-1])
        elif kind == "number":
            return Literal(kind, int(text.removesuffix("L")))
        raise _OtherGrammarError

    def _next(self) -> tuple[str, str]:
        if not self._left:
            raise _OtherGrammarError
        return self._left.pop()

    def _takes(self, wanted: str) -> bool:
        """Consume the next token if it is the wanted keyword or sign."""
        if self._left and self._left[-1][0] != "name" and self._left[-1][1].upper() == wanted:
            self._left.pop()
            return True
        return False

    def _expect(self, wanted: str) -> None:
        if not self._takes(wanted):
            raise _OtherGrammarError


def _types(metadata: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the names and types of columns with the comparison rules of literals.

    Columns with other rules, such as collations and CHAR(n), are omitted, and so are columns whose
    names differ only in case.
    """
    found: dict[str, tuple[str, str]] = {}
    twice = set()
    for each in schema_fields(metadata):
        small = each["name"].lower()
        if small in found:
            twice.add(small)
        ruled = any(key.startswith("__") for key in each.get("metadata") or ())
        plain = each["type"] in ("string", "date", *_NUMBERS)
        found[small] = (each["name"], each["type"] if plain and not ruled else "")
    return {name: each for name, each in found.items() if each[1] and name not in twice}


def _value_of(kind: str, literal: Literal) -> Value | None:
    """Return a literal as a value of a column's type, or None if Spark would convert it."""
    if kind in _NUMBERS:
        return literal.value if literal.kind == "number" else None
    if kind == "date":
        return _parsed("date", literal.value) if literal.kind in ("date", "text") else None
    return literal.value if literal.kind == "text" else None


def _parsed(kind: str, said: object) -> Value | None:
    """Parse a log's value as a value of a type, or return None."""
    if kind in _NUMBERS:
        if isinstance(said, str) and _WHOLE.fullmatch(said):
            return int(said)
        return said if isinstance(said, int) and not isinstance(said, bool) else None
    if not isinstance(said, str):
        return None
    if kind == "date":
        return said if _is_date(said) else None
    return said


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _bounds(add: Mapping[str, Any], name: str, kind: str) -> tuple[Value | None, Value | None]:
    """Return a column's least and greatest value in a file, None if unknown."""
    partition = add.get("partitionValues") or {}
    if name in partition:
        value = _parsed(kind, partition[name])
        return value, value
    low, high = (_parsed(kind, each.get(name)) for each in _stats(add))
    if isinstance(high, str) and len(high) >= _TEXT_CHARACTERS_IN_STATS:
        high = None
    return low, high


def _stats(add: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the least and greatest values by column, or nothing without statistics."""
    try:
        said = json.loads(add.get("stats") or "{}")
        low, high = said.get("minValues") or {}, said.get("maxValues") or {}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}, {}
    return (low, high) if isinstance(low, dict) and isinstance(high, dict) else ({}, {})


def _may_compare(sign: str, value: Any, low: Any, high: Any) -> bool:
    """Return whether a value between two bounds may satisfy a comparison."""
    above = high is None or high > value
    below = low is None or low < value
    here = (high is None or high >= value) and (low is None or low <= value)
    return {"=": here, "<": below, "<=": below or here, ">": above, ">=": above or here}[sign]
