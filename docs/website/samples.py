"""Sample arguments of functions, built from type hints. The values have no meaning."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from itertools import product
from typing import Any, Union, get_args, get_origin, get_type_hints
from unittest.mock import MagicMock

from sparklake.documents import SIDES
from sparklake.errors import HookFailedError, InvalidImportError, MergeConflictError, SparklakeError
from sparklake.rows.diffs import ThreeWayRow

TEXT = "*"


def samples(function: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    """Yield keyword arguments of a function, for each alternative of its types."""
    hints = _hints(function, function.__module__)
    hints.pop("return")
    for values in product(*(list(_alternatives(each)) for each in hints.values())):
        yield dict(zip(hints, values, strict=True))


def _alternatives(hint: Any) -> Iterator[Any]:
    if hint is SparklakeError:
        yield from (hint(""), HookFailedError(""), InvalidImportError(""))
        conflict = MergeConflictError("", [_sample(ThreeWayRow, ())])
        columns = ("table", "key", "column", *SIDES)
        conflict.first_conflict_rows = [dict.fromkeys(columns)]
        yield conflict
    else:
        yield from (_sample(each, ()) for each in _members(hint))


def _members(hint: Any) -> list[Any]:
    """Return the types of a union other than None, or the type itself."""
    is_union = get_origin(hint) in {Union, types.UnionType}
    return [each for each in get_args(hint) if each is not type(None)] if is_union else [hint]


def _sample(hint: Any, owners: tuple[type, ...]) -> Any:
    hint = getattr(_members(hint)[0], "__supertype__", _members(hint)[0])
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple and arguments[1:] != (...,):
        return tuple(_sample(each, owners) for each in arguments)
    if origin in {tuple, list, frozenset, Sequence}:
        return (tuple if origin is Sequence else origin)([_sample(arguments[0], owners)])
    if origin in {dict, Mapping}:
        if arguments[1] in owners:
            return {}
        keys = arguments[0] if isinstance(arguments[0], type(Enum)) else [TEXT]
        return {key: _sample(arguments[1], owners) for key in keys}
    if isinstance(hint, type(Enum)):
        return next(iter(hint))
    if is_dataclass(hint) and isinstance(hint, type):
        return _record(hint, (*owners, hint))
    if hint is str:
        return TEXT
    return hint(1) if hint in {int, float, bool} else MagicMock()


def _record(kind: type, owners: tuple[type, ...]) -> Any:
    """Return a record without the checks of its constructor."""
    record = object.__new__(kind)
    hints = _hints(kind, kind.__module__)
    for each in fields(kind):
        object.__setattr__(record, each.name, _sample(hints[each.name], owners))
    return record


def _hints(found: Any, module: str) -> dict[str, Any]:
    return get_type_hints(found, _names(module))


@cache
def _names(module: str) -> dict[str, Any]:
    """Return the names of a module, also those that only type checkers import."""
    found = import_module(module)
    names = dict(vars(found))
    blocks = (node for node in ast.parse(inspect.getsource(found)).body if isinstance(node, ast.If))
    for statement in (each for block in blocks for each in block.body):
        # A module that only type checkers import may have names that only they know.
        with suppress(ImportError):
            exec(compile(ast.Module([statement], []), module, "exec"), names)  # noqa: S102
    return names
