"""Verbs beside a garbage collection: what it may take is named by nobody who began before it.

A collection raises the fence of all branches and takes nothing that is named then. A verb reads the
fence of a branch before anything that it will name, and is refused when that has been raised since.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from sparklake.errors import CollectionBegunError

_ATTEMPTS = 5

P = ParamSpec("P")
T = TypeVar("T")


def begun_anew(verb: Callable[P, T]) -> Callable[P, T]:
    """Returns a verb that begins anew, with nothing of what it has made, after such a refusal."""

    @wraps(verb)
    def run(*arguments: P.args, **options: P.kwargs) -> T:
        retrying = Retrying(
            stop=stop_after_attempt(_ATTEMPTS),
            retry=retry_if_exception_type(CollectionBegunError),
            reraise=True,
        )
        return retrying(verb, *arguments, **options)

    return run
