"""Wider column types, in the JSON form used by Spark and Delta."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import combinations
from typing import Any

_WIDER = {
    *combinations(("byte", "short", "integer", "long"), 2),
    *((each, "double") for each in ("byte", "short", "integer", "float")),
    ("date", "timestamp_ntz"),
}
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def common_type(one: Any, other: Any, rule: Callable[[str], str] = str) -> Any:
    """Return the type with all values and fields of both, or None.

    Fields have the same name if `rule` maps them to the same text.
    """
    if isinstance(one, str) and isinstance(other, str):
        if one == other or _holds(one, other):
            return one
        return other if _holds(other, one) else None
    if not (isinstance(one, dict) and isinstance(other, dict) and one["type"] == other["type"]):
        return one if one == other else None
    if one["type"] == "struct":
        return _common_struct(one, other, rule)
    parts = {
        part: common_type(one[part], other[part], rule)
        for part in ("elementType", "keyType", "valueType")
        if part in one
    }
    return None if None in parts.values() else {**one, **parts}


def _common_struct(one: Any, other: Any, rule: Callable[[str], str]) -> Any:
    others = {rule(each["name"]): each for each in other["fields"]}
    fields = []
    for field in one["fields"]:
        match = others.pop(rule(field["name"]), field)
        kind = common_type(field["type"], match["type"], rule)
        if kind is None:
            return None
        fields.append({**field, "type": kind, "nullable": True})
    return {**one, "fields": [*fields, *({**each, "nullable": True} for each in others.values())]}


def _holds(new: str, old: str) -> bool:
    """Return whether an atomic type has all values of another one."""
    decimal = _DECIMAL.fullmatch(new)
    if decimal is None:
        return (old, new) in _WIDER
    match = _DECIMAL.fullmatch(old)
    digits, scale = map(int, match.groups()) if match else (_DIGITS.get(old, 99), 0)
    before = digits - scale if match else digits
    return int(decimal[1]) - int(decimal[2]) >= before and int(decimal[2]) >= scale
