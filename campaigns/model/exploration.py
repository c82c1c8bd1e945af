"""A model of publishing and collection, explored exhaustively.

    python -m campaigns.model

Writers, a collector, a dump and a purge take atomic steps: one transaction, or one call of the
object store. Each may stop forever at any point, so crashes are included. `Guards` are the checks
of the real verbs, which docs/proof.md describes. Without any one of them some state breaks a rule.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from campaigns.model.lake import (
    AGAIN,
    ALL_GUARDS,
    BACK,
    NEXT,
    STAY,
    Branch,
    Cache,
    Guards,
    Lake,
    Tree,
    Verb,
    broken_rule,
    tree_of,
)
from campaigns.model.sweeps import collect, collect_trees, dump, purge
from campaigns.model.writers import bring, commit, merge, put, reset, undo

MOST_ATTEMPTS = 2


def mutations() -> Iterator[tuple[str, Guards]]:
    """Yield all guards but one, with the name of the missing one."""
    for each in fields(Guards):
        yield each.name, replace(ALL_GUARDS, **{each.name: False})


class Process(NamedTuple):
    """A client: its verb, step, attempt and view."""

    verb: int = 0
    step: int = 0
    attempt: int = 0
    view: tuple[Any, ...] = ()


# --- exploring ------------------------------------------------------------------------------------

Script = Sequence[Verb]
"""The verbs of one process, one after the other."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The initial lake of the processes, and their scripts."""

    lake: Lake
    scripts: Mapping[str, Script]


@dataclass(frozen=True, slots=True)
class Exploration:
    """The result of an exploration: the state count, and the shortest path to a broken rule."""

    states: int
    rule: str | None = None
    steps: Sequence[str] = ()


def explore(scenario: Scenario) -> Exploration:
    """Visit every state reachable by interleavings of the processes, breadth first."""
    scripts = scenario.scripts
    names = list(scripts)
    start = (scenario.lake, tuple(Process() for _ in names))
    came: dict[Any, tuple[Any, str] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        if rule := broken_rule(state[0]):
            return Exploration(len(came), rule, _way(came, state))
        for at, name in enumerate(names):
            for after, what in _steps(state, at, name, scripts[name]):
                if after not in came:
                    came[after] = (state, what)
                    waiting.append(after)
    return Exploration(len(came))


def _steps(state: Any, at: int, name: str, script: Script) -> Iterable[tuple[Any, str]]:
    lake, processes = state
    process: Process = processes[at]
    if process.verb == len(script):
        return
    step = script[process.verb][process.step]
    unique = f"{name}{process.verb}.{process.attempt}"
    lake, view, result = step(lake, process.view, unique)
    after = _advanced(process, tuple(view), result)
    others = (*processes[:at], after, *processes[at + 1 :])
    yield (lake, others), f"{unique} {step.__name__}: {result}"


def _advanced(process: Process, view: tuple[Any, ...], result: str) -> Process:
    if result == STAY:
        return process._replace(view=view)
    if result == NEXT:
        return process._replace(step=process.step + 1, view=view)
    if result.startswith(BACK):
        return process._replace(step=process.step - int(result.removeprefix(BACK)), view=view)
    if result == AGAIN and process.attempt + 1 < MOST_ATTEMPTS:
        return Process(process.verb, 0, process.attempt + 1)
    return Process(process.verb + 1)


def _way(came: Mapping[Any, tuple[Any, str] | None], state: Any) -> list[str]:
    scenarios = []
    while (before := came[state]) is not None:
        state, what = before
        scenarios.append(what)
    return scenarios[::-1]


# --- scenarios ------------------------------------------------------------------------------------

_NOTHING: Tree = frozenset()


def empty_lake() -> Lake:
    """Return a lake of two branches at an empty commit."""
    branch = Branch("c0", "", ())
    return Lake(
        branches=(("dev", branch), ("main", branch)),
        commits=frozenset({("c0", (_NOTHING, 0), ())}),
        ranges=frozenset({((_NOTHING, 0), frozenset())}),
        objects=frozenset(),
    )


def lake_with_history(*cached_by: str) -> Lake:
    """Return a lake with `q` on its branch `dev`.

    No branch has the old commit of `p` any more. Its tree is in the caches of some clients.
    """
    lake = empty_lake()
    old, own = frozenset({("p", "x", "old")}), frozenset({("q", "x", "own")})
    trees = {name: (tree_of(files), 0) for name, files in (("c1", old), ("c2", own))}
    lake = lake._replace(
        commits=lake.commits | {(name, tree, ("c0",)) for name, tree in trees.items()},
        ranges=lake.ranges | {(trees["c1"], old), (trees["c2"], own)},
        objects=frozenset({"old", "own"}),
        caches=tuple(Cache(each, 0, frozenset({(trees["c1"], old)})) for each in cached_by),
    )
    return lake.with_branch("dev", Branch("c2", "c0", ()))


def lake_with_leftover() -> Lake:
    """Return a lake with an unreferenced range and its object."""
    lake, old = empty_lake(), frozenset({("p", "x", "old")})
    ranges = lake.ranges | {((tree_of(old), 0), old)}
    return lake._replace(ranges=ranges, objects=frozenset({"old"}))


def scenarios(guards: Guards) -> dict[str, Scenario]:
    """Return all scenarios: writers with collectors, a dump or a purge."""
    return {
        **_collections(guards),
        **_late_collections(guards),
        **_tree_collections(guards),
        **_purges(guards),
    }


def _collections(guards: Guards) -> dict[str, Scenario]:
    scripts: dict[str, dict[str, Script]] = {
        "two writers commit to one branch": {
            "a": [put(guards, "main", "p"), commit(guards, "main")],
            "b": [put(guards, "main", "q"), commit(guards, "main")],
        },
        "equal content after a reset": {
            "a": [put(guards, "main", "p"), commit(guards, "main")],
            "b": [reset("main"), put(guards, "main", "p"), commit(guards, "main")],
        },
        "equal content on two branches": {
            "a": [put(guards, "dev", "p"), commit(guards, "dev"), reset("dev")],
            "b": [put(guards, "main", "p"), commit(guards, "main")],
        },
        "racing merges": {
            "a": [put(guards, "dev", "p"), commit(guards, "dev"), merge(guards, "dev", "main")],
            "b": [put(guards, "main", "q"), commit(guards, "main"), merge(guards, "main", "dev")],
        },
        "undo beside a commit": {
            "a": [put(guards, "main", "p"), commit(guards, "main"), undo(guards, "main")],
            "b": [put(guards, "main", "q"), commit(guards, "main"), undo(guards, "main")],
        },
    }
    return {
        name: Scenario(empty_lake(), {**each, "gc": [collect(guards)]})
        for name, each in scripts.items()
    }


def _late_collections(guards: Guards) -> dict[str, Scenario]:
    """Return scenarios with two collectors; each may lose its lock and continue later."""
    collectors: dict[str, Script] = {"gc": [collect(guards)], "later": [collect(guards)]}
    return {
        "a suspended collection goes on": Scenario(
            lake_with_leftover(),
            {"a": [put(guards, "main", "p"), commit(guards, "main")], **collectors},
        ),
        "equal content beside a suspended collection": Scenario(
            empty_lake(),
            {
                "a": [put(guards, "main", "p"), commit(guards, "main")],
                "b": [reset("main")],
                **collectors,
            },
        ),
    }


def _tree_collections(guards: Guards) -> dict[str, Scenario]:
    return {
        "a tree is written again during its collection": Scenario(
            lake_with_history(),
            {
                "a": [put(guards, "main", "p"), commit(guards, "main")],
                "b": [merge(guards, "main", "dev")],
                "gc": [collect_trees(guards)],
            },
        ),
        "merges beside a collection of trees": Scenario(
            empty_lake(),
            {
                "a": [put(guards, "dev", "p"), commit(guards, "dev"), merge(guards, "dev", "main")],
                "b": [put(guards, "main", "q"), commit(guards, "main")],
                "gc": [collect_trees(guards)],
            },
        ),
        "undo beside a collection of trees": Scenario(
            empty_lake(),
            {
                "a": [put(guards, "dev", "p"), commit(guards, "dev"), undo(guards, "dev")],
                "b": [undo(guards, "dev"), merge(guards, "dev", "main")],
                "gc": [collect_trees(guards)],
            },
        ),
        "a cached tree is written again": Scenario(
            lake_with_history("a"),
            {
                "a": [merge(guards, "main", "dev")],
                "b": [put(guards, "main", "p"), commit(guards, "main"), undo(guards, "main")],
                "gc": [collect_trees(guards)],
            },
        ),
        "a collection of trees dies": Scenario(
            lake_with_history("a"),
            {
                "a": [merge(guards, "main", "dev")],
                "b": [put(guards, "main", "p"), commit(guards, "main")],
                "gc": [collect_trees(guards, dies=True), collect_trees(guards)],
            },
        ),
        "a dump beside a collection of trees": Scenario(
            empty_lake(),
            {
                "a": [put(guards, "main", "p"), commit(guards, "main"), undo(guards, "main")],
                "b": [dump(guards)],
                "gc": [collect_trees(guards)],
            },
        ),
    }


def _purges(guards: Guards) -> dict[str, Scenario]:
    return {
        "a purge beside writers": Scenario(
            empty_lake(),
            {
                "a": [put(guards, "main", "p"), commit(guards, "main"), undo(guards, "main")],
                "b": [put(guards, "dev", "q"), commit(guards, "dev"), merge(guards, "dev", "main")],
                "purge": [purge(guards, "p")],
            },
        ),
        "equal content beside a purge": Scenario(
            lake_with_history(),
            {
                "a": [bring(guards, "main", "p"), undo(guards, "main")],
                "b": [put(guards, "dev", "p"), commit(guards, "dev"), merge(guards, "dev", "main")],
                "purge": [purge(guards, "p")],
            },
        ),
    }
