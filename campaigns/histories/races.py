"""Races of eight processes in one repository.

    python -m campaigns.histories.races --rounds 200 --seed 1.

In a round, all writers take random steps at the same time: they put, delete, commit, merge, revert,
reset, undo, create and delete names, read, and collect garbage. The history checker looks for a
serial order that explains all answers, and a check of the whole repository is clean. The operating
system decides the interleaving, so that a seed repeats the steps, but not their order.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO
from uuid import uuid4

from campaigns.faults.checking import check_repository
from campaigns.faults.forks import ROOT
from campaigns.faults.grounds import Ground, ground
from campaigns.faults.rounds import Cell, Figures, Options, parse_options, report, run_rounds
from campaigns.histories.checker import Call, UndecidedError, check_history, read_journals
from campaigns.histories.requests import ReadRefs, ReadTree
from campaigns.histories.serial_model import Branch, Fact, State, Version
from campaigns.simulator.simulation import PATHS
from sparklake import Lake, Repository
from sparklake.testing.lakes import postgres_lake

WRITERS = 8
TURNS = 2
"""The number of times that a writer takes one to three steps in a round."""


def main() -> None:
    """Run the campaign, and print its figures."""
    options = parse_options(__doc__, 200)
    verbs: Counter[str] = Counter()
    figures = campaign(options, verbs=verbs)
    print(*(f"  {name}: {times}" for name, times in sorted(verbs.items())), sep="\n")
    report("Races", options, figures, "python -m campaigns.histories.races")


def campaign(
    options: Options, server: str | None = None, verbs: Counter[str] | None = None
) -> Figures:
    """Let processes race; return the figures, and add the number of each verb to `verbs`."""
    done = Counter[str]() if verbs is None else verbs
    with ExitStack() as stack:
        servers = stack.enter_context(ground(server))
        lake = stack.enter_context(postgres_lake(servers.dsn))
        writers = [stack.enter_context(_writer(servers.dsn)) for _ in range(WRITERS)]
        for each in writers:
            _pipe(each.stdout).readline()

        def run(name: str) -> Cell:
            store, number = name.split(":")
            race = _Race(lake, servers, store, f"{options.seed} {number}")
            return f"{WRITERS} writers, {store}", race.run(writers, done)

        stores = options.stores
        names = (f"{stores[at % len(stores)]}:{at}" for at in range(options.rounds))
        return run_rounds("campaigns.histories.races", options, names, run)


@contextmanager
def _writer(dsn: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "campaigns.histories.racer", dsn]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            _pipe(process.stdin).close()


@dataclass(slots=True)
class _Race:
    """One round in a repository of its own."""

    lake: Lake
    servers: Ground
    store: str
    seed: str

    def run(self, writers: Sequence[subprocess.Popen[str]], done: Counter[str]) -> str:
        """Race, and judge the history; return the outcome."""
        name = f"race-{uuid4().hex[:12]}"
        repository = self.lake.create_repository(name, f"{self.servers.root(self.store)}/{name}")
        _prepare(repository)
        start = _state(repository)
        journals = self.servers.folder / name
        journals.mkdir()
        for at, each in enumerate(writers):
            order = {
                "name": name,
                "writer": f"w{at}",
                "seed": f"{self.seed} {at}",
                "journal": str(journals / f"{at}.jsonl"),
                "turns": TURNS,
                "collects": at == 0,
            }
            _pipe(each.stdin).write(json.dumps(order) + "\n")
            _pipe(each.stdin).flush()
        for each in writers:
            done.update(json.loads(_pipe(each.stdout).readline()))
        check_repository(self.lake.repository(name))
        calls = read_journals(sorted(journals.iterdir()))
        return _judged(start, calls, self.lake.repository(name))


def _prepare(repository: Repository) -> None:
    main = repository.branch("main")
    main.put_many(dict.fromkeys(PATHS, b"0"))
    main.commit("base")
    repository.create_branch("dev", "main").put("b", b"1")
    repository.branch("dev").commit("dev")


def _judged(start: State, calls: Sequence[Call], repository: Repository) -> str:
    """Check a history against the final state."""
    end = max((each.end or each.start for each in calls), default=0)
    final = _final_reads(repository, end + 1)
    facts: dict[str, Fact] = {
        each.id: Fact(tuple(each.parents), _tree(repository, each.id))
        for each in repository._context.refs.snapshot().commits
    }
    try:
        check_history(start, [*calls, *final], facts)
    except UndecidedError:
        return "undecided: too many orders"
    return "a serial order explains it"


def _final_reads(repository: Repository, time: int) -> list[Call]:
    branches, tags = repository.branch_states(), repository.tags()
    refs = {
        "branches": {each.name: each.commit_id for each in branches},
        "tags": {each.name: each.commit_id for each in tags},
    }
    reads = [Call("reader", ReadRefs(), time, time + 1, refs)]
    for at, each in enumerate(branches, 1):
        tree = _tree(repository, each.name)
        reads.append(Call("reader", ReadTree(each.name), time + 2 * at, time + 2 * at + 1, tree))
    return reads


# --- the model's view -----------------------------------------------------------------------------


def _tree(repository: Repository, ref: str) -> dict[str, str]:
    return {each.path: each.checksum for each in repository.objects(ref)}


def _state(repository: Repository) -> State:
    """Return a repository of clean branches as the serial model has it."""
    versions: dict[str, Version] = {}
    commits = repository._context.refs.snapshot().commits
    for each in sorted(commits, key=lambda commit: commit.generation):
        parents = tuple(versions[parent] for parent in each.parents)
        versions[each.id] = Version(each.id, parents, _tree(repository, each.id))
    branches = {}
    for state in repository.branch_states():
        (move,) = repository.operations(1, state.name)
        before = versions.get(move.from_commit or "")
        branches[state.name] = Branch(versions[state.commit_id], before)
    return State(branches, {}, versions)


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


if __name__ == "__main__":
    main()
