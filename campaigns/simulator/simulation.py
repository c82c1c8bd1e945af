"""Simulated schedules of the real verbs: python -m campaigns.simulator --seed 7.

A seed decides everything: the actors and their verbs, every interleaving at calls of a port, the
faults, and the clock. At the end of a schedule the history must have a serial order, all trees must
be those of the serial model, and everything that is named must exist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import Any
from unittest import mock

from campaigns.histories.checker import Call, Line, Recorder, calls_of, check_history
from campaigns.histories.requests import (
    NOTHING,
    CherryPick,
    Commit,
    CreateBranch,
    CreateTag,
    DeleteBranch,
    DeleteTag,
    HardReset,
    Merge,
    ReadHead,
    ReadObject,
    ReadRefs,
    ReadTree,
    Request,
    Reset,
    Revert,
    Stage,
    Undo,
)
from campaigns.simulator.lake import (
    Contents,
    Purged,
    Simulation,
    World,
    data_keys,
    digest,
    new_world,
    noted_purges,
    simulated_system,
)
from campaigns.simulator.schedules import NO_FAULTS, CrashError, Faults, Schedule, simulated_ports
from campaigns.simulator.schedules import Stage as PortStage
from sparklake import Repository, SparklakeError
from sparklake.errors import NoChangesError, RefsLostError, RefStoreUnavailableError
from sparklake.graveler.ports.registers import PurgeState
from sparklake.testing.memory.registers import MemoryCollections

PATHS = ("a", "b", "d/c")
SHARED_BODIES = (b"0", b"1")
NO_GRACE = timedelta()
_UNKNOWN = (RefStoreUnavailableError,)
"""Errors after which a request may have happened. Every other error means that it did not."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The mix of steps in a schedule.

    `shared` is the chance of a body that other objects have too. `collects` is the chance of a
    collector.
    """

    verbs: Sequence[Callable[[Actor], None]]
    paths: Sequence[str] = PATHS
    shared: float = 0.5
    collects: float = 0.3


@dataclass(slots=True)
class Actor:
    """A client with random, recorded steps on shared branches."""

    repo: Repository
    name: str
    chance: Random
    recorder: Recorder
    verbs: Counter[str]
    workload: Workload
    number: int = 0

    def __call__(self) -> None:
        for _ in range(self.chance.randint(1, 3)):
            verb = self.chance.choice(self.workload.verbs)
            try:
                verb(self)
            except SparklakeError as error:
                self.verbs[f"{verb.__name__}: {error.kind}"] += 1
            else:
                self.verbs[verb.__name__] += 1

    def run(
        self,
        request: Request,
        call: Callable[[], Any],
        answer: Callable[[Any], Any] = lambda _: None,
    ) -> Any:
        """Run and record a request."""
        number = self.recorder.begin(request)
        try:
            result = call()
        except _UNKNOWN:
            raise
        except NoChangesError:
            if isinstance(request, Commit):
                self.recorder.answer(number, NOTHING)
            else:
                self.recorder.refuse(number)
            raise
        except SparklakeError:
            self.recorder.refuse(number)
            raise
        self.recorder.answer(number, answer(result))
        return result

    # --- choices ----------------------------------------------------------------------------------

    def branch(self) -> str:
        return self.chance.choice([each.name for each in self.repo.branches()])

    def commit_id(self) -> str:
        commits = self.repo._context.refs.commits.find_by_prefix("", 1000)
        return self.chance.choice(commits).id

    def label(self, kind: str) -> str:
        self.number += 1
        return f"{self.name}-{kind}-{self.number}"

    def body(self) -> bytes:
        if self.chance.random() < self.workload.shared:
            return self.chance.choice(SHARED_BODIES)
        return self.label("body").encode()

    # --- verbs ------------------------------------------------------------------------------------

    def put(self) -> None:
        self.put_to(self.branch(), self.chance.choice(self.workload.paths), self.body())

    def put_to(self, branch: str, path: str, body: bytes) -> None:
        request = Stage(branch, {path: digest(body)})
        self.run(request, lambda: self.repo.branch(branch).put(path, body))

    def put_many(self) -> None:
        branch = self.branch()
        bodies = {path: self.body() for path in self.chance.sample(PATHS, 2)}
        request = Stage(branch, {path: digest(body) for path, body in bodies.items()})
        self.run(request, lambda: self.repo.branch(branch).put_many(bodies))

    def remove(self) -> None:
        branch, path = self.branch(), self.chance.choice(self.workload.paths)
        self.run(Stage(branch, {path: None}), lambda: self.repo.branch(branch).delete(path))

    def remove_from(self, branch: str, path: str) -> None:
        self.run(Stage(branch, {path: None}), lambda: self.repo.branch(branch).delete(path))
        self.commit_to(branch)

    def commit(self) -> None:
        self.commit_to(self.branch())

    def commit_to(self, branch: str) -> None:
        message = self.label("commit")
        self.run(
            Commit(branch),
            lambda: self.repo.branch(branch).commit(message),
            lambda commit: commit.id,
        )

    def put_and_commit(self) -> None:
        self.put()
        self.commit()

    def reset(self) -> None:
        branch = self.branch()
        self.run(Reset(branch), lambda: self.repo.branch(branch).reset())

    def reset_path(self) -> None:
        branch, path = self.branch(), self.chance.choice(self.workload.paths)
        self.run(Reset(branch, path), lambda: self.repo.branch(branch).reset(prefix=path))

    def merge(self) -> None:
        source, dest = self.chance.choice([self.branch(), self.commit_id()]), self.branch()
        strategy, squash = self.chance.choice(_STRATEGIES), self.chance.random() < 0.2
        self.run(
            Merge(source, dest, strategy, squash),
            lambda: self.repo.merge(
                source, dest, strategy=strategy, squash=squash, message=self.label("merge")
            ),
            lambda commit: commit.id,
        )

    def revert(self) -> None:
        branch, commit, strategy = self.branch(), self.commit_id(), self.chance.choice(_STRATEGIES)
        self.run(
            Revert(branch, commit, strategy),
            lambda: self.repo.branch(branch).revert(commit, strategy=strategy),
            lambda commits: commits[-1].id,
        )

    def cherry_pick(self) -> None:
        branch, commit, strategy = self.branch(), self.commit_id(), self.chance.choice(_STRATEGIES)
        self.run(
            CherryPick(branch, commit, strategy),
            lambda: self.repo.branch(branch).cherry_pick(commit, strategy=strategy),
            lambda commits: commits[-1].id,
        )

    def undo(self) -> None:
        branch = self.branch()
        self.run(Undo(branch), lambda: self.repo.branch(branch).undo(), lambda commit: commit.id)

    def hard_reset(self) -> None:
        branch, commit = self.branch(), self.commit_id()
        self.run(
            HardReset(branch, commit),
            lambda: self.repo.branch(branch).hard_reset(commit, force=True),
        )

    def create_branch(self) -> None:
        name, source = self.chance.choice(["new", self.label("branch")]), self.branch()
        self.run(CreateBranch(name, source), lambda: self.repo.create_branch(name, source))

    def delete_branch(self) -> None:
        name = self.branch()
        self.run(DeleteBranch(name), lambda: self.repo.delete_branch(name, discard_staged=True))

    def create_tag(self) -> None:
        name, source = self.chance.choice(["tag", self.label("tag")]), self.branch()
        self.run(CreateTag(name, source), lambda: self.repo.create_tag(name, source))

    def delete_tag(self) -> None:
        self.run(DeleteTag("tag"), lambda: self.repo.delete_tag("tag"))

    def read_tree(self) -> None:
        ref = self.branch() + self.chance.choice(["", "@"])
        self.run(ReadTree(ref), lambda: list(self.repo.objects(ref)), _checksums)

    def read_object(self) -> None:
        ref, path = self.branch(), self.chance.choice(self.workload.paths)
        request = ReadObject(ref, path)
        self.run(request, lambda: self.repo.stat(ref, path), lambda info: info.checksum)

    def read_head(self) -> None:
        ref = self.branch()
        self.run(ReadHead(ref), lambda: self.repo.resolve(f"{ref}@"), lambda commit: commit.id)


_STRATEGIES = ("source-wins", "dest-wins", None)
EVERYTHING = Workload(
    (
        *(Actor.put, Actor.put_many, Actor.remove, Actor.put_and_commit, Actor.put_and_commit),
        *(Actor.commit, Actor.commit, Actor.merge, Actor.merge, Actor.revert, Actor.cherry_pick),
        *(Actor.undo, Actor.hard_reset, Actor.reset, Actor.reset_path),
        *(Actor.create_branch, Actor.delete_branch, Actor.create_tag, Actor.delete_tag),
        *(Actor.read_tree, Actor.read_object, Actor.read_head),
    )
)
_EQUAL_CONTENT = Workload(
    (
        *(Actor.put, Actor.put, Actor.put_and_commit, Actor.put_and_commit, Actor.commit),
        *(Actor.reset, Actor.undo, Actor.merge),
    ),
    PATHS[:1],
    shared=1.0,
    collects=1.0,
)
"""Equal objects come and go, so writers meet ranges whose objects a collection deletes."""


def _checksums(objects: Sequence[Any]) -> dict[str, str]:
    return {each.path: each.checksum for each in objects}


# --- schedules ------------------------------------------------------------------------------------


def prepared_worlds(simulation: Simulation) -> list[World]:
    """Return the initial worlds of schedules.

    The first one has a commit that no branch has any more, whose objects expire.
    """
    plain = new_world(simulation)
    repo = plain.repository("first")
    main = repo.branch("main")
    main.put_many(dict.fromkeys(PATHS, b"0"))
    main.commit("base")
    main.put("a", b"1")
    main.reset()
    repo.create_branch("dev", "main").put("b", b"1")
    undone = plain.copy()
    simulation.enter(undone, "undone")
    repo = undone.repository("first")
    main = repo.branch("main")
    for body in (b"2", b"1"):
        main.put("a", body)
        main.commit(f"main {body!r}")
    main.hard_reset("main~2")
    repo.settings.set_retention(0)
    expiring = plain.copy()
    simulation.enter(expiring, "expiring")
    repo = expiring.repository("first")
    dev = repo.branch("dev")
    dev.commit("dev")
    for body in (b"2", b"1"):
        dev.put("a", body)
        dev.commit(f"dev {body!r}")
    dev.put("b", b"staged")
    repo.settings.set_retention(0)
    expired = expiring.copy()
    simulation.enter(expired, "expired")
    expired.repository("first").collect_garbage(grace=NO_GRACE)
    treeless = expiring.copy()
    simulation.enter(treeless, "treeless")
    repo = treeless.repository("first")
    facts = Contents.of(treeless, repo).facts()
    treeless.trees.update(
        (name, fact.tree) for name, fact in facts.items() if fact.tree is not None
    )
    repo.settings.set_retention(0, tree_days=0)
    collecting = treeless.copy()
    repo.collect_garbage(grace=NO_GRACE)
    return [undone, plain, expiring, expired, collecting, treeless]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The record of a schedule: steps, port calls, recorded calls and verbs."""

    steps: int
    trace: Sequence[str]
    calls: Sequence[Call]
    verbs: Counter[str]


class ViolationError(AssertionError):
    """A broken guarantee in a schedule. `trace` has the calls of ports."""

    def __init__(self, seed: int, error: BaseException, trace: Sequence[str]) -> None:
        super().__init__(f"seed {seed}: {type(error).__name__}: {error}")
        self.seed = seed
        self.trace = trace


@dataclass(slots=True)
class Simulator:
    """A process with simulated ports, clock and random names."""

    simulation: Simulation
    stage: PortStage
    worlds: list[World] = field(default_factory=list)

    def run(self, seed: int) -> Outcome:
        """Run one schedule."""
        if not self.worlds:
            self.worlds = prepared_worlds(self.simulation)
        chance = Random(seed)
        # A late collector may delete a table that was written again, so it keeps tables: 048.
        loses = chance.random() < 0.1
        world = (self.worlds[0] if loses else chance.choice(self.worlds[1:])).copy()
        self.simulation.enter(world, f"schedule {seed}")
        faults = _faults(chance)
        schedule = Schedule(chance, replace(faults, suspended=0.3) if loses else faults)
        try:
            with _lost_locks() if loses else nullcontext():
                return _run(world, schedule, self.stage, chance, loses=loses)
        except Exception as error:
            raise ViolationError(seed, error, schedule.trace) from error


@contextmanager
def simulator() -> Iterator[Simulator]:
    """Simulate the ports, the clock and random names of this process."""
    with simulated_system() as simulation, simulated_ports() as stage:
        yield Simulator(simulation, stage)


def _faults(chance: Random) -> Faults:
    """Return faults for three schedules of four."""
    if chance.random() < 0.25:
        return NO_FAULTS
    crash, answer_lost, failed, twice = (chance.choice([0.0, 0.02, 0.05]) for _ in range(4))
    return Faults(crash, answer_lost, failed, twice, most=chance.randint(1, 4))


def _run(
    world: World, schedule: Schedule, stage: PortStage, chance: Random, *, loses: bool
) -> Outcome:
    repo = world.repository("checker")
    before = {each.name: next(iter(repo.operations(1, each.name))) for each in repo.branches()}
    moves = {name: each.from_commit for name, each in before.items()}
    start = Contents.of(world, repo).state(moves)
    lines: list[Line] = []
    ticks = iter(range(1_000_000))
    verbs: Counter[str] = Counter()
    workload = _EQUAL_CONTENT if loses or chance.random() < 0.2 else EVERYTHING

    def actor(name: str) -> Actor:
        recorder = Recorder(name, lines.append, ticks.__next__)
        return Actor(world.repository(name), name, chance, recorder, verbs, workload)

    actors: list[Callable[[], None]] = [actor(f"w{at}") for at in range(chance.randint(2, 3))]
    if chance.random() < workload.collects:
        actors.append(lambda: _collect(world, schedule, chance))
    if loses:
        actors.append(lambda: _collect_and_write(world, schedule, actor("later")))
    if chance.random() < 0.1:
        actors.append(lambda: _purge(actor("purger"), chance))
    stage.schedule = schedule
    with noted_purges() as purged:
        schedule.run(actors)
    _finish(world, repo)
    purged.read(world)
    _check_all_named(world, purged, collects=chance.random() < 0.1)
    end = Contents.of(world, world.repository("checker"))
    _read_all(end, Recorder("reader", lines.append, ticks.__next__))
    calls = calls_of(lines)
    check_history(start, calls, end.facts())
    return Outcome(schedule.steps, schedule.trace, calls, verbs)


def _lost_locks() -> AbstractContextManager[Any]:
    return mock.patch.object(MemoryCollections, "alone", nullcontext)


def _collect_and_write(world: World, schedule: Schedule, writer: Actor) -> None:
    """End the sweeps of others, and write the deleted objects again, twice."""
    for _ in range(2):
        _collect(world, schedule, writer.chance)
        with suppress(SparklakeError):
            writer.put_to("main", "a", b"1")
            writer.commit_to("main")


def _collect(world: World, schedule: Schedule, chance: Random) -> None:
    """Collect garbage once or twice, also after a death."""
    for number in range(chance.randint(1, 2)):
        try:
            world.repository(f"gc{number}").collect_garbage(grace=NO_GRACE)
        except RefsLostError:
            raise  # No refs are lost in any schedule.
        except SparklakeError:
            continue
        except CrashError:
            schedule.revive()


def _purge(actor: Actor, chance: Random) -> None:
    """Remove a path from all branches, and purge it."""
    path = chance.choice(PATHS)
    for name in [each.name for each in actor.repo.branches()]:
        with suppress(SparklakeError):
            actor.remove_from(name, path)
    try:
        actor.repo.purge([path], include_shared=False)
    except SparklakeError as error:
        actor.verbs[f"purge: {error.kind}"] += 1
    else:
        actor.verbs["purge"] += 1


def _finish(world: World, repo: Repository) -> None:
    """Finish the calls of dead actors."""
    for each in repo.purges():
        if each.state is not PurgeState.DONE:
            repo.resume_purge(each.id)


def _check_all_named(world: World, purged: Purged, *, collects: bool) -> None:
    """Expect exactly the referenced objects after another collection."""
    repo = world.repository("checker")
    Contents.of(world, repo).check(purged)
    if collects:
        repo.collect_garbage(grace=NO_GRACE)
        referenced = Contents.of(world, repo).check(purged)
        unreferenced = data_keys(world) - referenced
        assert not unreferenced, f"a collection left {unreferenced}"


def _read_all(end: Contents, recorder: Recorder) -> None:
    """Record the final contents as reads."""
    recorder.run(
        ReadRefs(),
        lambda: {
            "branches": {each.name: each.commit_id for each in end.refs.branches},
            "tags": {each.name: each.commit_id for each in end.refs.tags},
        },
    )
    facts = end.facts()
    for each in end.refs.branches:
        contents = {**(facts[each.commit_id].tree or {}), **end.staged(each)}
        tree = {path: body for path, body in contents.items() if body is not None}
        recorder.answer(recorder.begin(ReadTree(each.name)), tree)
