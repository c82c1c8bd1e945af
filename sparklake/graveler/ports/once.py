"""Port of the ref store: idempotency keys."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class OnceRecord:
    """The result of a run, under the caller's idempotency key.

    `digest` covers the verb and its arguments. `run` identifies the run that took effect. `result`
    is a small JSON object. The key can be reused after `lifetime`, by the store's own clock.
    """

    key: str
    digest: str
    run: str
    result: Mapping[str, Any]
    lifetime: timedelta


class OnceKeys(Protocol):
    """The idempotency keys of one repository.

    A change with a record adds it in its own transaction: both take effect, or neither. Such a
    change raises IdempotencyKeyInUseError, and does nothing, if the key is already recorded.
    """

    def find(self, key: str) -> OnceRecord | None:
        """Return the record of an unexpired key."""

    def add(self, record: OnceRecord) -> None:
        """Record a run without changes.

        Raises IdempotencyKeyInUseError, or RepositoryNotFoundError for a deleted repository.
        """

    def turn(self, key: str, seconds: float) -> AbstractContextManager[bool]:
        """Hold a key's queue slot, and yield whether it is held.

        The slot is advisory: only the record is authoritative. After `seconds` of waiting, the
        caller continues without it.
        """
