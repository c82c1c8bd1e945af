"""The real lake against plain dicts: the same verbs, in any order, with the same outcome."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from types import SimpleNamespace
from unittest import mock
from uuid import uuid4

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from sparklake import Commit, DiffRow, Lake
from sparklake.engine.rows import Rows
from sparklake.errors import MergeConflictError, SparklakeError
from sparklake.graveler.entries import Entry, entry_identity
from tests.support.folders import memory_folder
from tests.support.lake_model import MAIN, Changes, Content, Diff, LakeModel, below, differences
from tests.support.lakes import memory_lake, stage_table
from tests.support.oracle import meta_range_id

# Few keys and fewer contents: most edits meet others, and one content is at several keys at once.
PATHS = ["a", "a/b", "a/c", "b/x=1/p", "b/x=2/p", "c", "d", "é"]
PREFIXES = ["", "a", "a/", "b/", "b/x=", "c", "nothing/", "é"]
FOLDERS = ["a/", "b/", "b/x=1/", "b/x=2/", "c/", "nothing/"]
CONTENTS = [Content(b""), Content(b"1"), Content(b"22"), Content(b"22", (("k", "v"),))]
BRANCHES = [MAIN, "dev", "dev:joe-bugfix-1234", "topic"]
TAGS = ["v2.3", "dev:jane-before-v2.3-merge", "topic"]
STRATEGIES = [None, "source-wins", "dest-wins"]

STEPS = ["", "", "", "", "@", "$", "~", "~0", "~2", "^", "^1", "^2", "^2~1", "~1^2"]

paths = st.sampled_from(PATHS)
prefixes = st.sampled_from(PREFIXES)
contents = st.sampled_from(CONTENTS)
changes = st.dictionaries(paths, st.none() | contents, max_size=5)
datas = st.data()


class LakeMachine(RuleBasedStateMachine):
    open_lake: Callable[[], Lake] = staticmethod(memory_lake)

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.folder = self.stack.enter_context(memory_folder())
        scratch = self.folder / "scratch"
        scratch.mkdir()
        self.stack.enter_context(mock.patch.dict(os.environ, SPARKLAKE_SCRATCH=str(scratch)))
        # The same steps must make the same ids each time. Several commits share a second.
        ticks = count(1_700_000_000)
        clock = SimpleNamespace(time=lambda: next(ticks) // 3)
        self.stack.enter_context(mock.patch("sparklake.verbs.context.time", clock))
        self.touched = {MAIN}

    def teardown(self) -> None:
        self.stack.close()

    @initialize(range_records=st.integers(1, 8), start=changes)
    def create(self, range_records: int, start: Changes) -> None:
        namespace = self.folder / "namespace"
        self.repo = self.open_lake().create_repository(
            f"lake-{uuid4().hex}", str(namespace), range_records=range_records
        )
        self.model = LakeModel.of(self.repo.resolve(MAIN))
        for number, content in enumerate(CONTENTS):
            (self.folder / f"object-{number}").write_bytes(content.body)
        self.stage_on(MAIN, start)
        self.commit_on(MAIN, allow_empty=True)
        for name in BRANCHES[1:3]:
            self.repo.create_branch(name, MAIN)
            self.model.create_branch(name, MAIN)

    # --- refs -------------------------------------------------------------------------------------

    def branch(self, data: st.DataObject) -> str:
        """Draws a branch, rarely one that is not there; what is staged on it will be compared."""
        name = data.draw(st.sampled_from([*sorted(self.model.heads) * 5, *BRANCHES]))
        self.touched.add(name)
        return name

    def ref(self, data: st.DataObject) -> str:
        heads, ids = sorted(self.model.heads), sorted(self.model.commits)
        some = [each[:digits] for each in ids for digits in (1, 6)]
        known = st.sampled_from(heads) | st.sampled_from([*heads, *sorted(self.model.tags), *ids])
        base = data.draw(known | known | st.sampled_from([*BRANCHES, *TAGS, *some]))
        return base + data.draw(st.sampled_from(STEPS))

    @rule(name=st.sampled_from(BRANCHES), data=datas)
    def create_branch(self, name: str, data: st.DataObject) -> None:
        ref = self.ref(data)
        self.both(
            lambda: self.repo.create_branch(name, ref),
            lambda _: self.model.create_branch(name, ref),
        )
        self.touched.add(name)

    @rule(delete=st.sampled_from([False, False, True]), name=st.sampled_from(TAGS), data=datas)
    def tag(self, delete: bool, name: str, data: st.DataObject) -> None:
        if delete:
            self.both(lambda: self.repo.delete_tag(name), lambda _: self.model.delete_tag(name))
            return
        ref = self.ref(data)
        self.both(
            lambda: self.repo.create_tag(name, ref).commit_id,
            lambda _: self.model.create_tag(name, ref),
        )

    @rule(what=st.sampled_from(["branch", "reset", "prefix"]), prefix=prefixes, data=datas)
    def drop(self, what: str, prefix: str, data: st.DataObject) -> None:
        """Does what undoes much, in one rule so that it comes seldom."""
        name = self.branch(data)
        if what == "branch":
            self.both(
                lambda: self.repo.delete_branch(name), lambda _: self.model.delete_branch(name)
            )
        elif what == "reset":
            self.both(lambda: self.repo.branch(name).reset(), lambda _: self.model.reset(name))
        else:
            self.both(
                lambda: self.repo.branch(name).delete_prefix(prefix),
                lambda _: self.model.delete_prefix(name, prefix),
            )

    @rule(path=paths, prefix=st.none() | prefixes, data=datas)
    def reset_a_part(self, path: str, prefix: str | None, data: st.DataObject) -> None:
        name = self.branch(data)

        def part(each: str) -> bool:
            return each == path if prefix is None else each.startswith(prefix)

        words = {"path": path} if prefix is None else {"prefix": prefix}
        self.both(
            lambda: self.repo.branch(name).reset(**words),
            lambda _: self.model.reset_part(name, part),
        )

    # --- staging ----------------------------------------------------------------------------------

    @rule(path=paths, content=contents, data=datas)
    def put(self, path: str, content: Content, data: st.DataObject) -> None:
        branch = self.branch(data)
        self.both(
            lambda: self.repo.branch(branch).put(path, content.body, dict(content.metadata)),
            lambda _: self.model.stage(branch, {path: content}),
        )

    @rule(path=paths, data=datas)
    def delete(self, path: str, data: st.DataObject) -> None:
        branch = self.branch(data)
        self.both(
            lambda: self.repo.branch(branch).delete(path),
            lambda _: self.model.stage(branch, {path: None}),
        )

    @rule(changes=changes, data=datas)
    def stage(self, changes: Changes, data: st.DataObject) -> None:
        self.stage_on(self.branch(data), changes)

    @rule(changes=changes, data=datas)
    def stage_and_commit(self, changes: Changes, data: st.DataObject) -> None:
        branch = self.branch(data)
        self.stage_on(branch, changes)
        self.commit_on(branch, allow_empty=False)

    def stage_on(self, branch: str, changes: Changes) -> None:
        rows = [
            {"path": path, "deleted": True}
            if content is None
            else {
                "path": path,
                "size": len(content.body),
                "address": f"file://{self.folder}/object-{CONTENTS.index(content)}",
                "metadata": list(content.metadata),
            }
            for path, content in changes.items()
        ]
        columns = dict.fromkeys(["path", "size", "address", "metadata", "deleted"])
        table = stage_table([columns, *rows]).slice(1)
        self.both(
            lambda: self.repo.branch(branch).stage(table),
            lambda _: self.model.stage(branch, changes),
        )

    @rule(removing=st.booleans(), force=st.booleans(), data=datas)
    def transfer(self, removing: bool, force: bool, data: st.DataObject) -> None:
        branch, some = self.branch(data), data.draw(st.sampled_from([PATHS, FOLDERS]))
        source, dest = data.draw(st.sampled_from(some)), data.draw(st.sampled_from(some))
        ref = None if removing or data.draw(st.booleans()) else self.ref(data)

        def real() -> int:
            found = self.repo.branch(branch)
            if removing:
                return found.move(source, dest, force=force)
            return found.copy(source, dest, ref, force=force)

        self.both(
            real,
            lambda _: self.model.transfer(
                branch, source, dest, ref, removing=removing, force=force
            ),
        )

    # --- history ----------------------------------------------------------------------------------

    @rule(strategy=st.sampled_from(STRATEGIES), data=datas)
    def rebase(self, strategy: str | None, data: st.DataObject) -> None:
        branch, onto = self.branch(data), self.ref(data)
        self.both(
            lambda: self.repo.branch(branch).rebase(onto, strategy),
            lambda made: self.model.rebase(branch, onto, strategy, made),  # type: ignore[arg-type]
            compare=False,
        )

    @rule(allow_empty=st.sampled_from([False, False, True]), data=datas)
    def commit(self, allow_empty: bool, data: st.DataObject) -> None:
        self.commit_on(self.branch(data), allow_empty=allow_empty)

    def commit_on(self, branch: str, *, allow_empty: bool) -> None:
        # Few messages: the same change on two branches is sometimes one commit.
        message = f"change {len(self.model.commits) % 3}"
        self.both(
            lambda: self.repo.branch(branch).commit(message, allow_empty=allow_empty),
            lambda made: self.model.commit(branch, made, allow_empty=allow_empty),
            compare=False,
        )

    @rule(strategy=st.sampled_from(STRATEGIES), data=datas)
    def merge(self, strategy: str | None, data: st.DataObject) -> None:
        self.merge_into(self.ref(data), self.branch(data), strategy)

    @rule(theirs=changes, ours=changes, strategy=st.sampled_from(STRATEGIES), data=datas)
    def diverge_and_merge(
        self, theirs: Changes, ours: Changes, strategy: str | None, data: st.DataObject
    ) -> None:
        heads = st.sampled_from(sorted(self.model.heads))
        source, dest = data.draw(heads), data.draw(heads)
        for branch, each in ((source, theirs), (dest, ours)):
            self.stage_on(branch, each)
            self.commit_on(branch, allow_empty=False)
        self.merge_into(source, dest, strategy)
        self.touched |= {source, dest}

    @rule(theirs=changes, ours=changes, strategy=st.sampled_from(STRATEGIES[1:]), data=datas)
    def cross(self, theirs: Changes, ours: Changes, strategy: str, data: st.DataObject) -> None:
        """Merges two branches into each other as they were: they have two best ancestors then."""
        heads = st.sampled_from(sorted(self.model.heads))
        one, other = data.draw(heads), data.draw(heads)
        for branch, each in ((one, ours), (other, theirs)):
            self.stage_on(branch, each)
            self.commit_on(branch, allow_empty=True)
        before = self.model.heads[one], self.model.heads[other]
        self.merge_into(before[1], one, strategy)
        self.merge_into(before[0], other, strategy)
        self.bases_agree(one, other)
        self.merge_into(one, other, strategy)
        self.touched |= {one, other}

    def merge_into(self, source: str, dest: str, strategy: str | None) -> None:
        self.both(
            lambda: self.repo.merge(source, dest, strategy),
            lambda made: self.model.merge(source, dest, strategy, made),
            compare=False,
        )

    @rule(
        undo=st.booleans(),
        number=st.sampled_from([None, None, 1, 2]),
        strategy=st.sampled_from(STRATEGIES),
        data=datas,
    )
    def replay(
        self, undo: bool, number: int | None, strategy: str | None, data: st.DataObject
    ) -> None:
        branch, ref = self.branch(data), self.ref(data)

        def real() -> Commit:
            found = self.repo.branch(branch)
            verb = found.revert if undo else found.cherry_pick
            (made,) = verb(ref, parent_number=number, strategy=strategy)
            return made

        self.both(
            real,
            lambda made: self.model.replay(branch, ref, number, strategy, made, undo=undo),
            compare=False,
        )

    @rule(back=st.booleans(), force=st.booleans(), data=datas)
    def move(self, back: bool, force: bool, data: st.DataObject) -> None:
        branch, ref = self.branch(data), self.ref(data)
        if back:
            self.both(lambda: self.repo.branch(branch).undo().id, lambda _: self.model.undo(branch))
            return
        self.both(
            lambda: self.repo.branch(branch).hard_reset(ref, force=force).id,
            lambda _: self.model.hard_reset(branch, ref, force=force),
        )

    # --- reading ----------------------------------------------------------------------------------

    @rule(prefix=prefixes, data=datas)
    def diff(self, prefix: str, data: st.DataObject) -> None:
        left, right = self.ref(data), self.ref(data)
        self.both(
            lambda: shown(self.repo.diff(left, right, prefix)),
            lambda _: within(self.model.diff(left, right), prefix),
        )

    @rule(prefix=prefixes, data=datas)
    def three_way_diff(self, prefix: str, data: st.DataObject) -> None:
        dest, source = self.ref(data), self.ref(data)

        def expected(_: object) -> Diff:
            ours, theirs = self.model.resolve(dest), self.model.resolve(source)
            return within(self.model.three_way_diff(theirs, ours), prefix)

        self.both(lambda: shown(self.repo.diff(dest, source, prefix, three_way=True)), expected)

    @rule(prefix=prefixes, data=datas)
    def objects(self, prefix: str, data: st.DataObject) -> None:
        ref = self.ref(data)
        self.both(lambda: self.listing(ref, prefix), lambda _: below(self.model.tree(ref), prefix))

    @rule(path=paths, data=datas)
    def read(self, path: str, data: st.DataObject) -> None:
        ref = self.ref(data)
        self.both(
            lambda: self.repo.read_bytes(ref, path), lambda _: self.model.find(ref, path).body
        )
        self.both(
            lambda: self.repo.stat(ref, path).metadata,
            lambda _: dict(self.model.find(ref, path).metadata),
        )

    @rule(data=datas)
    def log(self, data: st.DataObject) -> None:
        ref = self.ref(data)
        self.both(lambda: [each.id for each in self.repo.log(ref)], lambda _: self.model.log(ref))

    @rule(data=datas)
    def merge_base(self, data: st.DataObject) -> None:
        self.bases_agree(self.ref(data), self.ref(data))

    def bases_agree(self, left: str, right: str) -> None:
        self.both(
            lambda: [each.id for each in self.repo.merge_bases(left, right)],
            lambda _: self.model.merge_bases(self.model.resolve(left), self.model.resolve(right)),
        )

    # --- agreement --------------------------------------------------------------------------------

    def both(
        self,
        real: Callable[[], object],
        model: Callable[[object], object],
        *,
        compare: bool = True,
    ) -> None:
        """Runs a verb here and there: the same answer, or the same error."""
        outcome, failure = attempt(real)
        expected, refusal = attempt(lambda: model(outcome))
        assert type(failure) is type(refusal), (failure, refusal)
        if isinstance(failure, MergeConflictError) and isinstance(refusal, MergeConflictError):
            assert shown(failure.conflicts) == refusal.conflicts
            assert failure.count == refusal.count
        elif compare and failure is None and expected is not None:
            assert outcome == expected

    def listing(self, ref: str, prefix: str = "") -> dict[str, Content]:
        objects = list(self.repo.objects(ref, prefix))
        found = {}
        for each in objects:
            fitting = [
                content
                for content in CONTENTS
                if (content.checksum, len(content.body)) == (each.checksum, each.size)
                and dict(content.metadata) == each.metadata
            ]
            found[each.path] = fitting[0]
        assert list(found) == [each.path for each in objects]
        return found

    @invariant()
    def refs_agree(self) -> None:
        states = {each.name: each for each in self.repo.branch_states()}
        assert {name: each.commit_id for name, each in states.items()} == self.model.heads
        dirty = {name for name, each in states.items() if each.layers}
        assert dirty == {name for name, staged in self.model.staged.items() if staged}
        assert {tag.name: tag.commit_id for tag in self.repo.tags()} == self.model.tags

    @invariant()
    def trees_agree(self) -> None:
        """Compares contents, and the id that the contents alone must have, whatever made them."""
        for name in self.touched & self.model.heads.keys():
            head = self.repo.resolve(name)
            tree = self.model.trees[head.id]
            assert head.meta_range_id == meta_range_id(
                {path.encode(): identity(content) for path, content in tree.items()},
                self.repo.info.range_records,
            )
            assert self.listing(f"{name}@") == tree
            current = self.model.tree(name)
            assert self.listing(name) == current
            staged = shown(self.repo.diff_uncommitted(name))
            assert staged == self.model.diff_uncommitted(name) == differences(tree, current)
        self.touched = set()


def attempt(verb: Callable[[], object]) -> tuple[object, SparklakeError | None]:
    try:
        return verb(), None
    except SparklakeError as error:
        return None, error


def shown(rows: Rows[DiffRow] | list[DiffRow]) -> Diff:
    return [(each.type.value, each.path, each.size) for each in rows]


def identity(content: Content) -> bytes:
    entry = Entry("", len(content.body), content.checksum, 0, dict(content.metadata))
    return entry_identity(entry)


def within(rows: Diff, prefix: str) -> Diff:
    return [row for row in rows if row[1].startswith(prefix)]


@pytest.mark.slow
@pytest.mark.timeout(900)  # a failure is made small first
def test_the_lake_does_what_dicts_do() -> None:
    some = settings(max_examples=50, stateful_step_count=25, deadline=None)
    run_state_machine_as_test(LakeMachine, settings=some)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_lake_in_postgres_does_what_dicts_do(lake: Lake) -> None:
    class PostgresLakeMachine(LakeMachine):
        open_lake = staticmethod(lambda: lake)

    few = settings(max_examples=10, stateful_step_count=20, deadline=None)
    run_state_machine_as_test(PostgresLakeMachine, settings=few)
