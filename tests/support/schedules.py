"""Repeatable races: actors in threads, of which a seed chooses the one that runs.

Before an actor calls an object store or the ref store, another actor may continue. Nothing else is
simulated.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any
from unittest import mock

from sparklake.stores.memory.branches import MemoryBranches
from sparklake.stores.memory.commits import MemoryCommits
from sparklake.stores.memory.registers import MemoryCollections
from sparklake.stores.memory.staging import MemoryStaging
from sparklake.stores.objects.local import LocalStore

STEPS: dict[type, Sequence[str]] = {
    LocalStore: (
        *("get", "get_to_file", "put_if_absent", "put_many_if_absent", "put_files_if_absent"),
        *("replace", "find", "list", "delete"),
    ),
    MemoryBranches: ("find", "create", "move", "delete"),
    MemoryCommits: ("find",),
    MemoryStaging: ("put", "add_run", "seal", "drop", "reset", "rows"),
    MemoryCollections: ("look", "begin", "end_tree_sweep"),
}


class Schedule:
    """A schedule that runs one step of one actor at a time."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._turns: dict[int, threading.Semaphore] = {}
        self._ready: list[int] = []
        self._own = threading.local()
        self._done = threading.Semaphore(0)
        self.errors: list[BaseException] = []

    def run(self, actors: Iterable[Callable[[], None]]) -> None:
        """Run all actors to their ends; raise the error of one of them."""
        threads = [
            threading.Thread(target=self._act, args=(number, actor))
            for number, actor in enumerate(actors)
        ]
        self._turns = {number: threading.Semaphore(0) for number in range(len(threads))}
        self._ready = list(self._turns)
        for each in threads:
            each.start()
        self._go_on()
        self._done.acquire()
        for each in threads:
            each.join()
        if self.errors:
            raise self.errors[0]

    def step(self) -> None:
        """Wait before a step, while the schedule lets this or another actor continue."""
        number = getattr(self._own, "number", None)
        if number is None or self._chance.random() < 0.3:
            return
        chosen = self._chance.choice(self._ready)
        if chosen != number:
            self._turns[chosen].release()
            self._turns[number].acquire()

    def sleep(self, _: float) -> None:
        """Let others continue, without waiting."""
        self.step()

    @contextmanager
    def stepping(self) -> Iterator[None]:
        """Take one step. Nested calls of the store belong to it, because it may hold a lock."""
        is_inside = getattr(self._own, "is_inside", False)
        if not is_inside:
            self.step()
        self._own.is_inside = True
        try:
            yield
        finally:
            self._own.is_inside = is_inside

    def _act(self, number: int, actor: Callable[[], None]) -> None:
        self._own.number = number
        self._turns[number].acquire()
        try:
            actor()
        except BaseException as error:  # noqa: BLE001  (it is raised where the actors were begun)
            self.errors.append(error)
        self._ready.remove(number)
        self._go_on()

    def _go_on(self) -> None:
        if self._ready:
            self._turns[self._chance.choice(self._ready)].release()
        else:
            self._done.release()


class _Inline:
    """A pool without threads, which runs calls immediately."""

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> _Inline:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        return map(function, items)


@contextmanager
def scheduled(schedule: Schedule) -> Iterator[None]:
    """Make every call of a store a step of a schedule."""
    with ExitStack() as patches:
        for owner, names in STEPS.items():
            for name in names:
                stepping = _stepping(schedule, getattr(owner, name))
                patches.enter_context(mock.patch.object(owner, name, stepping))
        for module in ("udfs.adopted_ranges", "udfs.gc", "udfs.swept_tables", "verbs.gc.trees"):
            patches.enter_context(mock.patch(f"sparklake.{module}.Threads", _Inline))
        # Who waits for a turn would never let go of the one that all actors share.
        patches.enter_context(mock.patch.object(MemoryBranches, "turn", _no_turn))
        patches.enter_context(mock.patch("time.sleep", schedule.sleep))
        yield


def _stepping(schedule: Schedule, call: Callable[..., Any]) -> Callable[..., Any]:
    def calling(*arguments: Any, **options: Any) -> Any:
        with schedule.stepping():
            return call(*arguments, **options)

    return calling


@contextmanager
def _no_turn(*_: object) -> Iterator[None]:
    yield
