"""Retries of verbs that lost a race, or that a garbage collection has overtaken."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from tenacity import (
    Retrying,
    retry_if_exception,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from sparklake.errors import CollectionBegunError, MissingFileError, RaceLostError
from sparklake.verbs.base.context import Context

MAX_ATTEMPTS = 10
_GC_ATTEMPTS = 5
_TURN_SECONDS = 10.0
_WAIT_SECONDS = 0.02
_MAX_WAIT_SECONDS = 0.5

P = ParamSpec("P")
T = TypeVar("T")


def retry_lost_races(attempt: Callable[[], T]) -> T:
    """Retry `attempt` while it loses races; it must start from the branch's head."""
    retrying = Retrying(
        retry=retry_if_exception(_is_race),
        stop=stop_after_attempt(MAX_ATTEMPTS),
        wait=wait_random_exponential(multiplier=_WAIT_SECONDS, max=_MAX_WAIT_SECONDS),
        reraise=True,
    )
    return retrying(attempt)


def with_branch_queue(context: Context, branch: str, attempt: Callable[[], T]) -> T:
    """Retry `attempt` while it loses races for a branch, in the branch's queue.

    After losing a race, wait in the branch's FIFO queue. New writers queue, too, while others wait.
    This bounds starvation and wasted work.
    """
    branches = context.refs.branches
    if not branches.is_turn_held(branch):
        try:
            return attempt()
        except RaceLostError as error:
            if not _is_race(error):
                raise
    with branches.turn(branch, _TURN_SECONDS):
        return retry_lost_races(attempt)


def retry_on_gc(
    verb: Callable[Concatenate[Context, P], T],
) -> Callable[Concatenate[Context, P], T]:
    """Return a verb that restarts from nothing when a collection has started.

    It also restarts if a table was missing because a collection has deleted it meanwhile.
    """

    @wraps(verb)
    def run(context: Context, /, *arguments: P.args, **options: P.kwargs) -> T:
        def attempt() -> T:
            sweeps = context.refs.tree_sweeps
            try:
                return verb(context, *arguments, **options)
            except MissingFileError as error:
                if _has_swept(context, sweeps):
                    raise CollectionBegunError(
                        "nothing was changed: a garbage collection has deleted a table that the "
                        f"operation had begun to read. Try again. {error}"
                    ) from error
                raise

        retrying = Retrying(
            retry=retry_if_exception_type(CollectionBegunError),
            stop=stop_after_attempt(_GC_ATTEMPTS),
            reraise=True,
        )
        return retrying(attempt)

    return run


def _has_swept(context: Context, sweeps: int) -> bool:
    """Return whether tables are being deleted, or have been since a number of sweeps."""
    # Lazy import: a verb without records needs neither numpy nor Arrow.
    from sparklake.namespace.markers import is_sweep_open

    if is_sweep_open(context.store):
        return True
    context.refs.branches.find(context.info.default_branch)  # Reads the number.
    return context.refs.tree_sweeps > sweeps


def _is_race(error: BaseException) -> bool:
    # A subclass is final: trying again would not change it.
    return type(error) is RaceLostError
