"""Random steps through all verbs that move branches, each checked against plain dicts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from sparklake import Branch, Commit, MergeConflictError, Repository
from sparklake.errors import NoChangesError, SparklakeError
from sparklake.graveler.entries import Entry, entry_identity
from sparklake.graveler.ids import is_generation
from sparklake.graveler.planning.change_summary import SearchTarget, decode_summary, name_hash
from sparklake.graveler.ports import BranchMove
from sparklake.rows.objects import ObjectInfo
from sparklake.stores.objects import open_object
from sparklake.strategies import Decision, Objects
from sparklake.testing.lakes import TESTER, put_all
from tests.support.hook_functions import CALLS
from tests.support.lakes import stage_sizes
from tests.support.oracle import meta_range_id, range_ids
from tests.support.random_history import Histories
from tests.support.recursive import ancestry, merged

if TYPE_CHECKING:
    import pyarrow as pa

EVENTS = ("commit", "merge", "revert", "cherry-pick")
HOOKS = "_sparklake/hooks/note.yaml"
NOTE = (
    "on:\n"
    + "".join(f"  {when}-{each}:\n" for each in EVENTS for when in ("pre", "post"))
    + "hooks:\n  - {id: note, type: python, properties:"
    " {function: 'tests.support.hook_functions:note'}}\n"
).encode()

BRANCHES = ("main", "dev", "fix")
FOLDERS = ("a/", "a/b/", "c/", "")
PATHS = [f"{folder}{name}" for folder in FOLDERS for name in ("x.csv", "y", "z")]
KEPT = ["a/x.source.csv", "x.source.csv", "y.source", "a/y.source-2"]
CHOICES = [["a/"], ["a/b/", "y"], ["x.csv"], ["c/", "a/y", "z"], ["a/x.csv", "x.csv", "y"]]
BODIES = [b"", b"1\n", b"2\n", b"1\n2\n", b"3\n1\n"]


def takes_base(conflicts: pa.RecordBatch, objects: Objects) -> list[Decision]:
    return ["base"] * conflicts.num_rows


def writes_dest(conflicts: pa.RecordBatch, objects: Objects) -> list[Decision]:
    """Write dest's object again, where there is one."""
    return [
        "source"
        if row["dest"] is None
        else objects.write(
            objects.read(row["dest"]["address"]),
            row["dest"]["content_type"],
            dict(row["dest"]["metadata"]),
        )
        for row in conflicts.to_pylist()
    ]


HERE = "tests.support.interplay"
STRATEGIES = [
    *("source-wins", "dest-wins", "keep-both", "newest-wins", "larger-wins", "union-lines"),
    *(f"{HERE}:takes_base", f"{HERE}:writes_dest"),
]
RULES = [
    None,
    {"a/**": "keep-both"},
    {"**/*.csv": "keep-both", "c/*": f"{HERE}:takes_base"},
    {"*": "union-lines", "a/b/**": "source-wins"},
]


@dataclass
class Steps:
    """Random steps on a repository. The result of each is checked."""

    repo: Repository
    chance: random.Random
    model: Known
    source: Path
    done: Counter[str] = field(default_factory=Counter)
    races: int = 0
    more: tuple[str, ...] = ()
    """Verbs that are taken, too."""
    numbers: Iterator[int] = field(default_factory=count)

    def take(self) -> None:
        name = self.chance.choice([*VERBS, *self.more])
        branch = self.repo.branch(self.chance.choice(BRANCHES))
        CALLS.clear()
        before = {each.name: each.commit_id for each in self.repo.branch_states(hidden=True)}
        latest = next(iter(self.repo.operations(1))).sequence
        staged = self.repo.objects(f"{branch.name}").to_arrow()
        raced = self.chance.random() < 0.3
        with self.rival(branch.name) if raced else nullcontext():
            _, failure = attempt(lambda: getattr(self, name)(branch))
        self.done[name if failure is None else f"{name}: {type(failure).__name__}"] += 1
        if failure is not None and not raced and name not in OF_SEVERAL_MOVES:
            states = self.repo.branch_states(hidden=True)
            assert {each.name: each.commit_id for each in states} == before, (name, failure)
            if name not in OF_STAGING:
                assert self.repo.objects(branch.name).to_arrow() == staged, (name, failure)
        self.check(latest)
        if self.chance.random() < 0.8:
            with suppress(SparklakeError):
                branch.commit("rest")
            self.check_commits()
        for each in BRANCHES:
            if each != branch.name or self.chance.random() < 0.5:
                self.repo.branch(each).reset()

    # --- verbs ----------------------------------------------------------------------------------

    def stage(self, branch: Branch) -> None:
        some = self.chance.sample([*PATHS, *KEPT], self.chance.randint(1, 5))
        if self.chance.random() < 0.7:
            put_all(branch, {path: self.chance.choice([None, *BODIES]) for path in some})
        else:
            stage_sizes(branch, {path: self.chance.choice([None, 1, 2, 3]) for path in some})

    def commit(self, branch: Branch) -> None:
        self.stage(branch)
        if self.chance.random() < 0.5:
            self.stage(branch)
        branch.commit(f"commit {next(self.numbers)}")

    def commit_paths(self, branch: Branch) -> None:
        self.stage(branch)
        self.stage(branch)
        selected = self.chance.choice(CHOICES)
        current = self.records(branch.name)
        head = self.records(f"{branch.name}@")
        commit = branch.commit(f"commit paths {next(self.numbers)}", paths=selected)
        if commit.parents[0] in self.model.trees and not self.races_now:
            want = {p: v for p, v in head.items() if not is_chosen(p, selected)}
            want |= {p: v for p, v in current.items() if is_chosen(p, selected)}
            assert self.records(commit.id) == want
            assert self.records(branch.name) == current

    def restore(self, branch: Branch) -> None:
        self.stage(branch)
        ref = self.chance.choice(list(self.model.commits))
        branch.restore(ref, self.chance.choice(CHOICES))
        branch.commit(f"restore {next(self.numbers)}")

    def mv(self, branch: Branch) -> None:
        source, dest = self.chance.sample(["a/", "c/", "e/", "a/b/"], 2)
        branch.move(source, dest, force=self.chance.random() < 0.7)
        branch.commit(f"mv {next(self.numbers)}")

    def cp(self, branch: Branch) -> None:
        source, dest = self.chance.sample(["a/", "c/", "e/", "f/"], 2)
        ref = self.chance.choice([None, *BRANCHES])
        branch.copy(source, dest, ref, force=self.chance.random() < 0.7)
        branch.commit(f"cp {next(self.numbers)}")

    def import_(self, branch: Branch) -> None:
        prefix = self.chance.choice(["a", "a/b", "c", "new"])
        branch.import_objects(
            str(self.source), prefix, f"import {next(self.numbers)}", replace=True
        )

    def merge(self, branch: Branch) -> None:
        self.merging(branch)

    def cross(self, branch: Branch) -> None:
        """Let two branches merge each other's heads."""
        other = self.repo.branch(
            self.chance.choice([each for each in BRANCHES if each != branch.name])
        )
        for each in (branch, other):
            self.stage(each)
            each.commit(f"apart {next(self.numbers)}", allow_empty=True)
        heads = branch.head.id, other.head.id
        wins = [self.chance.choice(["source-wins", "dest-wins"]) for _ in heads]
        self.repo.merge(heads[1], branch.name, wins[0], f"cross {next(self.numbers)}")
        self.repo.merge(heads[0], other.name, wins[1], f"cross {next(self.numbers)}")
        for each in (branch, other):
            self.stage(each)
            each.commit(f"apart {next(self.numbers)}", allow_empty=True)
        self.check_commits()
        self.merging(branch, **self.chance.choice([{}, {"paths": self.chance.choice(CHOICES)}]))

    def squash(self, branch: Branch) -> None:
        self.merging(branch, squash=True)

    def merge_paths(self, branch: Branch) -> None:
        self.merging(branch, paths=self.chance.choice(CHOICES))

    def merging(self, branch: Branch, **how: object) -> None:
        other = self.chance.choice([each for each in BRANCHES if each != branch.name])
        decided = {
            "strategy": self.chance.choice([None, *STRATEGIES]),
            "rules": self.chance.choice(RULES),
        }
        paths = {"paths": how["paths"]} if "paths" in how else {}
        before = self.tree(branch.name + "@")
        ours, theirs = self.repo.resolve(branch.name), self.repo.resolve(other)
        bases = self.repo.merge_bases(other, branch.name)
        with self.rival_waits():
            preview, refusal = attempt(
                lambda: self.repo.preview_merge(other, branch.name, **decided, **paths)
            )
        text = f"merge {next(self.numbers)}"
        result, failure = attempt(
            lambda: self.repo.merge(other, branch.name, message=text, **decided, **how)
        )
        if isinstance(result, Commit) and result.parents[0] == ours.id:
            after = self.tree(result.id)
            if refusal is not None:
                raise AssertionError(f"{refusal} in a preview, and none in the merge")
            counts = changes(before, after)
            mine = {
                kind: (getattr(preview, kind), getattr(preview, f"{kind}_bytes")) for kind in counts
            }
            assert mine == counts, (decided, how, mine, counts)
            assert preview.unresolved == 0
            self.done["criss-cross"] += len(bases) > 1
            base = self.model.base([ours.id], [theirs.id])
            trees = self.model.trees
            check_merge(
                *(base, trees[theirs.id], trees[ours.id], self.records(result.id)),
                decided,
                paths.get("paths"),
            )
        elif isinstance(failure, MergeConflictError) and not self.races_now:
            assert preview is not None
            assert preview.unresolved == failure.count
        elif not self.races_now and not (how and isinstance(failure, NoChangesError)):
            assert type(refusal) is type(failure), (refusal, failure)
        if failure is not None:
            raise failure

    def revert(self, branch: Branch) -> None:
        branch.revert(branch.name, parent_number=1, strategy=self.chance.choice(STRATEGIES))

    def cherry_pick(self, branch: Branch) -> None:
        some = self.chance.sample(list(self.model.commits), 2)
        branch.cherry_pick(*some, parent_number=1, strategy=self.chance.choice(STRATEGIES))

    def rebase(self, branch: Branch) -> None:
        other = self.chance.choice([each for each in BRANCHES if each != branch.name])
        branch.rebase(other, strategy=self.chance.choice([None, *STRATEGIES]))

    def transaction(self, branch: Branch) -> None:
        strategy, rules = self.chance.choice(STRATEGIES), self.chance.choice(RULES)
        text = f"transaction {next(self.numbers)}"
        with branch.transaction(text, strategy=strategy, rules=rules) as work:
            self.stage(work)
            if self.chance.random() < 0.5:
                work.commit(f"of a transaction {next(self.numbers)}")
                self.stage(work)

    def undo(self, branch: Branch) -> None:
        branch.undo()

    def hard_reset(self, branch: Branch) -> None:
        branch.hard_reset(self.chance.choice(list(self.model.commits)))

    def collect(self, branch: Branch) -> None:
        """Let all commits except heads expire, or none, and collect garbage; check live objects."""
        before = self.readable()
        self.repo.settings.set_retention(self.chance.choice([0, 1]))
        self.repo.collect_garbage(grace=timedelta())
        assert self.readable() == before
        heads = [each.commit_id for each in self.repo.branch_states(hidden=True)]
        assert not self.repo._context.refs.commits.expired(heads)

    def readable(self) -> set[str]:
        """Return the addresses of existing objects on branches."""
        addresses = {each.address for name in BRANCHES for each in self.repo.objects(name)}
        places = ((address, *open_object(address)) for address in addresses)
        return {address for address, store, key in places if store.find(key) is not None}

    # --- rivals ---------------------------------------------------------------------------------

    races_now: bool = False

    @contextmanager
    def rival(self, name: str) -> Iterator[None]:
        """Move the branch just before the first move of a verb."""
        branches = self.repo._context.refs.branches
        real, steps = type(branches).move, self
        waiting = [True]

        def move(store: object, branch_move: BranchMove) -> None:
            if branch_move.branch == name and waiting and not steps.is_quiet:
                waiting.clear()
                steps.move_away(name, real)
                steps.races += 1
            real(store, branch_move)

        self.races_now = True
        try:
            with mock.patch.object(type(branches), "move", move):
                yield
        finally:
            self.races_now = False

    is_quiet: bool = False

    @contextmanager
    def rival_waits(self) -> Iterator[None]:
        self.is_quiet = True
        yield
        self.is_quiet = False

    def move_away(self, name: str, real: Callable[..., None]) -> None:
        self.is_quiet = True
        state = self.repo.branch(name).state
        side = self.repo.create_branch(f"side-{next(self.numbers)}", name, hidden=True)
        put_all(side, {self.chance.choice([*PATHS, "rival"]): b"rival"})
        with suppress(SparklakeError):
            commit = side.commit("rival")
            move = BranchMove(name, state.commit_id, commit.id, "test", TESTER, fence=state.fence)
            real(self.repo._context.refs.branches, move)
        self.is_quiet = False

    # --- checks ---------------------------------------------------------------------------------

    def tree(self, ref: str) -> dict[str, ObjectInfo]:
        return {each.path: each for each in self.repo.objects(ref)}

    def records(self, ref: str) -> dict[str, object]:
        return {path: same(each) for path, each in self.tree(ref).items()}

    def check(self, latest: int) -> None:
        self.check_commits()
        self.check_hooks(latest)

    def check_hooks(self, latest: int) -> None:
        """Check that each move runs its hooks once before and once after, with its tree."""
        after = [each for each in CALLS if each.event.name.value.startswith("post-")]
        before = [each for each in CALLS if each.event.name.value.startswith("pre-")]
        moves = [
            each
            for each in reversed(self.repo.operations(100))
            if each.sequence > latest
            and each.from_commit is not None
            and each.to_commit is not None
            and each.verb not in ("test", "undo", "hard-reset")
            and HOOKS in self.model.objects(each.from_commit)
        ]
        runs_after = [(each.event.name.value, each.event.ref, each.tree.id) for each in after]
        want = [
            (
                f"post-{each.verb if each.verb in EVENTS else 'commit'}",
                each.ref,
                self.repo.resolve(each.to_commit).meta_range_id,
            )
            for each in moves
        ]
        assert runs_after == want, (runs_after, want)
        runs_before = [
            (f"post-{each.event.name.value[4:]}", each.event.ref, each.tree.id) for each in before
        ]
        assert not Counter(want) - Counter(runs_before)
        assert len(runs_before) <= len(want) + 2

    def check_commits(self) -> None:
        refs = self.repo._context.refs
        new = [
            each
            for each in refs.commits.find_by_prefix("", 1_000_000)
            if each.id not in self.model.commits
        ]
        for each in sorted(new, key=lambda commit: commit.generation):
            self.model.note(each)
            records = {
                path.encode(): identity(info) for path, info in self.model.objects(each.id).items()
            }
            if each.meta_range_id != meta_range_id(records, self.repo.info.range_records):
                self.check_generations(each, records)
            if each.parents:
                self.check_summary(each)

    def check_generations(self, commit: Commit, records: dict[bytes, bytes]) -> None:
        """Check a tree with later generations of ranges, whose objects were collected."""
        assert self.done["collect"], commit.message
        expected = range_ids(records, self.repo.info.range_records)
        for info, first in zip(self.repo.tree(commit.id).ranges, expected, strict=True):
            assert is_generation(info.id, first), commit.message

    def check_summary(self, commit: Commit) -> None:
        stored = self.repo._context.refs.commits.change_summaries([commit.id]).get(commit.id)
        touched = None if stored is None else decode_summary(stored)
        if touched is None:
            self.done["no summary"] += 1
            return
        self.done["summary"] += 1
        before, after = (self.model.trees[each] for each in (commit.parents[0], commit.id))
        for path in before.keys() | after.keys():
            if before.get(path) != after.get(path):
                sought = SearchTarget.key(path.encode())
                assert touched.may_hold(sought.interval, name_hash(sought.name)), commit
                for at in range(len(path) + 1):
                    sought = SearchTarget.prefix(path[:at].encode())
                    assert touched.may_hold(sought.interval, name_hash(sought.name)), commit


VERBS = [
    *("commit", "commit", "commit_paths", "commit_paths", "restore", "mv", "cp", "import_"),
    *("merge", "merge", "merge", "squash", "merge_paths", "merge_paths", "revert", "cherry_pick"),
    *("cross", "cross", "cross", "rebase", "transaction", "undo", "hard_reset"),
]


OF_SEVERAL_MOVES = ("transaction", "cross")
OF_STAGING = ("commit", "commit_paths", "restore")
"""What stages before it may be refused."""


class Known(Histories):
    """A model that also knows the objects of each commit."""

    def __init__(self, repo: Repository) -> None:
        super().__init__(repo)
        self._objects: dict[str, dict[str, ObjectInfo]] = {}

    def note(self, commit: Commit) -> None:
        if commit.id not in self.commits:
            objects_by_path = {each.path: each for each in self.repo.objects(commit.id)}
            self._objects[commit.id] = objects_by_path
            self.commits[commit.id] = commit
            self.trees[commit.id] = {path: same(each) for path, each in objects_by_path.items()}

    def base(self, left: list[str], right: list[str]) -> Identities:
        """Return the tree of a merge base. Keys on which several bases disagree equal nothing."""
        parents = {name: each.parents for name, each in self.commits.items()}
        common = ancestry(parents, left) & ancestry(parents, right)
        below = {each for name in common for each in ancestry(parents, parents[name])}
        bases = sorted(common - below, key=lambda name: (-self.commits[name].generation, name))
        if not bases:
            return {}
        done, tree = bases[-1:], self.trees[bases[-1]]
        for other in reversed(bases[:-1]):
            tree = merged(self.base(done, [other]), tree, self.trees[other])
            done.append(other)
        return tree

    def objects(self, commit_id: str) -> dict[str, ObjectInfo]:
        return self._objects[commit_id]


def same(info: ObjectInfo | None) -> object:
    return None if info is None else identity(info)


def identity(info: ObjectInfo) -> bytes:
    entry = Entry("", info.size, info.checksum, 0, dict(info.metadata), info.content_type)
    return entry_identity(entry)


def is_chosen(path: str, selected: list[str]) -> bool:
    return any(path == each or (each.endswith("/") and path.startswith(each)) for each in selected)


def changes(
    before: Mapping[str, ObjectInfo], after: Mapping[str, ObjectInfo]
) -> dict[str, tuple[int, int]]:
    added = [each.size for path, each in after.items() if path not in before]
    removed = [each.size for path, each in before.items() if path not in after]
    changed = [
        each.size
        for path, each in after.items()
        if path in before and same(before[path]) != same(each)
    ]
    kinds = {"added": added, "changed": changed, "removed": removed}
    return {kind: (len(sizes), sum(sizes)) for kind, sizes in kinds.items()}


Identities = Mapping[str, object]


def check_merge(
    base: Identities,
    source: Identities,
    dest: Identities,
    after: Identities,
    decided: Mapping[str, object],
    paths: list[str] | None,
) -> None:
    """Check all keys without conflicts, and that no conflict loses content."""
    keeps = decided["strategy"] == "keep-both" and decided["rules"] is None
    contents_after = set(after.values())
    for path in base.keys() | source.keys() | dest.keys():
        was, theirs, ours = (side.get(path) for side in (base, source, dest))
        is_out = paths is not None and not is_chosen(path, paths)
        if is_out or theirs in (ours, was):
            expected = ours
        elif ours == was:
            expected = theirs
        else:
            assert not keeps or {theirs, ours} - {None} <= contents_after
            continue
        # Where there is nothing, another object may be kept.
        assert expected is None or after.get(path) == expected, path
        assert expected is not None or path not in after or ".source" in path, path
    extra = after.keys() - base.keys() - source.keys() - dest.keys()
    assert all(".source" in path or "-2" in path for path in extra)


def attempt(verb: Callable[[], object]) -> tuple[object, SparklakeError | None]:
    try:
        return verb(), None
    except SparklakeError as error:
        return None, error
