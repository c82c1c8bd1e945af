"""Type checks of verb arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from inspect import unwrap
from os import PathLike
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, NamedTuple, TypeAlias, get_args, get_type_hints

from sparklake.errors import InvalidInputError, InvalidKeyError
from sparklake.graveler.guards import Action
from sparklake.verbs.base.once import Once

KEPT_FOR = timedelta(days=7)
"""The time for which a failed transaction's branch is kept from pruning, from its start."""

GRACE = timedelta(hours=6)
"""The default minimum age of an object that a collection deletes."""


BytesOrPath: TypeAlias = bytes | Path
Objects: TypeAlias = Mapping[str, BytesOrPath] | Iterable[tuple[str, BytesOrPath]]
"""Bytes or local files by path."""


class _ArgumentType(NamedTuple):
    """An argument's type: its noun in errors, and its check."""

    noun: str
    fits: Callable[[object], bool]


@dataclass(frozen=True, slots=True)
class ArgumentTypes:
    """The types of a method's arguments; unknown types are not checked."""

    verb: str
    names: Sequence[str]
    more: str
    types: Mapping[str, _ArgumentType]

    @staticmethod
    def of(name: str, method: Callable[..., Any]) -> ArgumentTypes:
        plain = unwrap(method)
        code = plain.__code__
        names = code.co_varnames[1 : code.co_argcount]
        (more,) = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :][:1] or ("",)
        types = {
            each: checked_type
            for each, annotation in plain.__annotations__.items()
            if each != "return"
            and (checked_type := _argument_type(annotation, plain.__globals__)) is not None
        }
        return ArgumentTypes(name, names, more, types)

    def check(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        """Check the arguments of a call; paths and prefixes raise InvalidKeyError."""
        positional = zip(self.names, arguments, strict=False)
        starred = ((self.more, value) for value in arguments[len(self.names) :])
        for name, value in (*positional, *starred, *keywords.items()):
            expected = self.types.get(name)
            if expected is not None and not expected.fits(value):
                error = InvalidKeyError if name in _KEYS else InvalidInputError
                raise error(
                    f"the argument {name!r} of {self.verb} must be {expected.noun}, not {value!r}"
                )


def _argument_type(annotation: str, names: dict[str, Any]) -> _ArgumentType | None:
    try:
        hints = get_type_hints(SimpleNamespace(__annotations__={"it": annotation}), names)
    except NameError:
        return None
    is_union = isinstance(hints["it"], UnionType)
    members = frozenset(get_args(hints["it"]) if is_union else [hints["it"]])
    match = _TYPES.get(members - {NoneType})
    if match is None or NoneType not in members:
        return match
    noun, fits = match
    return _ArgumentType(noun, lambda value: value is None or fits(value))


def _is_labels(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(each, str) for pair in value.items() for each in pair
    )


def _is_list(value: object) -> bool:
    # Readers of paths reject strings with advice, and check each path.
    return isinstance(value, Iterable) and not isinstance(value, bytes | Mapping)


def _is_pairs(value: object) -> bool:
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        return False
    return not isinstance(value, list | tuple) or all(
        isinstance(each, list | tuple) and len(each) == 2 for each in value
    )


_SINGLE: Mapping[Any, _ArgumentType] = {
    str: _ArgumentType("a string", lambda value: isinstance(value, str)),
    int: _ArgumentType("an integer", lambda value: isinstance(value, int)),
    datetime: _ArgumentType("a datetime", lambda value: isinstance(value, datetime)),
    timedelta: _ArgumentType("a timedelta", lambda value: isinstance(value, timedelta)),
    Mapping[str, str]: _ArgumentType("a mapping of strings to strings", _is_labels),
    Mapping[str, int]: _ArgumentType("a mapping", lambda value: isinstance(value, Mapping)),
    Sequence[str]: _ArgumentType("a list of strings", _is_list),
    Iterable[str]: _ArgumentType("a list of strings", _is_list),
    Iterable[Action | str]: _ArgumentType("a list of actions", _is_list),
    Iterable[tuple[str, str]]: _ArgumentType("a list of pairs", _is_pairs),
}
_TYPES: Mapping[frozenset[Any], _ArgumentType] = {
    **{frozenset([kind]): each for kind, each in _SINGLE.items()},
    frozenset([str, Path]): _ArgumentType(
        "a path", lambda value: isinstance(value, str | PathLike)
    ),
    frozenset([str, Once]): _ArgumentType(
        "a string, or a Once", lambda value: isinstance(getattr(value, "key", value), str)
    ),
    frozenset(get_args(Objects)): _ArgumentType(
        "a mapping, or a list of pairs",
        lambda value: isinstance(value, Mapping) or _is_pairs(value),
    ),
}
"""The checks of types, by the members of a union without None."""

_KEYS = frozenset({"path", "prefix"})
"""Parameters that become keys, and raise InvalidKeyError."""
