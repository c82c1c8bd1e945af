"""The writers of the model: put, commit, merge, reset and undo, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from campaigns.model.lake import (
    AGAIN,
    BACK,
    DONE,
    NEXT,
    REFUSED,
    Branch,
    Guards,
    Lake,
    Layer,
    Objects,
    Result,
    Step,
    Table,
    Verb,
    View,
    best_bases,
    end,
    tree_of,
    visible_objects,
)


def put(guards: Guards, branch: str, path: str, content: str = "x") -> Verb:
    """Write an object, then stage it."""

    def read_fence(lake: Lake, _: View, name: str) -> Result:
        return lake, (lake.fence,), NEXT

    def write(lake: Lake, view: View, name: str) -> Result:
        return lake._replace(objects=lake.objects | {name}), view, NEXT

    def stage(lake: Lake, view: View, name: str) -> Result:
        if guards.fence_is_compared_when_staging and view != (lake.fence,):
            return lake, (), AGAIN
        state, new = lake.branch(branch), frozenset({(path, content, name)})
        layers = state.layers
        if layers and not layers[-1].sealed:
            layers = (*layers[:-1], layers[-1]._replace(objects=layers[-1].objects | new))
        else:
            layers = (*layers, Layer(name, sealed=False, objects=new))
        lake = lake.with_branch(branch, state._replace(layers=layers))
        return lake._replace(promised=lake.promised | {(branch, path, content)}), (), DONE

    first = [read_fence, write] if guards.fence_is_read_first else [write, read_fence]
    return [*first, stage]


class _Attempt(NamedTuple):
    """The view of a running verb, and its tree to publish.

    A table that is `copied` is that of another commit, and is not written.
    """

    branch: str
    head: str
    fence: int
    layers: tuple[str, ...]
    parents: tuple[str, ...]
    objects: Objects
    promised: frozenset[tuple[str, str, str]]
    copied: Table | None = None
    generation: int = 0

    @property
    def table(self) -> Table:
        """The id of the table to publish."""
        return self.copied or (tree_of(self.objects), self.generation)


def commit(guards: Guards, branch: str) -> Verb:
    """Seal the layers of a branch, write their tree, and publish it."""

    def seal(lake: Lake, _: View, name: str) -> Result:
        state = lake.branch(branch)
        if not state.layers:
            return lake, (), REFUSED
        if guards.layers_are_sealed_before_they_are_read:
            sealed = tuple(each._replace(sealed=True) for each in state.layers)
            lake = lake.with_branch(branch, state._replace(layers=sealed))
        lake, below = _read(guards, lake, lake.table(state.head), name)
        if below is None:
            return lake, (), REFUSED
        objects = {each[0]: each for each in below}
        for layer in state.layers:
            objects |= {each[0]: each for each in layer.objects}
        attempt = _Attempt(
            branch,
            state.head,
            lake.fence,
            tuple(each.id for each in state.layers),
            (state.head,),
            frozenset(objects.values()),
            frozenset(),
        )
        return lake, attempt, NEXT

    return [seal, *_publishing(guards)]


def bring(guards: Guards, branch: str, path: str, content: str = "x") -> Verb:
    """Commit a new object without staging it, as imports do."""

    def look(lake: Lake, _: View, name: str) -> Result:
        head = lake.branch(branch).head
        lake, files = _read(guards, lake, lake.table(head), name)
        if files is None or lake.branch(branch).layers:
            return lake, (), REFUSED
        objects = {each[0]: each for each in (*files, (path, content, name))}
        new = frozenset(objects.values())
        added = frozenset({(branch, path, content)})
        return lake, _Attempt(branch, head, lake.fence, (), (head,), new, added), NEXT

    def write(lake: Lake, view: View, name: str) -> Result:
        return lake._replace(objects=lake.objects | {name}), view, NEXT

    return [look, write, *_publishing(guards)]


def merge(guards: Guards, source: str, dest: str) -> Verb:
    """Merge the head of a branch into another branch."""

    def resolve(lake: Lake, _: View, name: str) -> Result:
        return lake, (lake.fence, lake.branch(source).head), NEXT

    def plan(lake: Lake, view: View, name: str) -> Result:
        fence, source_head = view
        state = lake.branch(dest)
        (base_commit, *_) = sorted(best_bases(lake.commits, source_head, state.head))
        if source_head == base_commit or state.layers:
            return lake, (), REFUSED
        base, ours, theirs = map(lake.tree, (base_commit, state.head, source_head))
        tables = [lake.table(state.head), lake.table(source_head)]
        lake, our_files = _read(guards, lake, tables[0], name)
        lake, their_files = _read(guards, lake, tables[1], name)
        if our_files is None or their_files is None:
            return lake, (), REFUSED
        paths = (ours | theirs) - (base - ours) - (base - theirs)
        objects = {each[0]: each for each in (*their_files, *our_files)}
        entries = frozenset(each for each in objects.values() if each[:2] in paths)
        added = frozenset((dest, *each) for each in theirs - base)
        parents = (state.head, source_head)
        copied = next((each for each in tables if each[0] == paths), None)
        attempt = _Attempt(dest, state.head, fence, (), parents, entries, added, copied)
        return lake, attempt, NEXT

    return [resolve, plan, *_publishing(guards)]


def _read(guards: Guards, lake: Lake, table: Table, name: str) -> tuple[Lake, Objects | None]:
    """Read a table through the client's cache, if any, after a ref read."""
    client = name.rstrip("0123456789.")
    cache = next((each for each in lake.caches if each.client == client), None)
    if cache is None:
        return lake, lake.files(table)
    if guards.caches_start_anew_after_a_sweep and cache.sweeps < lake.sweeps:
        cache = cache._replace(sweeps=lake.sweeps, tables=frozenset())
    cached = dict(cache.tables).get(table)
    if cached is None and (cached := lake.files(table)) is not None:
        cache = cache._replace(tables=cache.tables | {(table, cached)})
    others = (each for each in lake.caches if each.client != client)
    return lake._replace(caches=tuple(sorted((*others, cache), key=_client))), cached


def _client(cache: tuple[object, ...]) -> str:
    return str(cache[0])


# --- publishing -----------------------------------------------------------------------------------


def _publishing(guards: Guards) -> Verb:
    """Return the steps from a tree to a moved branch."""
    steps = _Publishing(guards)
    if not guards.ranges_are_written_before_the_move:
        return [steps.move_early, _write_range, end]
    writing: list[Step] = [_write_range]
    if guards.candidates_are_refused:
        writing.append(steps.refuse_candidates)
        if guards.candidates_are_refused_before_the_put:
            writing.reverse()
    return [*writing, steps.check_sweep, steps.replace_dead, steps.move]


@dataclass(frozen=True, slots=True)
class _Publishing:
    """The guarded steps of publishing."""

    guards: Guards

    def refuse_candidates(self, lake: Lake, view: View, name: str) -> Result:
        attempt = _Attempt(*view)
        if not attempt.copied and lake.markers and attempt.table in lake.candidates:
            return lake, (), REFUSED
        return lake, view, NEXT

    def check_sweep(self, lake: Lake, view: View, name: str) -> Result:
        if not _others(lake, _Attempt(*view)):
            return lake, view, NEXT
        if lake.markers and self.guards.adoption_waits_for_the_sweep:
            return lake, (), REFUSED
        if lake.purging and self.guards.adoption_waits_for_the_purge:
            return lake, (), REFUSED
        return lake, view, NEXT

    def replace_dead(self, lake: Lake, view: View, name: str) -> Result:
        """Continue with the next generation if ours can replace a deleted object."""
        attempt = _Attempt(*view)
        ours = {path for path, _, address in attempt.objects if address in lake.objects}
        others = {address for path, _, address in _others(lake, attempt) if path in ours}
        if others <= lake.objects or not self.guards.dead_ranges_are_replaced:
            return lake, view, NEXT
        if not self.guards.deleted_addresses_stay_empty:
            return lake._replace(objects=lake.objects | others), view, NEXT
        writing = 2 + self.guards.candidates_are_refused
        return lake, attempt._replace(generation=attempt.generation + 1), f"{BACK}{writing}"

    def move(self, lake: Lake, view: View, name: str) -> Result:
        return _moved(self.guards, lake, _Attempt(*view), name)

    def move_early(self, lake: Lake, view: View, name: str) -> Result:
        after, _, result = self.move(lake, view, name)
        return (after, view, NEXT) if result == DONE else (after, (), result)


def _write_range(lake: Lake, view: View, name: str) -> Result:
    attempt = _Attempt(*view)
    if not attempt.copied and lake.files(attempt.table) is None:
        lake = lake._replace(ranges=lake.ranges | {(attempt.table, attempt.objects)})
    return lake, view, NEXT


def _others(lake: Lake, attempt: _Attempt) -> Objects:
    """Return the existing table's objects in place of ours."""
    existing = None if attempt.copied else lake.files(attempt.table)
    return frozenset() if existing is None else existing - attempt.objects


def _moved(guards: Guards, lake: Lake, attempt: _Attempt, name: str) -> Result:
    current = lake.branch(attempt.branch)
    if guards.fence_is_compared_when_publishing and attempt.fence != lake.fence:
        return lake, (), AGAIN
    if guards.head_is_compared and current.head != attempt.head:
        return lake, (), AGAIN
    there = {each.id for each in current.layers}
    if guards.layers_are_compared and not there.issuperset(attempt.layers):
        return lake, (), AGAIN
    remaining = tuple(each for each in current.layers if each.id not in attempt.layers)
    excused = _copied_from_purged(lake, attempt, name)
    lake = lake.with_branch(attempt.branch, Branch(name, current.head, remaining))
    return (
        lake._replace(
            commits=lake.commits | {(name, attempt.table, attempt.parents)},
            excused=lake.excused | excused,
            promised=lake.promised | attempt.promised,
            applied=lake.applied | set(attempt.layers),
        ),
        (),
        DONE,
    )


def _copied_from_purged(lake: Lake, attempt: _Attempt, name: str) -> frozenset[tuple[str, str]]:
    """Return the objects of purged records copied by a new commit."""
    if not lake.purged:
        return frozenset()
    files = lake.files(attempt.table) or frozenset()
    ours = files if attempt.copied else attempt.objects
    purged = {path for path, _, address in ours if address in lake.purged}
    return frozenset((name, address) for path, _, address in files if path in purged)


# --- moves ----------------------------------------------------------------------------------------


def reset(branch: str) -> Verb:
    """Drop the staged changes of a branch."""

    def drop(lake: Lake, _: View, name: str) -> Result:
        state = lake.branch(branch)
        dropped = lake.dropped | {each.id for each in state.layers}
        lake = lake.with_branch(branch, state._replace(layers=()))
        return _released(lake._replace(dropped=dropped), branch), (), DONE

    return [drop]


def undo(guards: Guards, branch: str) -> Verb:
    """Move a branch back to where it was before its latest move."""

    def look(lake: Lake, _: View, name: str) -> Result:
        state = lake.branch(branch)
        return lake, (state.head, state.before), NEXT if state.before else REFUSED

    def move(lake: Lake, view: View, name: str) -> Result:
        head, target = view
        current = lake.branch(branch)
        if guards.undo_compares_the_head and current.head != head:
            return lake, (), REFUSED
        if guards.moves_refuse_collected_trees and target in lake.treeless:
            return lake, (), REFUSED
        undone = {(branch, *each) for each in lake.tree(head) - lake.tree(target)}
        lake = lake.with_branch(branch, Branch(target, current.head, current.layers))
        return lake._replace(promised=lake.promised - undone), (), DONE

    return [look, move]


def _released(lake: Lake, branch: str) -> Lake:
    contents = visible_objects(lake, lake.branch(branch))
    promises = {each for each in lake.promised if each[0] != branch or each[1:] in contents}
    return lake._replace(promised=frozenset(promises))
