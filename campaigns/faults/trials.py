"""Trials: after a fault in a verb, the lake is in the old or the new state."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import uuid4

from campaigns.faults.cases import CASES
from campaigns.faults.checking import ViolationError, check_repository
from campaigns.faults.forks import Answer, Forks
from campaigns.faults.scenes import Scene, VerbCase, create_repository, nothing, state_of
from sparklake import Lake, SparklakeError
from sparklake.errors import CollectionRunningError, RefNotFoundError

ROUNDS_OF_A_REPOSITORY = 20
_PATIENCE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Expected:
    """A case without a fault: its number of steps, both states, and its findings."""

    steps: int
    old: dict[str, Any]
    new: dict[str, Any]
    effects: object


@dataclass(slots=True)
class Trials:
    """The trials in one lake, below one root: a folder or a prefix of a bucket.

    `lake` is never touched by a fault, and `dsn` is that of the children.
    """

    lake: Lake
    dsn: str
    root: str
    forks: Forks
    heal: Callable[[], object] = lambda: None
    """The end of a fault, after the end of the child."""
    before: Callable[[], object] = lambda: None
    """A call just before a child starts."""
    _names: dict[str, str] = field(default_factory=dict)
    _expected: dict[str, Expected] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def expected(self, name: str) -> Expected:
        """Return the outcome of a case without a fault."""
        if name not in self._expected:
            self._expected[name] = self._run_unharmed(name)
        return self._expected[name]

    def run(self, name: str, step: int, fault: str = "kill", **more: Any) -> str:
        """Run a case with a fault before a step; return "old" or "new", and maybe an error.

        Raises ViolationError.
        """
        case, expected = CASES[name], self.expected(name)
        with self._scene(case) as scene:
            case.prepare(scene)
            _demand(state_of(scene) == expected.old, "the old state is another one")
            try:
                answer = self._send(name, scene, step, fault, **more)
            finally:
                self.heal()
            outcome = judged(answer, state_of(scene), expected)
            self._run_again(case, scene, outcome, expected)
            self._use(scene)
            check_repository(scene.repository)
        return outcome

    # --- steps of a round -------------------------------------------------------------------------

    def _run_unharmed(self, name: str) -> Expected:
        case = CASES[name]
        with self._scene(case) as scene:
            case.prepare(scene)
            old = state_of(scene)
            answer = self._send(name, scene, 0)
            _demand(answer.error is None, f"without a fault: {answer.error}")
            new, effects = state_of(scene), case.effects(scene)
            _demand(old != new or case.effects is not nothing, "the verb changes nothing")
            check_repository(scene.repository)
        return Expected(answer.steps, old, new, effects)

    def _send(self, name: str, scene: Scene, step: int, fault: str = "kill", **more: Any) -> Answer:
        self.before()
        order = {"case": name, "name": scene.name, "label": scene.label, "root": scene.root}
        return self.forks.send(**{"dsn": self.dsn, "step": step, "fault": fault, **order, **more})

    def _run_again(self, case: VerbCase, scene: Scene, outcome: str, expected: Expected) -> None:
        is_new = outcome.startswith("new")
        if is_new and not case.repeats:
            return
        try:
            with suppress(*(case.done if is_new or case.effects is not nothing else ())):
                _patiently(case, scene)
        except SparklakeError as error:
            raise ViolationError(f"it cannot run again: {error!r}") from error
        _demand(state_of(scene) == expected.new, "a second run does not lead to the new state")
        effects = case.effects(scene)
        _demand(effects == expected.effects, f"at its end: {effects}, not {expected.effects}")

    def _use(self, scene: Scene) -> None:
        """Go on with the branch, if there is one."""
        try:
            branch = scene.branch
        except RefNotFoundError:
            return
        branch.put("after", b"after")
        branch.commit("after")

    # --- repositories -----------------------------------------------------------------------------

    @contextmanager
    def _scene(self, case: VerbCase) -> Iterator[Scene]:
        number = next(self._numbers)
        kind = f"alone{number}" if case.alone else f"shared{number // ROUNDS_OF_A_REPOSITORY}"
        if kind not in self._names:
            name = f"campaign-{uuid4().hex[:12]}"
            create_repository(self.lake, name, f"{self.root}/{name}")
            self._names[kind] = name
        scene = Scene(self.lake, self._names[kind], f"r{number:06}", f"{self.root}/rounds")
        yield scene
        _tidy(scene)


def _tidy(scene: Scene) -> None:
    """Delete the branches and tags of a round."""
    repository = scene.repository
    for branch in repository.branches(hidden=True):
        if branch.name != "main":
            repository.delete_branch(branch.name, discard_staged=True)
    for tag in repository.tags():
        repository.delete_tag(tag.name)


def judged(answer: Answer, state: dict[str, Any], expected: Expected) -> str:
    """Return the state after a verb, and the kind of its error."""
    if answer.error is not None:
        _demand(answer.kind != "", f"an error of another library: {answer.error}")
    suffix = f", {answer.kind}" if answer.error is not None else ""
    confirmed = not answer.died and answer.error is None
    if confirmed:
        suffix = ", confirmed"
    if state == expected.new and (expected.old != expected.new or confirmed):
        return f"new{suffix}"
    _demand(state == expected.old, f"neither the old nor the new state: {state}")
    _demand(not confirmed, "the verb succeeded, and the old state is left")
    return f"{'same refs' if expected.old == expected.new else 'old'}{suffix}"


def _patiently(case: VerbCase, scene: Scene) -> None:
    """Run a verb after the server notices the death of a lock holder."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            case.run(scene)
        except CollectionRunningError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise ViolationError(what)
