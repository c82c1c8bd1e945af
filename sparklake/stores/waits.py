"""Reports about long waits for another system."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

_AGAIN_SECONDS = 15.0
_LOOK_SECONDS = 0.5

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Wait(Generic[T]):
    """A call in progress."""

    what: T
    since: float
    attempt: int = 1

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.since


class Waits(Generic[T]):
    """The waiting calls of this process, one per thread, and a thread for their reports."""

    def __init__(self, say_seconds: float, report: Callable[[Wait[T]], None]) -> None:
        self._say_seconds = say_seconds
        self._report = report
        self._forget()
        # A forked child has neither the thread nor the calls, and the lock may be held.
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._waiting: dict[int, Wait[T]] = {}
        self._lock = threading.Lock()
        self._is_watched = False

    def begin(self, what: T) -> None:
        """Record the start or repetition of a call by this thread."""
        me = threading.get_ident()
        with self._lock:
            earlier = self._waiting.get(me)
            if earlier is None:
                self._waiting[me] = Wait(what, time.monotonic())
            else:
                self._waiting[me] = replace(earlier, attempt=earlier.attempt + 1)
            if not self._is_watched:
                self._is_watched = True
                threading.Thread(target=self._watch, name="sparklake-wait", daemon=True).start()

    def end(self) -> None:
        """Record the end of this thread's call."""
        with self._lock:
            self._waiting.pop(threading.get_ident(), None)

    def _watch(self) -> None:
        due: dict[T, float] = {}
        while waiting := self._oldest():
            due = {what: again for what, again in due.items() if what in waiting}
            for what, wait in waiting.items():
                if wait.seconds >= self._say_seconds and time.monotonic() >= due.get(what, 0.0):
                    self._report(wait)
                    due[what] = time.monotonic() + _AGAIN_SECONDS
            time.sleep(_LOOK_SECONDS)

    def _oldest(self) -> dict[T, Wait[T]]:
        with self._lock:
            self._is_watched = bool(self._waiting)
            newest_first = sorted(self._waiting.values(), key=lambda each: -each.since)
        return {each.what: each for each in newest_first}
