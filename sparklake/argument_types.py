"""Type checks of verbs' arguments in Python, before a verb begins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import wraps
from inspect import isfunction, unwrap
from os import PathLike
from typing import Any, NamedTuple, TypeVar

from sparklake.errors import InvalidInputError, InvalidKeyError

Noun = TypeVar("Noun")


def _is_labels(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(each, str) for pair in value.items() for each in pair
    )


def _is_list(value: object) -> bool:
    # Readers of paths refuse strings with advice, and check each path.
    return isinstance(value, Iterable) and not isinstance(value, bytes | Mapping)


def _is_pairs(value: object) -> bool:
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        return False
    return not isinstance(value, list | tuple) or all(
        isinstance(each, list | tuple) and len(each) == 2 for each in value
    )


_KINDS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "str": ("a string", lambda value: isinstance(value, str)),
    "str | Path": ("a path", lambda value: isinstance(value, str | PathLike)),
    "str | Once": (
        "a string, or a Once",
        lambda value: isinstance(getattr(value, "key", value), str),
    ),
    "int": ("an integer", lambda value: isinstance(value, int)),
    "datetime": ("a datetime", lambda value: isinstance(value, datetime)),
    "timedelta": ("a timedelta", lambda value: isinstance(value, timedelta)),
    "Mapping[str, str]": ("a mapping of strings to strings", _is_labels),
    "Mapping[str, int]": ("a mapping", lambda value: isinstance(value, Mapping)),
    "Sequence[str]": ("a list of strings", _is_list),
    "Iterable[str]": ("a list of strings", _is_list),
    "Iterable[Action | str]": ("a list of actions", _is_list),
    "Iterable[tuple[str, str]]": ("a list of pairs", _is_pairs),
    "Objects": (
        "a mapping, or a list of pairs",
        lambda value: isinstance(value, Mapping) or _is_pairs(value),
    ),
}
"""The name in errors, and the check of a value, for each annotation."""

_KEYS = frozenset({"path", "prefix"})
"""Parameters that become keys, and raise InvalidKeyError."""


def checks_arguments(noun: type[Noun]) -> type[Noun]:
    """Make a class's verbs raise InvalidInputError for arguments of the wrong type.

    Unknown annotations are not checked here, but in the verbs.
    """
    for name, verb in list(vars(noun).items()):
        if isfunction(verb) and not name.startswith("_"):
            setattr(noun, name, _checking(name, verb))
    return noun


def _checking(verb_name: str, verb: Callable[..., Any]) -> Callable[..., Any]:
    found = unwrap(verb)
    annotations, code = found.__annotations__, found.__code__
    names = code.co_varnames[1 : code.co_argcount]
    (more,) = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :][:1] or ("",)
    kinds = {name: kind for name, each in annotations.items() if (kind := _kind(name, each))}
    if not kinds:
        return verb

    @wraps(verb)
    def checking(self: object, *arguments: Any, **words: Any) -> Any:
        for name, value in zip(names, arguments, strict=False):
            if name in kinds and not kinds[name].fits(value):
                raise _wrong(verb_name, name, kinds[name], value)
        for value in arguments[len(names) :]:
            if more in kinds and not kinds[more].fits(value):
                raise _wrong(verb_name, more, kinds[more], value)
        for name, value in words.items():
            if name in kinds and not kinds[name].fits(value):
                raise _wrong(verb_name, name, kinds[name], value)
        return verb(self, *arguments, **words)

    return checking


class _Kind(NamedTuple):
    """The type of an argument: its name in errors, and the check of a value."""

    noun: str
    fits: Callable[[object], bool]


def _kind(name: str, annotation: str) -> _Kind | None:
    plain = annotation.removesuffix(" | None")
    if name == "return" or plain not in _KINDS:
        return None
    noun, fits = _KINDS[plain]
    if plain == annotation:
        return _Kind(noun, fits)
    return _Kind(noun, lambda value: value is None or fits(value))


def _wrong(verb_name: str, name: str, kind: _Kind, value: object) -> InvalidInputError:
    error = InvalidKeyError if name in _KEYS else InvalidInputError
    return error(f"the argument {name!r} of {verb_name} must be {kind.noun}, not {value!r}")
