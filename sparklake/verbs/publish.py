"""The last step of every verb that moves a branch: try, and try again when the branch has moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from sparklake.errors import RaceLostError

MAX_ATTEMPTS = 10
_WAIT_SECONDS = 0.02
_MAX_WAIT_SECONDS = 2.0

T = TypeVar("T")


def until_it_lands(attempt: Callable[[], T]) -> T:
    """Calls `attempt` until it does not lose a race; it must begin from the branch's head."""
    retrying = Retrying(
        stop=stop_after_attempt(MAX_ATTEMPTS),
        wait=wait_random_exponential(multiplier=_WAIT_SECONDS, max=_MAX_WAIT_SECONDS),
        retry=retry_if_exception(_is_race),
        reraise=True,
    )
    return retrying(attempt)


def _is_race(error: BaseException) -> bool:
    # A subclass is final: trying again would not change it.
    return type(error) is RaceLostError
