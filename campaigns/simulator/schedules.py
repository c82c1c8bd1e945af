"""Repeatable races: actors in threads, interleaved by a seed.

Before an actor calls an object store or the ref store, another actor may continue. With faults, the
call may also fail, lose its answer, happen twice or late, or be the last one of its actor.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from random import Random
from typing import Any
from unittest import mock

from campaigns.simulator.store import SimulatedStore
from sparklake.errors import RefStoreUnavailableError, StoreUnreachableError
from sparklake.graveler.sstable.range_files import tree_file_key
from sparklake.interrupts import Threads
from sparklake.stores.objects.local.store import LocalStore
from sparklake.testing.memory.branches import MemoryBranches, MemoryTags
from sparklake.testing.memory.commits import MemoryCommits, MemoryOperations
from sparklake.testing.memory.registers import MemoryCollections, MemoryPurges
from sparklake.testing.memory.staging import MemoryStaging

STORE_STEPS = (
    *("get", "get_to_file", "put_if_absent", "put_many_if_absent", "put_files_if_absent"),
    *("replace", "find", "list", "delete"),
)
STEPS: dict[type, Sequence[str]] = {
    LocalStore: STORE_STEPS,
    SimulatedStore: (*STORE_STEPS[:-2], "page", "delete"),
    MemoryBranches: ("find", "create", "move", "delete"),
    MemoryCommits: ("find",),
    MemoryStaging: ("put", "add_run", "seal", "drop", "reset", "rows"),
    MemoryCollections: ("look", "begin", "end_tree_sweep"),
}
MORE_STEPS: dict[type, Sequence[str]] = {
    MemoryTags: ("create", "find", "delete"),
    MemoryOperations: ("list",),
    MemoryPurges: ("add", "find", "finish"),
}
"""Steps of simulations, in addition to those of other races."""

_MOMENTS = {"look", "begin"}
"""Calls that return a repository at one moment. A client dies before one, never after it."""

_REPEATABLE = {"put_if_absent", "put_many_if_absent", "put_files_if_absent", "replace", "delete"}
"""Calls that a client or a network may repeat. A second transaction would be a second request."""

_LATE = {"put_if_absent", "put_many_if_absent", "replace", "delete", "move", "put", "add_run"}
"""Calls of a dead client that may happen later, but for deletions of tables."""

_QUICK = 0.3
"""The chance that an actor takes its next step without a choice of actors."""


_AWAKE = 0.001
"""The chance that a sleeping actor goes on at a step, before all others have ended."""


class CrashError(BaseException):
    """The death of an actor. Nothing that it does afterwards has an effect."""


class Fate(Enum):
    """The fate of a port call."""

    NORMAL = "normal"
    FAILED = "failed"
    ANSWER_LOST = "answer lost"
    TWICE = "twice"
    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    LATE = "late, after a crash"


@dataclass(frozen=True, slots=True)
class Faults:
    """The chances of faults for each call. `most` is the maximum number in a schedule.

    `suspended` is the chance that an actor, one in a schedule, sleeps before it deletes something.
    """

    crash: float = 0.0
    answer_lost: float = 0.0
    failed: float = 0.0
    twice: float = 0.0
    most: int = 0
    suspended: float = 0.0


NO_FAULTS = Faults()


class Schedule:
    """A schedule: one step of one actor at a time."""

    def __init__(self, chance: Random, faults: Faults = NO_FAULTS) -> None:
        self._chance = chance
        self._faults = faults
        self._turns: dict[int, threading.Semaphore] = {}
        self._ready: list[int] = []
        self._asleep: list[int] = []
        self._own = threading.local()
        self._done = threading.Semaphore(0)
        self._late: list[Callable[[], object]] = []
        self.errors: list[BaseException] = []
        self.steps = 0
        self.trace: list[str] = []
        """The calls of ports in their order, with their actors and fates."""

    def run(self, actors: Iterable[Callable[[], None]]) -> None:
        """Run all actors to their ends; propagate an actor's error."""
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
        self._run_late(everything=True)
        if self.errors:
            raise self.errors[0]

    def step(self) -> None:
        """Wait before a step, while the schedule lets this or another actor continue."""
        number = getattr(self._own, "number", None)
        if number is None or self._chance.random() < _QUICK:
            return
        if self._asleep and self._chance.random() < _AWAKE:
            self._ready.append(self._asleep.pop())
        actor = self._chance.choice(self._ready)
        if actor != number:
            self._turns[actor].release()
            self._turns[number].acquire()

    def _sleep(self) -> None:
        """Let others continue, mostly until all of them end."""
        number = self._own.number
        self._faults = replace(self._faults, suspended=0.0)
        self._ready.remove(number)
        self._asleep.append(number)
        self.trace.append(f"{number} sleeps")
        self._go_on()
        self._turns[number].acquire()

    def revive(self) -> None:
        """Let a dead actor go on, as a new client."""
        self._own.is_dead = False

    @property
    def is_acting(self) -> bool:
        """Whether this thread is one of the actors."""
        return getattr(self._own, "number", None) is not None

    @property
    def is_inside(self) -> bool:
        """Whether this thread is in a call of a port. Nested calls belong to its step."""
        return getattr(self._own, "is_inside", False)

    @contextmanager
    def stepping(self) -> Iterator[None]:
        """Take one step. Nested calls of the store belong to it, because it may hold a lock."""
        is_inside = self.is_inside
        if not is_inside:
            self.step()
        self._own.is_inside = True
        try:
            yield
        finally:
            self._own.is_inside = is_inside

    def call(self, port: str, name: str, call: partial[Any]) -> Any:
        """Call a port as one step, with a fate from the seed."""
        if self.is_inside or not self.is_acting:
            return call()
        if getattr(self._own, "is_dead", False):
            raise CrashError
        if name == "delete" and self._chance.random() < self._faults.suspended:
            self._sleep()
        with self.stepping():
            self.steps += 1
            self._run_late()
            fate = self._fate(port, name)
            if fate is Fate.LATE and not may_be_late(name, call):
                fate = Fate.CRASH_BEFORE
            self.trace.append(f"{self._own.number} {port}.{name} {fate.value}")
            return self._suffer(fate, port, call)

    def _fate(self, port: str, name: str) -> Fate:
        faults, spin = self._faults, self._chance.random()
        if not faults.most:
            return Fate.NORMAL
        chances = (
            (Fate.CRASH_BEFORE, faults.crash / 2),
            (Fate.CRASH_AFTER, faults.crash / 4),
            (Fate.LATE, faults.crash / 4),
            (Fate.ANSWER_LOST, faults.answer_lost),
            (Fate.FAILED, faults.failed),
            (Fate.TWICE, faults.twice),
        )
        for fate, chance in chances:
            spin -= chance
            if spin < 0:
                return self._possible(fate, port, name)
        return Fate.NORMAL

    def _possible(self, fate: Fate, port: str, name: str) -> Fate:
        if name in _MOMENTS and fate is not Fate.FAILED:
            fate = Fate.CRASH_BEFORE
        is_store = port == SimulatedStore.__name__
        if fate is Fate.TWICE and not (is_store and name in _REPEATABLE):
            return Fate.NORMAL
        self._faults = replace(self._faults, most=self._faults.most - 1)
        return fate

    def _suffer(self, fate: Fate, port: str, call: Callable[[], Any]) -> Any:
        if fate is Fate.FAILED:
            raise _error(port, "no answer")
        if fate is Fate.LATE:
            self._late.append(call)
        if fate in (Fate.CRASH_BEFORE, Fate.LATE):
            self._own.is_dead = True
            raise CrashError
        result = call()
        if fate is Fate.TWICE:
            return call()
        if fate is Fate.ANSWER_LOST:
            raise _error(port, "the answer was lost")
        if fate is Fate.CRASH_AFTER:
            self._own.is_dead = True
            raise CrashError
        return result

    def _run_late(self, *, everything: bool = False) -> None:
        """Run late calls of dead actors, perhaps. Their errors have no reader."""
        while self._late and (everything or self._chance.random() < _QUICK):
            try:
                self._late.pop(0)()
            except Exception as error:  # noqa: BLE001
                self.trace.append(f"late call: {type(error).__name__}")
            else:
                self.trace.append("late call")

    def _act(self, number: int, actor: Callable[[], None]) -> None:
        self._own.number = number
        self._turns[number].acquire()
        try:
            actor()
        except CrashError:
            self.trace.append(f"{number} is dead")
        except BaseException as error:  # noqa: BLE001  (it is raised where the actors were begun)
            self.errors.append(error)
        self._ready.remove(number)
        self._go_on()

    def _go_on(self) -> None:
        if not self._ready:
            self._ready, self._asleep = self._asleep, []
        if self._ready:
            self._turns[self._chance.choice(self._ready)].release()
        else:
            self._done.release()


def may_be_late(name: str, call: partial[Any]) -> bool:
    """Return whether a call may happen after the death of its client.

    A late deletion of a table could delete one that was written again since: docs/design/048.
    """
    return name in _LATE and not (name == "delete" and call.args[-1].startswith(tree_file_key("")))


def _error(port: str, what: str) -> Exception:
    if port == SimulatedStore.__name__:
        return StoreUnreachableError(f"the object store: {what}")
    return RefStoreUnavailableError(f"the ref store: {what}")


@contextmanager
def scheduled(schedule: Schedule) -> Iterator[None]:
    """Make every store call a step of a schedule."""
    with _patched(STEPS, lambda: schedule):
        yield


@dataclass(slots=True)
class Stage:
    """The place of the current schedule. Patching once is much faster."""

    schedule: Schedule


@contextmanager
def simulated_ports() -> Iterator[Stage]:
    """Make every port call a step of the current schedule."""
    stage = Stage(Schedule(Random(0)))
    with _patched({**STEPS, **MORE_STEPS}, lambda: stage.schedule):
        yield stage


@contextmanager
def _patched(
    steps: Mapping[type, Sequence[str]], current: Callable[[], Schedule]
) -> Iterator[None]:
    sleep_truly = time.sleep

    def sleep(seconds: float) -> None:
        # Threads of others, such as py4j's, would take all of Python's lock if they did not sleep.
        if current().is_acting or threading.current_thread() is threading.main_thread():
            current().step()
        else:
            sleep_truly(seconds)

    with ExitStack() as patches:
        for owner, names in steps.items():
            for name in names:
                stepping = _stepping(current, owner, name)
                patches.enter_context(mock.patch.object(owner, name, stepping))
        patches.enter_context(mock.patch.object(Threads, "submit", _submit))
        # Who waits for a turn would never let go of the one that all actors share.
        patches.enter_context(mock.patch.object(MemoryBranches, "turn", _no_turn))
        patches.enter_context(mock.patch("time.sleep", sleep))
        yield


def _stepping(current: Callable[[], Schedule], owner: type, name: str) -> Callable[..., Any]:
    call, port = getattr(owner, name), owner.__name__

    def calling(*arguments: Any, **options: Any) -> Any:
        return current().call(port, name, partial(call, *arguments, **options))

    return calling


def _submit(
    _: Threads, function: Callable[..., Any], /, *arguments: Any, **options: Any
) -> Future[Any]:
    """Run a pool's call immediately, in its actor's thread."""
    future = Future[Any]()
    try:
        future.set_result(function(*arguments, **options))
    except Exception as error:  # noqa: BLE001  (reading the result raises it)
        future.set_exception(error)
    return future


@contextmanager
def _no_turn(*_: object) -> Iterator[None]:
    yield
