"""Idempotency keys, recorded with the result in the same transaction as the change."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, is_dataclass, replace
from datetime import date, timedelta
from enum import Enum
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any, Generic, TypeVar, cast
from uuid import uuid4

from sparklake import errors
from sparklake.graveler.commits import Commit
from sparklake.graveler.ids import CommitId
from sparklake.verbs.base.context import Context, OnceRun

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class VerbResult(Generic[T]):
    """The value of a verb's run, and its outcome.

    A `repeated` run returns and reports the result of the first run with its idempotency key.
    `stored` is the recorded form of the value.
    """

    value: T
    changed: bool = True
    repeated: bool = False
    stored: Mapping[str, Any] | None = None

    def returned(self) -> T:
        """Return this result from a façade method: the runner unwraps it for callers."""
        return cast("T", self)


MAX_KEY_CHARACTERS = 255
_HASHED_AT_ONCE = 1 << 20
_UNCHANGED = {"nothing_to_do": True}
"""The flag of a stored result whose run changed nothing."""


@dataclass(frozen=True, slots=True)
class Once:
    """The idempotency key of a verb's run. `inputs` are compared like arguments."""

    key: str
    inputs: Sequence[str] = ()

    @staticmethod
    def of(once: str | Once) -> Once:
        """Return an idempotency key, given as a string or a `Once`."""
        return once if isinstance(once, Once) else Once(once)


@dataclass(frozen=True, slots=True)
class ResultCodec(Generic[T]):
    """The stored form of a verb's result: a small JSON object."""

    encode: Callable[[T], Mapping[str, Any]]
    decode: Callable[[Context, Mapping[str, Any]], T]


# Commits never change, so their ids are enough.
COMMIT: ResultCodec[Commit] = ResultCodec(
    lambda commit: {"commit": commit.id},
    lambda context, result: context.graph.commit(CommitId(result["commit"])),
)
COMMITS: ResultCodec[list[Commit]] = ResultCodec(
    lambda commits: {"commits": [each.id for each in commits]},
    lambda context, result: [context.graph.commit(CommitId(each)) for each in result["commits"]],
)
COUNT: ResultCodec[int] = ResultCodec(
    lambda count: {"count": count}, lambda _, result: int(result["count"])
)
NOTHING: ResultCodec[None] = ResultCodec(lambda _: {}, lambda _, result: None)


def run_once(
    context: Context, once: Once, digest: str, codec: ResultCodec[T], act: Callable[[Context], T]
) -> VerbResult[T]:
    """Return the result of `act`, or of an earlier run with the key."""
    with once_scope(context, once, digest, codec) as scope:
        if scope.earlier is not None:
            return _decoded(scope.earlier, context, codec)
        try:
            value = act(scope.context)
        except errors.SparklakeError:
            # Another run may have acted, or this one, and only the answer was lost.
            landed = None
            with suppress(errors.RefStoreUnavailableError):
                landed = scope.find()
            if landed is None:
                raise
            return _decoded(landed, context, codec)
        record = scope.finish(codec.encode(value))
        return VerbResult(value, record.changed, record.repeated, record.stored)


def _decoded(record: VerbResult[None], context: Context, codec: ResultCodec[T]) -> VerbResult[T]:
    value = codec.decode(context, record.stored or {})
    return VerbResult(value, record.changed, record.repeated, record.stored)


@dataclass(frozen=True, slots=True)
class OnceScope:
    """A run with an idempotency key, and the earlier recorded run if there is one."""

    context: Context
    run: OnceRun
    earlier: VerbResult[None] | None = None

    def find(self) -> VerbResult[None] | None:
        record = self.context.refs.once_keys.find(self.run.key)
        if record is None:
            return None
        if record.digest != self.run.digest:
            raise errors.IdempotencyKeyReusedError(
                f"the idempotency key {self.run.key!r} was used with another verb or other "
                "arguments. Nothing was changed. Use a new key for a new change"
            )
        stored = {key: value for key, value in record.result.items() if key not in _UNCHANGED}
        return VerbResult(
            None,
            changed=not _UNCHANGED.items() <= record.result.items(),
            repeated=record.run != self.run.id,
            stored=stored,
        )

    def finish(self, stored: Mapping[str, Any]) -> VerbResult[None]:
        """Return the recorded run, or record this one as a no-op."""
        landed = self.find()
        if landed is not None:
            return landed
        self.context.refs.once_keys.add(self.run.stored({**stored, **_UNCHANGED}))
        return VerbResult(None, changed=False, stored=stored)


@contextmanager
def once_scope(
    context: Context, once: Once, digest: str, codec: ResultCodec[T]
) -> Iterator[OnceScope]:
    """Hold the queue slot of a key during a run."""
    _check_key(once.key)
    terms = context.once_terms
    run = OnceRun(once.key, digest, uuid4().hex, codec.encode, terms.lifetime)
    scope = OnceScope(replace(context, once=run), run)
    with context.refs.once_keys.turn(once.key, terms.wait_seconds) as is_held:
        earlier = scope.find()
        if earlier is None and not is_held:
            raise errors.IdempotencyKeyInUseError.of(once.key)
        yield replace(scope, earlier=earlier)


def digest_of(verb: str, target: str, once: Once, arguments: Mapping[str, Any]) -> str:
    """Return the digest of a verb and its normalised arguments. `target` is usually a branch."""
    parts = [once.key, verb, target, list(once.inputs), normalised(arguments)]
    text = json.dumps(parts, sort_keys=True)
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def normalised(value: Any) -> Any:
    """Return the JSON form of an argument; bytes are hashed, rows and streams ignored."""
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


def compared_arguments(bound: inspect.BoundArguments, files: Sequence[str]) -> Mapping[str, Any]:
    """Return the non-default arguments of a method; `files` are compared by content."""
    (self_name, *_), values = bound.signature.parameters, dict(bound.arguments)
    for name in (self_name, "once"):
        values.pop(name, None)
    defaults = {name: each.default for name, each in bound.signature.parameters.items()}
    return {
        name: _file_digest(value) if name in files else value
        for name, value in values.items()
        if not (isinstance(value, bool | str | None) and value == defaults[name])
    }


def _file_digest(file: Any) -> Any:
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


def _check_key(key: object) -> None:
    if not (isinstance(key, str) and 1 <= len(key) <= MAX_KEY_CHARACTERS and key.isprintable()):
        raise errors.InvalidInputError(
            f"{key!r} is not an idempotency key: use 1 to {MAX_KEY_CHARACTERS} printable "
            "characters, such as the names and the date of a scheduled run"
        )
