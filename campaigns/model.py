"""A model of publishing and collection, of which every state is visited.

    python -m campaigns.model

Writers, a collector and a purger take atomic steps: one transaction, or one call of the object
store. Each may stop forever at any point, so crashes are included. `Guards` are the checks of the
real verbs, which docs/proof.md describes. Without any one of them some state breaks a rule.
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

Objects = frozenset[tuple[str, str, str]]
"""Paths with their content and the address of an object."""

Tree = frozenset[tuple[str, str]]
"""Paths with their content. It is the id of a range, which does not depend on addresses."""

MOST_ATTEMPTS = 2


@dataclass(frozen=True)
class Guards:
    """The checks of the verbs."""

    fence_is_read_first: bool = True
    fence_is_compared_when_staging: bool = True
    fence_is_compared_when_publishing: bool = True
    head_is_compared: bool = True
    layers_are_compared: bool = True
    layers_are_sealed_before_they_are_read: bool = True
    ranges_are_written_before_the_move: bool = True
    adopted_objects_are_restored: bool = True
    adoption_waits_for_the_sweep: bool = True
    objects_are_listed_before_the_fence: bool = True
    fence_is_raised: bool = True
    names_are_read_with_the_fence: bool = True
    staged_objects_are_named: bool = True
    covered_layers_are_named: bool = True
    marker_is_set_before_the_fence: bool = True
    marker_is_kept_until_the_end: bool = True
    undo_compares_the_head: bool = True
    purge_refuses_live_paths: bool = True


ALL_GUARDS = Guards()


def mutations() -> Iterator[tuple[str, Guards]]:
    """Yield all guards but one, with the name of the missing one."""
    for each in fields(Guards):
        yield each.name, replace(ALL_GUARDS, **{each.name: False})


class Layer(NamedTuple):
    """A staging layer."""

    id: str
    sealed: bool
    objects: Objects


class Branch(NamedTuple):
    """A branch: its head, the head before the latest move, and its layers, oldest first."""

    head: str
    before: str
    layers: tuple[Layer, ...]


class Lake(NamedTuple):
    """Everything that is stored, and what clients were promised.

    `promised` are branches with paths and contents that they must show. `dropped` are layers that
    a reset has removed.
    """

    branches: tuple[tuple[str, Branch], ...]
    commits: frozenset[tuple[str, Tree, tuple[str, ...]]]
    ranges: frozenset[tuple[Tree, Objects]]
    objects: frozenset[str]
    fence: int = 0
    marker: bool = False
    purged: frozenset[str] = frozenset()
    promised: frozenset[tuple[str, str, str]] = frozenset()
    dropped: frozenset[str] = frozenset()
    applied: frozenset[str] = frozenset()

    def branch(self, name: str) -> Branch:
        """Return a branch."""
        return dict(self.branches)[name]

    def with_branch(self, name: str, branch: Branch) -> Lake:
        """Return the lake with a branch in a new form."""
        return self._replace(branches=tuple(sorted({**dict(self.branches), name: branch}.items())))

    def tree(self, commit: str) -> Tree:
        """Return the tree of a commit."""
        return next(tree for name, tree, _ in self.commits if name == commit)

    def files(self, tree: Tree) -> Objects:
        """Return the objects that the range of a tree names."""
        return next(files for each, files in self.ranges if each == tree)

    def ancestors(self, commit: str) -> frozenset[str]:
        """Return a commit and all its ancestors."""
        parents = {name: above for name, _, above in self.commits}
        found, new = {commit}, [commit]
        while new:
            new = [above for each in new for above in parents[each] if above not in found]
            found.update(new)
        return frozenset(found)


class Process(NamedTuple):
    """A client: the verb that it runs, the step and the attempt, and what it has seen."""

    verb: int = 0
    step: int = 0
    attempt: int = 0
    seen: tuple[Any, ...] = ()


NEXT, AGAIN, REFUSED, DONE, STAY = "next", "again", "refused", "done", "stay"
Seen = tuple[Any, ...]
Result = tuple[Lake, Seen, str]
Step = Callable[[Lake, Seen, str], Result]
"""A step gets the lake, what earlier steps have seen, and a name that is unique to the attempt."""

Verb = Sequence[Step]


# --- rules ----------------------------------------------------------------------------------------


def broken_rule(lake: Lake) -> str | None:
    """Return the rule that a state breaks, or None."""
    trees = {tree for _, tree, _ in lake.commits}
    files = dict(lake.ranges)
    if missing := trees - files.keys():
        return f"a commit names the range {sorted(map(sorted, missing))}, which is missing"
    named = {address for tree in trees for *_, address in files[tree]}
    staged = [layer for _, branch in lake.branches for layer in branch.layers]
    named |= {address for layer in staged for *_, address in layer.objects}
    if lost := named - lake.objects - lake.purged:
        return f"the objects {sorted(lost)} are named, but were deleted"
    for name, path, content in lake.promised:
        if (path, content) not in _shown(lake, lake.branch(name)):
            return f"{name} lost {path}={content}"
    if lake.applied & lake.dropped:
        return "a commit contains a layer that a reset had dropped"
    return None


def _shown(lake: Lake, branch: Branch) -> set[tuple[str, str]]:
    staged = {(path, content) for layer in branch.layers for path, content, _ in layer.objects}
    return staged | lake.tree(branch.head)


def _tree(objects: Objects) -> Tree:
    return frozenset((path, content) for path, content, _ in objects)


# --- writers --------------------------------------------------------------------------------------


def put(guards: Guards, branch: str, path: str, content: str = "x") -> Verb:
    """Write an object, then stage it."""

    def read_fence(lake: Lake, _: Seen, name: str) -> Result:
        return lake, (lake.fence,), NEXT

    def write(lake: Lake, seen: Seen, name: str) -> Result:
        return lake._replace(objects=lake.objects | {name}), seen, NEXT

    def stage(lake: Lake, seen: Seen, name: str) -> Result:
        if guards.fence_is_compared_when_staging and seen != (lake.fence,):
            return lake, (), AGAIN
        found, new = lake.branch(branch), frozenset({(path, content, name)})
        layers = found.layers
        if layers and not layers[-1].sealed:
            layers = (*layers[:-1], layers[-1]._replace(objects=layers[-1].objects | new))
        else:
            layers = (*layers, Layer(name, sealed=False, objects=new))
        lake = lake.with_branch(branch, found._replace(layers=layers))
        return lake._replace(promised=lake.promised | {(branch, path, content)}), (), DONE

    first = [read_fence, write] if guards.fence_is_read_first else [write, read_fence]
    return [*first, stage]


class _Attempt(NamedTuple):
    """The view of a verb in progress, and the tree that it will publish."""

    branch: str
    head: str
    fence: int
    layers: tuple[str, ...]
    parents: tuple[str, ...]
    objects: Objects
    promised: frozenset[tuple[str, str, str]]


def commit(guards: Guards, branch: str) -> Verb:
    """Seal the layers of a branch, write their tree, and publish it."""

    def seal(lake: Lake, _: Seen, name: str) -> Result:
        found = lake.branch(branch)
        if not found.layers:
            return lake, (), REFUSED
        if guards.layers_are_sealed_before_they_are_read:
            sealed = tuple(each._replace(sealed=True) for each in found.layers)
            lake = lake.with_branch(branch, found._replace(layers=sealed))
        objects = {path: (path, content, at) for path, content, at in _files(lake, found.head)}
        for layer in found.layers:
            objects |= {path: (path, content, at) for path, content, at in layer.objects}
        attempt = _Attempt(
            branch,
            found.head,
            lake.fence,
            tuple(each.id for each in found.layers),
            (found.head,),
            frozenset(objects.values()),
            frozenset(),
        )
        return lake, attempt, NEXT

    return [seal, *_publishing(guards)]


def merge(guards: Guards, source: str, dest: str) -> Verb:
    """Merge the head of a branch into another branch."""

    def resolve(lake: Lake, _: Seen, name: str) -> Result:
        return lake, (lake.fence, lake.branch(source).head), NEXT

    def plan(lake: Lake, seen: Seen, name: str) -> Result:
        fence, theirs = seen
        found = lake.branch(dest)
        common = lake.ancestors(theirs) & lake.ancestors(found.head)
        if theirs in common or found.layers:
            return lake, (), REFUSED
        base = lake.tree(max(common, key=lambda each: len(lake.ancestors(each))))
        ours = lake.tree(found.head)
        wanted = (ours | lake.tree(theirs)) - (base - ours) - (base - lake.tree(theirs))
        objects = {path: (path, content, at) for path, content, at in _files(lake, theirs)}
        objects |= {path: (path, content, at) for path, content, at in _files(lake, found.head)}
        chosen = frozenset(each for each in objects.values() if each[:2] in wanted)
        added = frozenset((dest, *each) for each in lake.tree(theirs) - base)
        attempt = _Attempt(dest, found.head, fence, (), (found.head, theirs), chosen, added)
        return lake, attempt, NEXT

    return [resolve, plan, *_publishing(guards)]


def _files(lake: Lake, commit_id: str) -> Objects:
    return lake.files(lake.tree(commit_id))


def _publishing(guards: Guards) -> Verb:
    """Return the steps from a tree to a moved branch."""

    def check_sweep(lake: Lake, seen: Seen, name: str) -> Result:
        is_adopted = _others(lake, seen[5]) != frozenset()
        if is_adopted and lake.marker and guards.adoption_waits_for_the_sweep:
            return lake, (), REFUSED
        return lake, seen, NEXT

    def restore(lake: Lake, seen: Seen, name: str) -> Result:
        if guards.adopted_objects_are_restored:
            others = _others(lake, seen[5])
            lake = lake._replace(objects=lake.objects | {each[2] for each in others})
        return lake, seen, NEXT

    def move(lake: Lake, seen: Seen, name: str) -> Result:
        return _moved(guards, lake, _Attempt(*seen), name)

    def move_early(lake: Lake, seen: Seen, name: str) -> Result:
        after, _, result = move(lake, seen, name)
        return (after, seen, NEXT) if result == DONE else (after, (), result)

    if guards.ranges_are_written_before_the_move:
        return [_write_range, check_sweep, restore, move]
    return [move_early, _write_range, _end]


def _write_range(lake: Lake, seen: Seen, name: str) -> Result:
    tree = _tree(seen[5])
    if all(each != tree for each, _ in lake.ranges):
        lake = lake._replace(ranges=lake.ranges | {(tree, seen[5])})
    return lake, seen, NEXT


def _others(lake: Lake, objects: Objects) -> Objects:
    """Return the objects that the existing range names in place of ours."""
    found = next((files for tree, files in lake.ranges if tree == _tree(objects)), objects)
    return found - objects


def _moved(guards: Guards, lake: Lake, seen: _Attempt, name: str) -> Result:
    found = lake.branch(seen.branch)
    if guards.fence_is_compared_when_publishing and seen.fence != lake.fence:
        return lake, (), AGAIN
    if guards.head_is_compared and found.head != seen.head:
        return lake, (), AGAIN
    there = {each.id for each in found.layers}
    if guards.layers_are_compared and not there.issuperset(seen.layers):
        return lake, (), AGAIN
    tree = _tree(seen.objects)
    left = tuple(each for each in found.layers if each.id not in seen.layers)
    lake = lake.with_branch(seen.branch, Branch(name, found.head, left))
    return (
        lake._replace(
            commits=lake.commits | {(name, tree, seen.parents)},
            promised=lake.promised | seen.promised,
            applied=lake.applied | set(seen.layers),
        ),
        (),
        DONE,
    )


def reset(branch: str) -> Verb:
    """Drop the staged changes of a branch."""

    def drop(lake: Lake, _: Seen, name: str) -> Result:
        found = lake.branch(branch)
        dropped = lake.dropped | {each.id for each in found.layers}
        lake = lake.with_branch(branch, found._replace(layers=()))
        return _released(lake._replace(dropped=dropped), branch), (), DONE

    return [drop]


def undo(guards: Guards, branch: str) -> Verb:
    """Move a branch back to where it was before its latest move."""

    def look(lake: Lake, _: Seen, name: str) -> Result:
        found = lake.branch(branch)
        return lake, (found.head, found.before), NEXT if found.before else REFUSED

    def move(lake: Lake, seen: Seen, name: str) -> Result:
        head, target = seen
        found = lake.branch(branch)
        if guards.undo_compares_the_head and found.head != head:
            return lake, (), REFUSED
        undone = {(branch, *each) for each in lake.tree(head) - lake.tree(target)}
        lake = lake.with_branch(branch, Branch(target, found.head, found.layers))
        return lake._replace(promised=lake.promised - undone), (), DONE

    return [look, move]


def _released(lake: Lake, branch: str) -> Lake:
    shown = _shown(lake, lake.branch(branch))
    kept = {each for each in lake.promised if each[0] != branch or each[1:] in shown}
    return lake._replace(promised=frozenset(kept))


# --- the collector and the purger -----------------------------------------------------------------


def collect(guards: Guards) -> Verb:
    """List, mark the sweep as open, raise the fence, sweep, and remove the mark.

    What it has seen are the listed and the named objects.
    """

    def read_names(lake: Lake, seen: Seen, name: str) -> Result:
        return lake, (*seen[:1], _named(guards, lake)), NEXT

    def raise_fence(lake: Lake, seen: Seen, name: str) -> Result:
        lake = _sealed(lake)
        if guards.fence_is_raised:
            lake = lake._replace(fence=lake.fence + 1)
        if guards.names_are_read_with_the_fence:
            seen = (*seen[:1], _named(guards, lake))
        return lake, seen, NEXT

    steps: list[Step] = [_list_objects, _open_sweep, raise_fence]
    if not guards.names_are_read_with_the_fence:
        steps = [_list_objects, read_names, _open_sweep, raise_fence]
    if not guards.marker_is_set_before_the_fence:
        steps = [_list_objects, raise_fence, _open_sweep]
    if not guards.objects_are_listed_before_the_fence:
        steps = [_list_objects, _open_sweep, raise_fence, _list_objects]
    if guards.marker_is_kept_until_the_end:
        return [*steps, _sweep, _close_sweep, _end]
    return [*steps, _close_sweep, _sweep, _end]


def _list_objects(lake: Lake, seen: Seen, name: str) -> Result:
    return lake, (lake.objects, *seen[1:]), NEXT


def _open_sweep(lake: Lake, seen: Seen, name: str) -> Result:
    return lake._replace(marker=True), seen, NEXT


def _sweep(lake: Lake, seen: Seen, name: str) -> Result:
    garbage = sorted(seen[0] - seen[1])
    if not garbage:
        return lake, (), NEXT
    lake = lake._replace(objects=lake.objects - {garbage[0]})
    return lake, (seen[0] - {garbage[0]}, seen[1]), STAY


def _close_sweep(lake: Lake, seen: Seen, name: str) -> Result:
    return lake._replace(marker=False), seen, NEXT


def _end(lake: Lake, _: Seen, name: str) -> Result:
    return lake, (), DONE


def _sealed(lake: Lake) -> Lake:
    for name, branch in lake.branches:
        sealed = tuple(each._replace(sealed=True) for each in branch.layers)
        lake = lake.with_branch(name, branch._replace(layers=sealed))
    return lake


def _named(guards: Guards, lake: Lake) -> frozenset[str]:
    found = {at for _, tree, _ in lake.commits for *_, at in lake.files(tree)}
    if guards.staged_objects_are_named:
        for _, branch in lake.branches:
            layers = branch.layers if guards.covered_layers_are_named else branch.layers[-1:]
            found |= {at for layer in layers for *_, at in layer.objects}
    return frozenset(found)


def purge(guards: Guards, path: str) -> Verb:
    """Delete the objects of a path from history, unless a head or a staged change has it."""

    def scan(lake: Lake, _: Seen, name: str) -> Result:
        shown = (each for _, branch in lake.branches for each in _shown(lake, branch))
        is_live = any(each == path for each, _ in shown)
        if is_live and guards.purge_refuses_live_paths:
            return lake, (), REFUSED
        trees = {tree for _, tree, _ in lake.commits}
        found = {at for tree in trees for each, _, at in lake.files(tree) if each == path}
        if not is_live:
            lake = lake._replace(purged=lake.purged | found)
        return lake, (frozenset(found),), NEXT

    def delete(lake: Lake, seen: Seen, name: str) -> Result:
        return lake._replace(objects=lake.objects - seen[0]), (), DONE

    return [scan, delete]


# --- exploring ------------------------------------------------------------------------------------

Script = Sequence[Verb]
"""The verbs of one process, one after the other."""


@dataclass(frozen=True, slots=True)
class Exploration:
    """The result of an exploration: the number of states, and the shortest way to a broken rule."""

    states: int
    rule: str | None = None
    steps: Sequence[str] = ()


def explore(lake: Lake, scripts: Mapping[str, Script]) -> Exploration:
    """Visit every state that any interleaving of some processes reaches, breadth first."""
    names = list(scripts)
    start = (lake, tuple(Process() for _ in names))
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
    lake, seen, result = step(lake, process.seen, unique)
    after = _advanced(process, tuple(seen), result)
    left = (*processes[:at], after, *processes[at + 1 :])
    yield (lake, left), f"{unique} {step.__name__}: {result}"


def _advanced(process: Process, seen: tuple[Any, ...], result: str) -> Process:
    if result == STAY:
        return process._replace(seen=seen)
    if result == NEXT:
        return process._replace(step=process.step + 1, seen=seen)
    if result == AGAIN and process.attempt + 1 < MOST_ATTEMPTS:
        return Process(process.verb, 0, process.attempt + 1)
    return Process(process.verb + 1)


def _way(came: Mapping[Any, tuple[Any, str] | None], state: Any) -> list[str]:
    found = []
    while (before := came[state]) is not None:
        state, what = before
        found.append(what)
    return found[::-1]


# --- scenarios ------------------------------------------------------------------------------------


def empty_lake() -> Lake:
    """Return a lake of two branches at an empty commit."""
    nothing: Tree = frozenset()
    branch = Branch("c0", "", ())
    return Lake(
        branches=(("dev", branch), ("main", branch)),
        commits=frozenset({("c0", nothing, ())}),
        ranges=frozenset({(nothing, frozenset())}),
        objects=frozenset(),
    )


def scenarios(guards: Guards) -> dict[str, dict[str, Script]]:
    """Return the processes of each scenario: two writers and a collector or a purger."""
    return {
        "two writers commit to one branch": {
            "a": [put(guards, "main", "p"), commit(guards, "main")],
            "b": [put(guards, "main", "q"), commit(guards, "main")],
            "gc": [collect(guards)],
        },
        "equal content after a reset": {
            "a": [put(guards, "main", "p"), commit(guards, "main")],
            "b": [reset("main"), put(guards, "main", "p"), commit(guards, "main")],
            "gc": [collect(guards)],
        },
        "equal content on two branches": {
            "a": [put(guards, "dev", "p"), commit(guards, "dev"), reset("dev")],
            "b": [put(guards, "main", "p"), commit(guards, "main")],
            "gc": [collect(guards)],
        },
        "racing merges": {
            "a": [put(guards, "dev", "p"), commit(guards, "dev"), merge(guards, "dev", "main")],
            "b": [put(guards, "main", "q"), commit(guards, "main"), merge(guards, "main", "dev")],
            "gc": [collect(guards)],
        },
        "undo beside a commit": {
            "a": [put(guards, "main", "p"), commit(guards, "main"), undo(guards, "main")],
            "b": [put(guards, "main", "q"), commit(guards, "main"), undo(guards, "main")],
            "gc": [collect(guards)],
        },
        "a purge beside writers": {
            "a": [put(guards, "main", "p"), commit(guards, "main"), undo(guards, "main")],
            "b": [put(guards, "dev", "q"), commit(guards, "dev"), merge(guards, "dev", "main")],
            "purge": [purge(guards, "p")],
        },
    }


def main() -> None:
    """Explore all scenarios, then every mutation until a scenario catches it."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    begun = time.perf_counter()
    for name, scripts in scenarios(ALL_GUARDS).items():
        result = explore(empty_lake(), scripts)
        print(f"{name}: {result.states:,} states: {result.rule or 'no rule is broken'}")
    print(f"{time.perf_counter() - begun:.0f} s")
    for name, guards in mutations():
        print(f"without {name}: {caught_by(guards) or 'NOT CAUGHT'}")
    print(f"{time.perf_counter() - begun:.0f} s")


def caught_by(guards: Guards) -> str | None:
    """Return the first scenario and the rule that it finds broken, or None."""
    for name, scripts in scenarios(guards).items():
        result = explore(empty_lake(), scripts)
        if result.rule:
            return f"{name}: {result.rule}, after {len(result.steps)} steps"
    return None


if __name__ == "__main__":
    main()
