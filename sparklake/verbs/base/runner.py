"""The runner of all verbs.

`runs_verbs` and `verb` check arguments, return the recorded result of a repeated run, and return
the head for a no-op with `if_needed`. `restarts` restarts a verb from scratch, with a version that
has a conflicting address, or after a garbage collection. `with_branch_queue` retries attempts that
lose a race. An import only restarts its attempts: its source may be readable only once.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from importlib import import_module
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from sparklake import errors
from sparklake.verbs.base.arguments import ArgumentTypes
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.once import (
    Once,
    ResultCodec,
    VerbResult,
    compared_arguments,
    digest_of,
    run_once,
)

MAX_ATTEMPTS = 10
_GC_ATTEMPTS = 5
_TURN_SECONDS = 10.0
_WAIT_SECONDS = 0.02
_MAX_WAIT_SECONDS = 0.5

Noun = TypeVar("Noun")
P = ParamSpec("P")
T = TypeVar("T")

# --- public methods: arguments, idempotency keys, no-ops ------------------------------------------


@dataclass(frozen=True, slots=True)
class verb:  # noqa: N801  (a decorator)
    """Declare a method with a parameter `once` in a class with the decorator `runs_verbs`.

    `codec` is the form of the result, or the module of its RESULT, imported on demand. `files` are
    parameters with local file names, compared by content. For a verb with `if_needed`, `head`
    returns the result of a no-op. The object has a `_context` and, for a branch, its `name`.
    """

    name: str = ""
    codec: ResultCodec[Any] | str = ""
    files: Sequence[str] = ()
    head: Callable[[Any, Mapping[str, Any]], Any] | None = None

    def __call__(self, method: Callable[P, T]) -> Callable[P, T]:
        setattr(method, "verb_options", self)  # noqa: B010
        return method


def runs_verbs(noun: type[Noun]) -> type[Noun]:
    """Run the public and the declared methods of a class as verbs."""
    for name, method in list(vars(noun).items()):
        is_declared = hasattr(method, "verb_options")
        if inspect.isfunction(method) and (is_declared or not name.startswith("_")):
            setattr(noun, name, _runner(name, method))
    return noun


def run_verb(method: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> VerbResult[T]:
    """Call a method of a repository or a branch; return its result and outcome.

    Raises:
        InvalidInputError: The function is not a method of a repository or a branch.

    Examples:
        >>> run = sparklake.run_verb(main.commit, "nothing staged", if_needed=True)
        >>> run.value == main.head, run.changed, run.repeated
        (True, False, False)
    """
    runner: _Verb[T] | None = getattr(method, "runner", None)
    if runner is None:
        raise errors.InvalidInputError(f"{method!r} is not a method of a repository or a branch")
    noun = method.__self__  # type: ignore[attr-defined]  # A bound method.
    return runner.run(noun, arguments, keywords)


def _runner(name: str, method: Callable[..., T]) -> Callable[..., T]:
    runner = _Verb(name, method, getattr(method, "verb_options", verb()))

    @wraps(method)
    def run(noun: Any, *arguments: Any, **keywords: Any) -> T:
        return runner.run(noun, arguments, keywords).value

    setattr(run, "runner", runner)  # noqa: B010  (mypy: it is a function)
    return run


@dataclass(frozen=True)
class _Verb(Generic[T]):
    name: str
    method: Callable[..., T]
    options: verb

    @cached_property
    def _types(self) -> ArgumentTypes:
        return ArgumentTypes.of(self.name, self.method)

    @cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self.method)

    def run(
        self, noun: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]
    ) -> VerbResult[T]:
        self._types.check(arguments, keywords)
        if not self.options.name:
            return _as_result(self.method(noun, *arguments, **keywords))
        bound = self._signature.bind(noun, *arguments, **keywords)
        key = bound.arguments.get("once")
        if key is None:
            return self._act(noun, bound)
        once = Once.of(key)
        compared = compared_arguments(bound, self.options.files)
        digest = digest_of(self.options.name, getattr(noun, "name", ""), once, compared)

        def act(context: Context) -> T:
            keyed = copy.copy(noun)
            keyed._context = context
            return self._act(keyed, bound).value

        codec = self.options.codec
        codec = import_module(codec).RESULT if isinstance(codec, str) else codec
        return run_once(noun._context, once, digest, codec, act)

    def _act(self, noun: Any, bound: inspect.BoundArguments) -> VerbResult[T]:
        """Run the method; if an allowed no-op occurs, return the head."""
        try:
            return _as_result(self.method(noun, *bound.args[1:], **bound.kwargs))
        except (errors.NoChangesError, errors.AlreadyCommittedError):
            head = self.options.head
            if head is None or not bound.arguments.get("if_needed"):
                raise
            return VerbResult(head(noun, bound.arguments), changed=False)


def _as_result(value: T | VerbResult[T]) -> VerbResult[T]:
    return value if isinstance(value, VerbResult) else VerbResult(value)


# --- verbs: versions and collections --------------------------------------------------------------


def restarts(
    *, collections: bool = True, versions: bool = False
) -> Callable[[Callable[Concatenate[Context, P], T]], Callable[Concatenate[Context, P], T]]:
    """Return a decorator that restarts a verb from scratch. Arguments are read again.

    With `collections`, restarts after a garbage collection starts, or deletes a needed tree file.
    With `versions`, restarts for a conflicting address, with a version that has it; raises
    AddressConflictError if there is none.
    """

    def decorate(
        verb: Callable[Concatenate[Context, P], T],
    ) -> Callable[Concatenate[Context, P], T]:
        @wraps(verb)
        def run(context: Context, /, *arguments: P.args, **options: P.kwargs) -> T:
            while True:
                try:
                    if not collections:
                        return verb(context, *arguments, **options)
                    return _after_collections(context, lambda at: verb(at, *arguments, **options))
                except errors.AddressConflictError as error:
                    if not versions:
                        raise
                    context = _with_version(context, error)

        return run

    return decorate


def _with_version(context: Context, error: errors.AddressConflictError) -> Context:
    # Lazy import: numpy and Arrow, which a verb without records does not need.
    from sparklake.verbs.base.versions import find_version

    version = find_version(context, error.path, error.address)
    if version is None or version in context.versions:
        raise error
    return replace(context, versions=(*context.versions, version))


def _after_collections(context: Context, verb: Callable[[Context], T]) -> T:
    # Lazy import: reads need no retries.
    from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

    def attempt() -> T:
        sweeps = context.refs.tree_sweeps
        try:
            return verb(context)
        except errors.MissingFileError as error:
            if _has_swept(context, sweeps):
                raise errors.CollectionStartedError(
                    "nothing was changed: a garbage collection deleted a tree file that the "
                    f"operation was reading. Try again. {error}"
                ) from error
            raise

    retrying = Retrying(
        retry=retry_if_exception_type(errors.CollectionStartedError),
        stop=stop_after_attempt(_GC_ATTEMPTS),
        reraise=True,
    )
    return retrying(attempt)


def _has_swept(context: Context, sweeps: int) -> bool:
    # Lazy import: a verb without records needs neither numpy nor Arrow.
    from sparklake.namespace.markers import is_sweep_open

    if is_sweep_open(context.store):
        return True
    context.refs.branches.find(context.info.default_branch)  # Reads the number.
    return context.refs.tree_sweeps > sweeps


# --- attempts: the queue of a branch --------------------------------------------------------------


def with_branch_queue(
    context: Context, branch: str, attempt: Callable[[], T], first: Callable[[], T] | None = None
) -> T:
    """Retry lost races in the branch's FIFO queue, which bounds starvation.

    `first` is the first attempt without a queue; it may use earlier reads.
    """
    branches = context.refs.branches
    if not branches.is_turn_held(branch):
        try:
            return (first or attempt)()
        except errors.RaceLostError as error:
            if not _is_race(error):
                raise
    with branches.turn(branch, _TURN_SECONDS):
        return retry_lost_races(attempt)


def retry_lost_races(attempt: Callable[[], T]) -> T:
    """Retry `attempt` after lost races; it must start from the branch's head."""
    # Lazy import: reads need no retries.
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

    retrying = Retrying(
        retry=retry_if_exception(_is_race),
        stop=stop_after_attempt(MAX_ATTEMPTS),
        wait=wait_random_exponential(multiplier=_WAIT_SECONDS, max=_MAX_WAIT_SECONDS),
        reraise=True,
    )
    return retrying(attempt)


def _is_race(error: BaseException) -> bool:
    # A subclass is final: trying again would not change it.
    return type(error) is errors.RaceLostError
