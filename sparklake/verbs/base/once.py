"""Once keys: runs of verbs that take effect once, however often they are repeated.

The key and the result of a run are recorded in the transaction of its change. A run with a recorded
key returns that result. So a run that was killed at any moment can be repeated.
"""

from __future__ import annotations

import copy
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass, replace
from datetime import date, timedelta
from enum import Enum
from functools import wraps
from hashlib import sha256
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any, Generic, ParamSpec, TypeVar
from uuid import uuid4

from sparklake.errors import (
    InvalidInputError,
    OnceKeyBusyError,
    OnceKeyReusedError,
    RefStoreUnavailableError,
    SparklakeError,
)
from sparklake.graveler.commits import Commit
from sparklake.graveler.ids import CommitId
from sparklake.verbs.base.context import Context, OnceRun
from sparklake.verbs.base.if_needed import IfNeeded

MAX_KEY_CHARACTERS = 255
_HASHED_AT_ONCE = 1 << 20
_UNCHANGED = {"nothing_to_do": True}
"""The mark of a stored result whose run has changed nothing."""

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class Once:
    """The once key of one run of a verb, and what became of the run.

    `inputs` are compared like arguments: use them for the source of rows. After the verb,
    `repeated` tells whether the result is that of an earlier run, `result` is the stored result,
    and `changed` tells whether the run of the result changed anything.
    """

    key: str
    inputs: Sequence[str] = ()
    repeated: bool = False
    result: Mapping[str, Any] | None = None
    changed: bool = True

    @staticmethod
    def of(once: Any) -> Once:
        """Return a once key that may be given as a string."""
        return once if isinstance(once, Once) else Once(once)


@dataclass(frozen=True, slots=True)
class ResultCodec(Generic[T]):
    """The form in which the result of a verb is stored: a small JSON object."""

    encode: Callable[[T], Mapping[str, Any]]
    decode: Callable[[Context, Mapping[str, Any]], T]


# Commits never change, so their ids are enough.
COMMIT: ResultCodec[Commit] = ResultCodec(
    lambda made: {"commit": made.id},
    lambda context, result: context.graph.commit(CommitId(result["commit"])),
)
COMMITS: ResultCodec[list[Commit]] = ResultCodec(
    lambda made: {"commits": [each.id for each in made]},
    lambda context, result: [context.graph.commit(CommitId(each)) for each in result["commits"]],
)
COUNT: ResultCodec[int] = ResultCodec(
    lambda count: {"count": count}, lambda _, result: int(result["count"])
)
NOTHING: ResultCodec[None] = ResultCodec(lambda _: {}, lambda _, result: None)


def runs_once(
    verb: str,
    codec: ResultCodec[Any] | str,
    files: tuple[str, ...] = (),
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator for a method with a parameter `once`, whose context has the key.

    The method's object has the attribute `_context`, and maybe the `name` of a branch. The method
    runs on a copy of it. The other arguments of the method are compared with those of the first
    run. `files` are parameters that name local files: their contents are compared. A codec may be
    the name of the module whose RESULT it is, which is imported with the first key.
    """

    def decorate(method: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(method)
        at = _position(signature)

        @wraps(method)
        def run(*given: P.args, **named: P.kwargs) -> T:
            once = named.get("once", given[at] if at < len(given) else None)
            if once is None:
                return method(*given, **named)
            target, *_ = given
            arguments = _arguments(signature.bind(*given, **named), files)
            terms = Once.of(once)
            digest = digest_of(verb, getattr(target, "name", ""), terms, arguments)

            def act(context: Context) -> T:
                keyed = copy.copy(target)
                keyed._context = context  # type: ignore[attr-defined]
                return method(keyed, *given[1:], **named)  # type: ignore[arg-type]

            found: ResultCodec[T] = import_module(codec).RESULT if isinstance(codec, str) else codec
            made = run_once(_context_of(target), terms, digest, found, act)
            for each in arguments.values():
                if isinstance(each, IfNeeded):
                    each.changed = terms.changed
            return made

        return run

    return decorate


def run_once(
    context: Context,
    once: Once,
    digest: str,
    codec: ResultCodec[T],
    act: Callable[[Context], T],
) -> T:
    """Return the result of `act`, or the result of an earlier run with the same key.

    Of concurrent runs with one key, one acts and the others wait for it. Raises OnceKeyReusedError
    for another digest, and OnceKeyBusyError if the wait is too long.
    """
    with once_scope(context, once, digest, codec) as scope:
        if scope.context is None:
            return codec.decode(context, once.result or {})
        try:
            made = act(scope.context)
        except SparklakeError:
            # Another run may have acted, or this one, and only the answer was lost.
            if not scope.has_landed():
                raise
            return codec.decode(context, once.result or {})
        scope.finish(codec.encode(made))
        return made


@dataclass(slots=True)
class OnceScope:
    """A run with a once key. `context` is None if there is nothing to do: it has run before."""

    keys: Context
    once: Once
    run: OnceRun
    context: Context | None = None

    def look(self) -> bool:
        """Return whether the key is recorded, and note the result."""
        found = self.keys.refs.once_keys.find(self.once.key)
        if found is None:
            return False
        if found.digest != self.run.digest:
            raise OnceKeyReusedError(
                f"the once key {self.once.key!r} was used with another verb or other arguments. "
                "Nothing was changed. Use a new key for a new change"
            )
        self.once.repeated = found.run != self.run.id
        self.once.changed = not _UNCHANGED.items() <= found.result.items()
        self.once.result = {
            name: value for name, value in found.result.items() if name not in _UNCHANGED
        }
        return True

    def has_landed(self) -> bool:
        """Return whether the key is recorded; False if that cannot be known."""
        try:
            return self.look()
        except RefStoreUnavailableError:
            return False

    def finish(self, result: Mapping[str, Any]) -> None:
        """Record the result of a run that has changed nothing."""
        if not self.look():
            self.keys.refs.once_keys.add(self.run.stored({**result, **_UNCHANGED}))
            self.once.result, self.once.changed = result, False


@contextmanager
def once_scope(
    context: Context, once: Once, digest: str, codec: ResultCodec[T]
) -> Iterator[OnceScope]:
    """Hold the turn of a key during a run."""
    _check_key(once.key)
    terms = context.once_terms
    run = OnceRun(once.key, digest, uuid4().hex, codec.encode, terms.lifetime)
    scope = OnceScope(context, once, run)
    with context.refs.once_keys.turn(once.key, terms.wait_seconds) as is_held:
        if not scope.look():
            if not is_held:
                raise OnceKeyBusyError.of(once.key)
            scope.context = replace(context, once=run)
        yield scope


def digest_of(verb: str, target: str, once: Once, arguments: Mapping[str, Any]) -> str:
    """Return the digest of a verb and its normalised arguments. `target` is mostly a branch."""
    said = [once.key, verb, target, list(once.inputs), normalised(arguments)]
    text = json.dumps(said, sort_keys=True)
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def normalised(value: Any) -> Any:
    """Return the JSON value that stands for an argument.

    Bytes are hashed. Rows and streams are not compared: reading them would be the work.
    """
    if type(value) in _PLAIN:
        return value
    for kinds, form in _FORMS:
        if isinstance(value, kinds):
            return form(value)
    if is_dataclass(value) and not isinstance(value, type):
        return normalised(asdict(value))
    name = getattr(value, "__qualname__", None)
    return {"stream": True} if name is None else {"name": f"{value.__module__}:{name}"}


_PLAIN = (type(None), bool, int, float, str)
_FORMS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (Enum, lambda value: normalised(value.value)),
    (IfNeeded, bool),
    (str, str),
    ((int, float), float),
    ((bytes, bytearray, memoryview), lambda value: {"sha256": sha256(value).hexdigest()}),
    (PurePath, str),
    (timedelta, lambda value: value.total_seconds()),
    (date, lambda value: value.isoformat()),
    (Mapping, lambda value: {str(name): normalised(each) for name, each in value.items()}),
    ((list, tuple), lambda value: [normalised(each) for each in value]),
    ((set, frozenset), lambda value: sorted(map(str, value))),
)


def _position(signature: inspect.Signature) -> int:
    """Return the position of the parameter `once`, or a number above all positions."""
    kinds = {name: each.kind for name, each in signature.parameters.items()}
    if kinds["once"] is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
        return sys.maxsize
    return list(kinds).index("once")


def _arguments(bound: inspect.BoundArguments, files: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the arguments of a method that differ from its defaults, without the key.

    So a parameter that a later version adds does not change the digest.
    """
    (self_name, *_), given = bound.signature.parameters, dict(bound.arguments)
    for name in (self_name, "once"):
        given.pop(name, None)
    defaults = {name: each.default for name, each in bound.signature.parameters.items()}
    return {
        name: _file_digest(value) if name in files else value
        for name, value in given.items()
        if not (isinstance(value, bool | str | None) and value == defaults[name])
    }


def _file_digest(file: Any) -> Any:
    """Return the digest of a file's contents, or its name if it is no readable file."""
    digest = sha256()
    try:
        if not Path(file).is_file():
            return str(file)  # To read a FIFO would empty it. The verb reports it.
        with Path(file).open("rb") as source:
            while chunk := source.read(_HASHED_AT_ONCE):
                digest.update(chunk)
    except OSError:
        return str(file)
    return {"sha256": digest.hexdigest()}


def _context_of(target: Any) -> Context:
    found: Context = target._context
    return found


def _check_key(key: object) -> None:
    if not (isinstance(key, str) and 1 <= len(key) <= MAX_KEY_CHARACTERS and key.isprintable()):
        raise InvalidInputError(
            f"{key!r} is not a once key: use 1 to {MAX_KEY_CHARACTERS} printable characters, such "
            "as the names and the date of a scheduled run"
        )
