"""`replaceWhere` predicates: conjunctions of simple comparisons."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, TypeAlias

from sparklake.metadata.delta.union.schemas import columns_of

Value: TypeAlias = int | str
"""A number, or a string compared by characters, such as an ISO date."""

_TOKEN = re.compile(
    r"\s*(?:(?P<text>'[^'\\]*')|(?P<number>-?[0-9]+L?(?![\w.]))|(?P<name>`[^`]+`)"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign><=>|<=|>=|==|[=<>(),]))\s*"
)
_SIGNS = frozenset({"=", "==", "<=>", "<", "<=", ">", ">="})
_EQUAL = frozenset({"=", "==", "<=>"})
"""Signs with one meaning if one side is a literal other than NULL."""
_KEYWORDS = frozenset({"AND", "OR", "NOT", "IN", "BETWEEN", "IS", "LIKE", "NULL", "TRUE", "FALSE"})
_NUMBERS = frozenset({"byte", "short", "integer", "long"})
_WHOLE = re.compile(r"-?[0-9]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TEXT_CHARACTERS_IN_STATS = 32
"""The minimum length of a truncated string in statistics."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A SQL literal. Its kind is `number`, `text` or `date`."""

    kind: str
    value: Value


@dataclass(frozen=True, slots=True)
class Comparison:
    column: str
    sign: str
    literals: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Predicate:
    """A conjunction of comparisons over a table's columns."""

    comparisons: tuple[Comparison, ...]
    types: Mapping[str, tuple[str, str]]
    """Name in files and type, by lower-case name, of each column compared like literals."""

    def may_hold(self, add: Mapping[str, Any]) -> bool:
        """Return whether a row of a file may match, by its partition and statistics."""
        return all(self._comparison_may_hold(each, add) for each in self.comparisons)

    def _comparison_may_hold(self, comparison: Comparison, add: Mapping[str, Any]) -> bool:
        name, kind = self.types.get(comparison.column.lower(), ("", ""))
        values = [_value_of(kind, each) for each in comparison.literals]
        if not kind or None in values:
            return True
        low, high = _bounds(add, name, kind)
        return any(_may_compare(comparison.sign, each, low, high) for each in values)


def parse_predicate(text: str, metadata: Mapping[str, Any]) -> Predicate | None:
    """Parse a predicate on a table's columns, or return None for another grammar."""
    tokens, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            return None
        tokens.append((str(match.lastgroup), match[0].strip()))
        at = match.end()
    parser = _Parser(tokens)
    try:
        comparisons = tuple(parser.conjunction())
    except _OtherGrammarError:
        return None
    return None if parser.remaining else Predicate(comparisons, _types(metadata))


class _OtherGrammarError(Exception): ...


class _Parser:
    """A parser of conjunctions. `remaining` has the next token last."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.remaining = tokens[::-1]

    def conjunction(self) -> Iterator[Comparison]:
        yield from self._term()
        while self._accepts("AND"):
            yield from self._term()

    def _term(self) -> Iterator[Comparison]:
        if self._accepts("("):
            yield from self.conjunction()
            self._expect(")")
        else:
            yield from self._comparison()

    def _comparison(self) -> Iterator[Comparison]:
        column = self._column()
        if self._accepts("IN"):
            self._expect("(")
            literals = [self._literal()]
            while self._accepts(","):
                literals.append(self._literal())
            self._expect(")")
            yield Comparison(column, "=", tuple(literals))
        elif self._accepts("BETWEEN"):
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
        if not self.remaining:
            raise _OtherGrammarError
        return self.remaining.pop()

    def _accepts(self, word: str) -> bool:
        """Consume the next token if it is the given keyword or sign."""
        kind, text = self.remaining[-1] if self.remaining else ("name", "")
        is_match = kind != "name" and text.upper() == word
        if is_match:
            self.remaining.pop()
        return is_match

    def _expect(self, word: str) -> None:
        if not self._accepts(word):
            raise _OtherGrammarError


def _types(metadata: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return name and type of columns with plain comparison and unambiguous names."""
    columns = columns_of(metadata)
    counts = Counter(each["name"].lower() for each in columns.values())
    return {
        each["name"].lower(): (name, each["type"])
        for name, each in columns.items()
        if each["type"] in ("string", "date", *_NUMBERS)
        and not any(key.startswith("__") for key in each.get("metadata") or ())
        and counts[each["name"].lower()] == 1
    }


def _value_of(kind: str, literal: Literal) -> Value | None:
    """Convert a literal to a column's type, or return None if Spark would cast it."""
    if kind in _NUMBERS:
        return literal.value if literal.kind == "number" else None
    if kind == "date":
        return _parsed("date", literal.value) if literal.kind in ("date", "text") else None
    return literal.value if literal.kind == "text" else None


def _parsed(kind: str, value: object) -> Value | None:
    if kind in _NUMBERS:
        if isinstance(value, str) and _WHOLE.fullmatch(value):
            return int(value)
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    if not isinstance(value, str):
        return None
    if kind == "date":
        if not _DATE.fullmatch(value):
            return None
        try:
            date.fromisoformat(value)
        except ValueError:
            return None
    return value


def _bounds(add: Mapping[str, Any], name: str, kind: str) -> tuple[Value | None, Value | None]:
    """Return a column's minimum and maximum in a file, None if unknown."""
    partition = add.get("partitionValues") or {}
    if name in partition:
        value = _parsed(kind, partition[name])
        return value, value
    low, high = (_parsed(kind, each.get(name)) for each in _stats(add))
    if isinstance(high, str) and len(high) >= _TEXT_CHARACTERS_IN_STATS:
        high = None
    return low, high


def _stats(add: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    try:
        value = json.loads(add.get("stats") or "{}")
        low, high = value.get("minValues") or {}, value.get("maxValues") or {}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}, {}
    return (low, high) if isinstance(low, dict) and isinstance(high, dict) else ({}, {})


def _may_compare(sign: str, value: Any, low: Any, high: Any) -> bool:
    above = high is None or high > value
    below = low is None or low < value
    here = (high is None or high >= value) and (low is None or low <= value)
    return {"=": here, "<": below, "<=": below or here, ">": above, ">=": above or here}[sign]
