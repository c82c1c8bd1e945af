"""Timeouts of S3 requests, and the warning about requests that wait for an answer."""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import dataclass, replace

from sparklake.config import S3Timeouts, s3_timeouts_here

SAY_SECONDS = 3.0
"""How long a request waits before a warning, in seconds."""

_AGAIN_SECONDS = 15.0
_LOOK_SECONDS = 0.5

# Without a handler, Python writes warnings to stderr.
_LOG = logging.getLogger("sparklake.s3")

_given = [S3Timeouts()]


def use_timeouts(timeouts: S3Timeouts) -> None:
    """Set the timeouts of this process. The environment takes precedence."""
    _given[0] = timeouts


def timeouts() -> S3Timeouts:
    """Return the timeouts of this process."""
    return s3_timeouts_here(_given[0])


@dataclass(frozen=True, slots=True)
class _Wait:
    """A request without an answer so far."""

    endpoint: str
    since: float
    attempt: int = 1


class Waits:
    """The waiting requests of this process, with a thread that warns of long waits.

    Every thread has one request at a time. The watching thread runs while there are requests.
    """

    def __init__(self) -> None:
        self._forget()
        # A forked child has neither the thread nor the requests, and the lock may be held.
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._waiting: dict[int, _Wait] = {}
        self._lock = threading.Lock()
        self._is_watched = False

    def begin(self, endpoint: str) -> None:
        """Record that this thread sends or resends a request."""
        me = threading.get_ident()
        with self._lock:
            earlier = self._waiting.get(me)
            if earlier is None:
                self._waiting[me] = _Wait(endpoint, time.monotonic())
            else:
                self._waiting[me] = replace(earlier, attempt=earlier.attempt + 1)
            if not self._is_watched:
                self._is_watched = True
                threading.Thread(target=self._watch, name="sparklake-wait", daemon=True).start()

    def end(self) -> None:
        """Record that this thread's request has ended."""
        with self._lock:
            self._waiting.pop(threading.get_ident(), None)

    def _watch(self) -> None:
        due = 0.0
        while (oldest := self._oldest()) is not None:
            now = time.monotonic()
            if now - oldest.since >= SAY_SECONDS and now >= due:
                _LOG.warning(
                    "waiting for %s: no answer for %.0f s, attempt %d",
                    oldest.endpoint,
                    now - oldest.since,
                    oldest.attempt,
                )
                due = now + _AGAIN_SECONDS
            time.sleep(_LOOK_SECONDS)

    def _oldest(self) -> _Wait | None:
        with self._lock:
            if not self._waiting:
                self._is_watched = False
                return None
            return min(self._waiting.values(), key=lambda each: each.since)
