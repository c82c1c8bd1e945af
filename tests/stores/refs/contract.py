"""What every ref store promises."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Barrier, Event, Lock

import pytest

from sparklake.errors import (
    AlreadyExistsError,
    DirtyBranchError,
    NamespaceInUseError,
    ProtectedError,
    RaceLostError,
    ReadOnlyError,
    RefNotFoundError,
    RepositoryNotFoundError,
)
from sparklake.graveler.commits import Commit, first_commit, new_commit
from sparklake.graveler.guards import Action, ProtectionRule, RepositorySettings
from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.keys import Interval
from sparklake.graveler.ports import (
    BranchMove,
    BranchState,
    Layer,
    LayerCut,
    LayerKind,
    RefStore,
    RepositoryRefs,
    TagInfo,
)
from sparklake.graveler.ports.registers import (
    HookResult,
    HookRun,
    HookStatus,
    Purge,
    PurgeCounts,
    PurgeState,
)
from sparklake.graveler.records import Record, encode_record, tombstone
from sparklake.graveler.retention import BranchRetention, Retention
from tests.stores.refs.histories import (
    FIRST,
    a_commit,
    a_move,
    a_repository,
    grow,
    nearest_first,
    new_refs,
)

RUN = MetaRangeId("b" * 64)
NOWHERE = CommitId("0" * 64)
# In the order of bytes; most locales would mix them up.
SORTED_NAMES = ["A", "B-1", "Z", "_", "a", "a+b", "a.b", "a0", "aB", "ab", "b"]


def a_record(key: bytes, body: bytes = b"body") -> Record:
    return encode_record(key, b"identity", body)


def a_run(number: int, ref: str = "main", commit_id: CommitId | None = FIRST.id) -> HookRun:
    hook = HookResult(
        "h.yaml", "büro", "one", "shell", HookStatus.FAILED, 7, 'no "%s" \\ \U0001f600'
    )
    return HookRun(
        f"{number:032x}", "pre-merge", ref, commit_id, "ann", 2**40, HookStatus.FAILED, (hook, hook)
    )


def staged(refs: RepositoryRefs, branch: str = "main") -> dict[bytes, bytes]:
    """Return the staged rows of a branch, upper layers over lower ones."""
    state = refs.branches.find(branch)
    assert state is not None
    layers = [layer for layer in reversed(state.layers) if layer.kind is LayerKind.ROWS]
    return dict(record for layer in layers for record in refs.staging.rows(layer.id))


def top(refs: RepositoryRefs, branch: str = "main") -> Layer:
    state = refs.branches.find(branch)
    assert state is not None
    return state.layers[0]


def at_once(count: int, task: Callable[[int], object]) -> list[object]:
    """Run a task in concurrent threads; return results, or the errors of race losers."""
    barrier = Barrier(count)

    def run(number: int) -> object:
        barrier.wait()
        try:
            return task(number)
        except (RaceLostError, AlreadyExistsError) as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


class RefStoreContract:
    """The shared tests; subclasses provide the fixture `store`, which is empty."""

    @pytest.fixture
    def refs(self, store: RefStore) -> RepositoryRefs:
        return new_refs(store)

    # --- repositories

    def test_a_new_repository_has_a_first_commit_on_its_default_branch(
        self, store: RefStore
    ) -> None:
        info = a_repository("lake")
        store.create_repository(info, FIRST, "ann")
        refs = store.refs(info.uid)
        assert store.find_repository("lake") == info
        assert refs.commits.find(FIRST.id) == FIRST
        assert refs.branches.list() == [BranchState("main", FIRST.id)]
        (operation,) = refs.operations.list()
        assert (operation.who, operation.verb, operation.ref) == (
            "ann",
            "create-repository",
            "main",
        )
        assert (operation.from_commit, operation.to_commit) == (None, FIRST.id)
        assert abs(operation.date - time.time()) < 60

    def test_repositories_are_listed_in_byte_order(self, store: RefStore) -> None:
        names = ["a-b", "a0", "ab", "b-c"]
        for name in random.Random(1).sample(names, len(names)):
            store.create_repository(a_repository(name), FIRST, "ann")
        assert [info.name for info in store.list_repositories()] == names

    def test_a_missing_repository_is_none(self, store: RefStore) -> None:
        assert store.find_repository("nothing") is None
        assert store.list_repositories() == []
        with pytest.raises(RepositoryNotFoundError, match="nothing"):
            store.delete_repository("nothing")

    def test_a_repository_name_is_unique(self, store: RefStore) -> None:
        first = a_repository("lake")
        store.create_repository(first, FIRST, "ann")
        with pytest.raises(AlreadyExistsError, match="lake") as caught:
            store.create_repository(a_repository("lake"), FIRST, "ann")
        assert not isinstance(caught.value, NamespaceInUseError)
        assert store.find_repository("lake") == first

    @pytest.mark.parametrize(
        ("existing", "requested"),
        [
            ("s3://bucket/a", "s3://bucket/a"),
            ("s3://bucket/a", "s3://bucket/a/"),
            ("s3://bucket/a/", "s3://bucket/a"),
            ("s3://bucket/a", "s3://bucket/a/b"),
            ("s3://bucket/a/b", "s3://bucket/a"),
            ("s3://bucket", "s3://bucket/a"),
            ("s3://bucket/a", "s3://bucket"),
            ("file:///data/50%_off", "file:///data/50%_off/x"),
        ],
    )
    def test_overlapping_namespaces_are_rejected(
        self, store: RefStore, existing: str, requested: str
    ) -> None:
        store.create_repository(a_repository("holder", existing), FIRST, "ann")
        with pytest.raises(NamespaceInUseError, match="'holder'"):
            store.create_repository(a_repository("late", requested), FIRST, "ann")
        assert store.find_repository("late") is None

    @pytest.mark.parametrize(
        ("existing", "requested"),
        [
            ("s3://bucket/a", "s3://bucket/ab"),
            ("s3://bucket/ab", "s3://bucket/a"),
            ("s3://bucket/a", "s3://bucket/A"),
            ("s3://bucket/a_c", "s3://bucket/abc"),
            ("s3://bucket/a%", "s3://bucket/a/b"),
            ("s3://bucket/a", "s3://bucket-2/a"),
        ],
    )
    def test_namespaces_side_by_side_are_accepted(
        self, store: RefStore, existing: str, requested: str
    ) -> None:
        store.create_repository(a_repository("one", existing), FIRST, "ann")
        store.create_repository(a_repository("two", requested), FIRST, "ann")
        assert len(store.list_repositories()) == 2

    def test_one_of_concurrent_overlapping_repositories_is_created(self, store: RefStore) -> None:
        spaces = ["s3://bucket/a", "s3://bucket/a/b", "s3://bucket", "s3://bucket/a"]

        def create(number: int) -> None:
            store.create_repository(a_repository(f"lake-{number}", spaces[number]), FIRST, "ann")

        results = at_once(len(spaces), create)
        assert [type(result) for result in results].count(NamespaceInUseError) == 3
        assert len(store.list_repositories()) == 1

    def test_a_snapshot_contains_all_refs_and_commits(self, refs: RepositoryRefs) -> None:
        shape = {"a": [], "b": ["a"], "c": ["a"], "d": ["c", "b"]}
        commits = grow(refs, shape)
        refs.branches.delete("d", "ann")
        refs.tags.create(TagInfo("v1", commits["b"].id), "ann")
        refs.staging.put("c", [a_record(b"k")], fence=0)
        snapshot = refs.snapshot()
        assert snapshot.branches == tuple(refs.branches.list())
        assert [bool(each.layers) for each in snapshot.branches] == [False, False, True, False]
        assert snapshot.tags == (TagInfo("v1", commits["b"].id),)
        every = [FIRST, *commits.values()]
        assert list(snapshot.commits) == sorted(every, key=lambda each: (each.generation, each.id))
        assert [each.name for each in snapshot.named] == ["a", "b", "c", "main", "v1"]

    def test_a_snapshot_is_consistent(self, refs: RepositoryRefs) -> None:
        is_over = Event()

        def move() -> None:
            head = FIRST
            while not is_over.is_set():
                commit = a_commit(head)
                refs.branches.move(a_move(head, commit))
                refs.branches.create(f"at-{commit.generation}", commit.id, "ann")
                head = commit

        with ThreadPoolExecutor(1) as pool:
            moving = pool.submit(move)
            for _ in range(20):
                snapshot = refs.snapshot()
                ids = {each.id for each in snapshot.commits}
                assert {each.commit_id for each in snapshot.named} <= ids
                heads = {each.name: each.commit_id for each in snapshot.branches}
                generation = {each.id: each.generation for each in snapshot.commits}
                # A snapshot never shows an effect without its cause.
                assert max(generation.values()) == generation[heads["main"]]
                assert generation[heads["main"]] - len(heads) in (0, 1)
            is_over.set()
            moving.result()

    def test_a_restored_repository_equals_its_snapshot(
        self, store: RefStore, refs: RepositoryRefs
    ) -> None:
        commits = grow(refs, {"a": [], "b": ["a"], "c": ["b", "a"]})
        refs.tags.create(TagInfo("v1", commits["a"].id), "ann")
        snapshot = refs.snapshot()
        info = replace(a_repository("again"), default_branch="b")
        store.restore_repository(info, snapshot, "eve")
        assert store.find_repository("again") == info
        restored = store.refs(info.uid)
        assert restored.snapshot() == snapshot
        assert [(each.who, each.verb, each.ref) for each in restored.operations.list()] == [
            ("eve", "restore-repository", name) for name in ("v1", "main", "c", "b", "a")
        ]
        after = a_commit(commits["c"])
        restored.branches.move(a_move(commits["c"], after, branch="c"))
        assert refs.snapshot() == snapshot

    def test_a_repository_is_restored_only_with_a_free_name_and_namespace(
        self, store: RefStore, refs: RepositoryRefs
    ) -> None:
        (existing,) = store.list_repositories()
        snapshot = refs.snapshot()
        with pytest.raises(AlreadyExistsError):
            store.restore_repository(a_repository("lake"), snapshot, "eve")
        inside = a_repository("other", f"{existing.storage_namespace}/inside")
        with pytest.raises(NamespaceInUseError):
            store.restore_repository(inside, snapshot, "eve")
        assert store.list_repositories() == [existing]
        assert store.refs(inside.uid).snapshot().commits == ()

    def test_a_recreated_repository_starts_empty(self, store: RefStore) -> None:
        old = a_repository("lake")
        store.create_repository(old, FIRST, "ann")
        old_refs = store.refs(old.uid)
        old_refs.tags.create(TagInfo("v1", FIRST.id), "ann")
        old_refs.branches.create("dev", FIRST.id, "ann")
        old_refs.branches.move(a_move(FIRST, a_commit()))
        old_refs.staging.put("dev", [a_record(b"k")], fence=0)
        old_refs.staging.seal("dev")
        old_refs.staging.put("dev", [a_record(b"k")], fence=0)
        store.delete_repository("lake")
        assert old_refs.branches.list() == old_refs.tags.list() == []
        assert old_refs.commits.find(FIRST.id) is None
        assert len(old_refs.operations.list()) == 4

        new = replace(a_repository("lake"), storage_namespace=old.storage_namespace)
        other_first = first_commit(FIRST.creation_date + 1)
        store.create_repository(new, other_first, "bob")
        refs = store.refs(new.uid)
        assert refs.branches.list() == [BranchState("main", other_first.id)]
        assert refs.tags.list() == []
        assert refs.commits.find(FIRST.id) is None
        assert [line.who for line in refs.operations.list()] == ["bob"]
        with pytest.raises(RefNotFoundError):
            old_refs.staging.put("dev", [a_record(b"k")], fence=0)
        with pytest.raises(RefNotFoundError):
            old_refs.branches.create("dev", FIRST.id, "ann")

    def test_repositories_are_isolated(self, store: RefStore) -> None:
        one, two = new_refs(store, "one"), new_refs(store, "two")
        one.branches.create("dev", FIRST.id, "ann")
        one.tags.create(TagInfo("v1", FIRST.id), "ann")
        one.branches.move(a_move(FIRST, a_commit()))
        one.staging.put("main", [a_record(b"k")], fence=0)
        layer = top(one)
        assert two.branches.list() == [BranchState("main", FIRST.id)]
        assert two.tags.find("v1") is None
        assert [commit.id for commit in two.commits.find_by_prefix("", 9)] == [FIRST.id]
        assert len(two.operations.list()) == 1
        with pytest.raises(RaceLostError):
            two.staging.row(layer.id, b"k")
        store.delete_repository("two")
        assert staged(one) == dict([a_record(b"k")])

    # --- branches and tags

    def test_branches_are_created_and_deleted(self, refs: RepositoryRefs) -> None:
        assert refs.branches.find("dev") is None
        assert refs.branches.create("dev", FIRST.id, "bob") == BranchState("dev", FIRST.id)
        assert refs.branches.find("dev") == BranchState("dev", FIRST.id)
        refs.branches.delete("dev", "eve")
        assert refs.branches.find("dev") is None
        with pytest.raises(RefNotFoundError, match="dev"):
            refs.branches.delete("dev", "eve")
        assert [(line.who, line.verb, line.ref) for line in refs.operations.list()[:2]] == [
            ("eve", "delete-branch", "dev"),
            ("bob", "create-branch", "dev"),
        ]

    def test_a_renamed_branch_keeps_its_layers_expiry_and_rules(self, refs: RepositoryRefs) -> None:
        reset = frozenset({Action.RESET})
        rules = [ProtectionRule("dev", frozenset({Action.COMMIT})), ProtectionRule("d*v", reset)]
        retention = Retention(30, (BranchRetention("dev", 7), BranchRetention("*", 9)))
        refs.settings.change(lambda _: RepositorySettings(False, tuple(rules), {}, retention))
        before = refs.branches.create(
            "dev", FIRST.id, "ann", hidden=True, lifetime=timedelta(days=2)
        )
        refs.staging.put("dev", [a_record(b"k")], fence=0)
        refs.staging.add_run("dev", MetaRangeId("f" * 64), fence=0)
        refs.staging.put("dev", [a_record(b"later")], fence=0)
        layers = refs.staging.seal("dev").layers
        refs.staging.put("dev", [a_record(b"open")], fence=0)
        state = refs.branches.rename("dev", "team", "eve")
        assert state == refs.branches.find("team")
        assert [each.sealed for each in state.layers] == [True] * 4
        assert state.layers[1:] == layers
        assert (state.hidden, state.expires) == (True, before.expires)
        assert state.guard.protected == {Action.COMMIT, *reset}
        settings = refs.settings.get()
        assert [each.pattern for each in settings.protection] == ["d*v", "team"]
        assert settings.retention is not None
        assert settings.retention.days("team") == 7
        assert settings.retention.days("dev") == 9
        assert refs.branches.find("dev") is None
        with pytest.raises(RefNotFoundError, match="dev"):
            refs.staging.put("dev", [a_record(b"lost")], fence=0)
        refs.staging.put("team", [a_record(b"k2")], fence=0)
        assert [
            (line.who, line.verb, line.ref, line.from_commit, line.to_commit)
            for line in refs.operations.list()[:2]
        ] == [
            ("eve", "rename-branch", "team", None, FIRST.id),
            ("eve", "rename-branch", "dev", FIRST.id, None),
        ]

    def test_a_branch_is_renamed_only_to_a_free_name(self, refs: RepositoryRefs) -> None:
        refs.branches.create("dev", FIRST.id, "ann")
        refs.tags.create(TagInfo("v1", FIRST.id), "ann")
        with pytest.raises(AlreadyExistsError, match="already a tag 'v1'"):
            refs.branches.rename("dev", "v1", "ann")
        for name in ("main", "dev"):
            with pytest.raises(AlreadyExistsError, match=f"branch '{name}' already exists"):
                refs.branches.rename("dev", name, "ann")
        with pytest.raises(RefNotFoundError, match="none"):
            refs.branches.rename("none", "new", "ann")
        refs.settings.change(
            lambda _: RepositorySettings(
                False, (ProtectionRule("dev", frozenset({Action.DELETE})),)
            )
        )
        with pytest.raises(ProtectedError, match="delete"):
            refs.branches.rename("dev", "new", "ann")

    def test_a_new_branch_requires_a_free_name_and_a_commit(self, refs: RepositoryRefs) -> None:
        with pytest.raises(AlreadyExistsError, match="main"):
            refs.branches.create("main", FIRST.id, "ann")
        with pytest.raises(RefNotFoundError, match=NOWHERE):
            refs.branches.create("dev", NOWHERE, "ann")
        assert len(refs.operations.list()) == 1

    def test_branches_and_tags_are_listed_in_byte_order(self, refs: RepositoryRefs) -> None:
        for name in random.Random(2).sample(SORTED_NAMES, len(SORTED_NAMES)):
            refs.branches.create(name, FIRST.id, "ann")
        names = [branch.name for branch in refs.branches.list()]
        assert names == sorted([*SORTED_NAMES, "main"], key=str.encode)
        for name in random.Random(3).sample(SORTED_NAMES, len(SORTED_NAMES)):
            refs.branches.delete(name, "ann")
            refs.tags.create(TagInfo(name, FIRST.id), "ann")
        assert [tag.name for tag in refs.tags.list()] == SORTED_NAMES

    def test_tags_are_created_and_deleted(self, refs: RepositoryRefs) -> None:
        tag = TagInfo(
            "v1", FIRST.id, "ann", FIRST.creation_date, "the model", {"run": "7", "a": "\u00e9"}
        )
        assert refs.tags.find("v1") is None
        refs.tags.create(tag, "bob")
        assert refs.tags.find("v1") == tag
        assert refs.tags.list() == [tag]
        with pytest.raises(AlreadyExistsError, match="v1"):
            refs.tags.create(TagInfo("v1", FIRST.id), "bob")
        with pytest.raises(RefNotFoundError, match=NOWHERE):
            refs.tags.create(TagInfo("v2", NOWHERE), "bob")
        refs.tags.delete("v1", "eve")
        with pytest.raises(RefNotFoundError, match="v1"):
            refs.tags.delete("v1", "eve")
        last, before = refs.operations.list()[:2]
        assert (last.verb, last.from_commit, last.to_commit) == ("delete-tag", FIRST.id, None)
        assert (before.verb, before.from_commit, before.to_commit) == ("create-tag", None, FIRST.id)

    def test_one_of_concurrent_equal_branches_is_created(self, refs: RepositoryRefs) -> None:
        results = at_once(4, lambda _: refs.branches.create("dev", FIRST.id, "ann"))
        assert [type(result) for result in results].count(AlreadyExistsError) == 3

    def test_a_branch_and_a_tag_cannot_share_a_name(self, refs: RepositoryRefs) -> None:
        refs.branches.create("dev", FIRST.id, "ann")
        refs.tags.create(TagInfo("v1", FIRST.id), "ann")
        with pytest.raises(AlreadyExistsError, match="already a branch 'dev'"):
            refs.tags.create(TagInfo("dev", FIRST.id), "ann")
        with pytest.raises(AlreadyExistsError, match="already a tag 'v1'"):
            refs.branches.create("v1", FIRST.id, "ann")
        refs.tags.delete("v1", "ann")
        assert refs.branches.create("v1", FIRST.id, "ann").name == "v1"

    def test_one_of_a_concurrent_branch_and_tag_is_created(self, refs: RepositoryRefs) -> None:
        def create(number: int) -> object:
            if number % 2:
                return refs.tags.create(TagInfo(name, FIRST.id), "ann")
            return refs.branches.create(name, FIRST.id, "ann")

        for name in ("a", "b", "c", "d", "e"):
            results = at_once(4, create)
            assert [type(result) for result in results].count(AlreadyExistsError) == 3
            assert (refs.branches.find(name) is None) != (refs.tags.find(name) is None)

    # --- moves

    def test_a_move_writes_the_commit_the_head_and_the_log(self, refs: RepositoryRefs) -> None:
        commit = a_commit()
        refs.branches.move(a_move(FIRST, commit))
        assert refs.branches.find("main") == BranchState("main", commit.id)
        assert refs.commits.find(commit.id) == commit
        last = refs.operations.list()[0]
        assert (last.who, last.verb, last.ref) == ("ann", "commit", "main")
        assert (last.from_commit, last.to_commit) == (FIRST.id, commit.id)

    def test_a_move_to_an_existing_commit_adds_no_commit(self, refs: RepositoryRefs) -> None:
        commit = a_commit()
        refs.branches.move(a_move(FIRST, commit))
        refs.branches.move(BranchMove("main", commit.id, FIRST.id, "reset", "ann", fence=0))
        assert refs.branches.find("main") == BranchState("main", FIRST.id)
        refs.branches.move(a_move(FIRST, commit))
        assert [line.verb for line in refs.operations.list()[:3]] == ["commit", "reset", "commit"]

    def test_a_move_over_several_commits_is_atomic(self, refs: RepositoryRefs) -> None:
        one = a_commit()
        two = a_commit(one)
        move = replace(a_move(FIRST, two), commits=(one, two))
        with pytest.raises(RefNotFoundError):
            refs.branches.move(replace(move, to=NOWHERE))
        assert [refs.commits.find(each.id) for each in (one, two)] == [None, None]
        refs.branches.move(move)
        assert refs.branches.find("main") == BranchState("main", two.id)
        assert [refs.commits.find(each.id) for each in (one, two)] == [one, two]
        last, *_ = refs.operations.list()
        assert (last.from_commit, last.to_commit, len(refs.operations.list())) == (
            *(FIRST.id, two.id),
            2,
        )
        three = a_commit(two)
        with pytest.raises(RaceLostError):
            refs.branches.move(replace(a_move(FIRST, three), commits=(three,)))
        assert refs.commits.find(three.id) is None

    def test_a_move_from_a_stale_head_changes_nothing(self, refs: RepositoryRefs) -> None:
        one, two = a_commit(), a_commit()
        refs.branches.move(a_move(FIRST, one))
        refs.staging.put("main", [a_record(b"k")], fence=0)
        state = refs.staging.seal("main")
        with pytest.raises(RaceLostError, match=one.id):
            refs.branches.move(a_move(FIRST, two, layers=[state.layers[0].id]))
        assert refs.branches.find("main") == state
        assert refs.commits.find(two.id) is None
        assert refs.operations.list()[0].to_commit == one.id
        assert staged(refs) == dict([a_record(b"k")])

    def test_an_undo_of_an_older_operation_loses_the_race(self, refs: RepositoryRefs) -> None:
        commit = a_commit()
        refs.branches.move(a_move(FIRST, commit))
        sequence = refs.operations.list(1, "main")[0].sequence
        back = BranchMove("main", commit.id, FIRST.id, "undo", "ann", fence=0, latest=sequence)
        refs.branches.move(replace(back, verb="reset"))
        refs.branches.move(a_move(FIRST, commit))
        with pytest.raises(RaceLostError, match="moved back"):
            refs.branches.move(back)
        assert refs.branches.find("main") == BranchState("main", commit.id)
        latest = refs.operations.list(1, "main")[0]
        assert (latest.verb, latest.to_commit) == ("commit", commit.id)
        refs.branches.move(replace(back, latest=latest.sequence))
        assert refs.branches.find("main") == BranchState("main", FIRST.id)

    def test_a_commit_rejects_runs_staged_after_its_read(self, refs: RepositoryRefs) -> None:
        state = refs.staging.seal("main")
        refs.staging.put("main", [a_record(b"1")], fence=0)
        run = refs.staging.add_run("main", RUN, fence=0)
        commit = a_commit()
        with pytest.raises(RaceLostError, match="just staged a write to 'main'"):
            refs.branches.move(replace(a_move(FIRST, commit), runs=state.runs))
        assert refs.branches.find("main") == replace(refs.staging.seal("main"), commit_id=FIRST.id)
        assert refs.commits.find(commit.id) is None
        refs.branches.move(replace(a_move(FIRST, commit), runs=frozenset({run.id})))
        assert refs.staging.seal("main").commit_id == commit.id

    def test_a_move_requires_its_branch_and_target(self, refs: RepositoryRefs) -> None:
        with pytest.raises(RefNotFoundError, match="dev"):
            refs.branches.move(a_move(FIRST, a_commit(), branch="dev"))
        with pytest.raises(RefNotFoundError, match=NOWHERE):
            refs.branches.move(BranchMove("main", FIRST.id, NOWHERE, "reset", "ann", fence=0))
        assert len(refs.operations.list()) == 1

    def test_a_run_is_added_only_to_an_unchanged_branch(self, refs: RepositoryRefs) -> None:
        refs.staging.put("main", [a_record(b"1")], fence=0)
        state = refs.staging.seal("main")
        assert refs.staging.add_run("main", RUN, state, fence=0).meta_range_id == RUN
        with pytest.raises(RaceLostError):
            refs.staging.add_run("main", RUN, state, fence=0)
        state = refs.staging.seal("main")
        refs.staging.put("main", [a_record(b"2")], fence=0)
        with pytest.raises(RaceLostError):
            refs.staging.add_run("main", RUN, state, fence=0)
        state = refs.staging.seal("main")
        applied = [layer.id for layer in state.layers]
        refs.branches.move(a_move(FIRST, a_commit(), layers=applied))
        with pytest.raises(RaceLostError):
            refs.staging.add_run("main", RUN, state, fence=0)
        assert refs.branches.find("main").layers == ()

    def test_a_move_removes_exactly_the_applied_layers(self, refs: RepositoryRefs) -> None:
        refs.staging.put("main", [a_record(b"1")], fence=0)
        refs.staging.add_run("main", RUN, fence=0)
        refs.staging.put("main", [a_record(b"2")], fence=0)
        applied = refs.staging.seal("main").layers
        refs.staging.put("main", [a_record(b"3")], fence=0)
        refs.branches.move(a_move(FIRST, a_commit(), layers=[layer.id for layer in applied]))
        assert staged(refs) == dict([a_record(b"3")])
        with pytest.raises(RaceLostError, match=str(applied[0].id)):
            list(refs.staging.rows(applied[0].id))

    @pytest.mark.parametrize("case", ["gone", "open", "of another branch"])
    def test_a_move_requires_all_applied_layers(self, refs: RepositoryRefs, case: str) -> None:
        refs.branches.create("dev", FIRST.id, "ann")
        for branch in ("main", "dev"):
            refs.staging.put(branch, [a_record(b"k")], fence=0)
        sealed = refs.staging.seal("main").layers[0].id
        refs.staging.put("main", [a_record(b"2")], fence=0)
        other = {
            "gone": 2**40,
            "open": top(refs).id,
            "of another branch": refs.staging.seal("dev").layers[0].id,
        }[case]
        commit = a_commit()
        with pytest.raises(RaceLostError, match="'main'"):
            refs.branches.move(a_move(FIRST, commit, layers=[sealed, other]))
        assert refs.commits.find(commit.id) is None
        assert staged(refs) == dict([a_record(b"k"), a_record(b"2")])
        assert staged(refs, "dev") == dict([a_record(b"k")])

    def test_a_partial_commit_keeps_other_staged_changes(self, refs: RepositoryRefs) -> None:
        """Writers continue, and their changes stay on top."""
        other = MetaRangeId("c" * 64)
        refs.staging.put("main", [a_record(key) for key in (b"a", b"b", b"c", b"d")], fence=0)
        emptied = refs.staging.add_run("main", RUN, fence=0)
        refs.staging.put("main", [tombstone(b"a"), a_record(b"c")], fence=0)
        changed = refs.staging.add_run("main", RUN, fence=0)
        refs.staging.put("main", [a_record(b"b")], fence=0)
        before = refs.staging.seal("main")
        refs.staging.put("main", [a_record(b"b"), a_record(b"e")], fence=0)
        refs.staging.add_run("main", RUN, fence=0)
        refs.staging.put("main", [tombstone(b"d")], fence=0)
        commit = a_commit()
        cut = LayerCut(
            [Interval(b"b", b"b\0"), Interval(b"d", None)],
            {emptied.id: MetaRangeId(""), changed.id: other},
        )
        layers = [each.id for each in before.layers]
        refs.branches.move(replace(a_move(FIRST, commit, layers=layers), cut=cut))
        state = refs.branches.find("main")
        assert state is not None
        assert state.commit_id == commit.id
        assert [(each.kind, each.sealed, each.meta_range_id) for each in state.layers] == [
            (LayerKind.ROWS, False, None),
            (LayerKind.RUN, True, RUN),
            (LayerKind.ROWS, True, None),
            (LayerKind.RUN, True, other),
            (LayerKind.ROWS, True, None),
            (LayerKind.ROWS, True, None),
        ]
        ids = [each.id for each in state.layers]
        assert ids == sorted(ids, reverse=True)
        assert [
            dict(refs.staging.rows(each.id)) for each in state.layers if each.kind is LayerKind.ROWS
        ] == [
            dict([tombstone(b"d")]),
            dict([a_record(b"b"), a_record(b"e")]),
            dict([tombstone(b"a"), a_record(b"c")]),
            dict([a_record(b"a"), a_record(b"c")]),
        ]
        for layer_id in layers:
            with pytest.raises(RaceLostError):
                refs.staging.count(layer_id)
        refs.staging.put("main", [a_record(b"d")], fence=0)
        assert top(refs).id == ids[0]
        with pytest.raises(RaceLostError, match="has committed or dropped staged changes"):
            refs.branches.move(replace(a_move(commit, a_commit(), layers=layers), cut=cut))
        assert refs.branches.find("main") == state

    def test_a_partial_commit_loses_no_concurrent_write(self, refs: RepositoryRefs) -> None:
        head, writers = FIRST, 3
        for number in range(6):
            refs.staging.put("main", [a_record(b"taken"), a_record(b"kept-%d" % number)], fence=0)
            state = refs.staging.seal("main")
            commit = a_commit()
            move = replace(
                a_move(head, commit, layers=[each.id for each in state.layers]),
                cut=LayerCut([Interval(b"taken", b"taken\0")]),
            )

            def act(turn: int, move: BranchMove = move, number: int = number) -> None:
                if turn == writers:
                    refs.branches.move(move)
                else:
                    refs.staging.put("main", [a_record(b"late-%d-%d" % (number, turn))], fence=0)

            results = at_once(writers + 1, act)
            assert results == [None] * (writers + 1)
            head = commit
        assert set(staged(refs)) == {
            *(b"kept-%d" % number for number in range(6)),
            *(b"late-%d-%d" % (number, turn) for number in range(6) for turn in range(writers)),
        }

    def test_dropping_layers_without_a_move_is_not_logged(self, refs: RepositoryRefs) -> None:
        refs.staging.put("main", [tombstone(b"k")], fence=0)
        layer = refs.staging.seal("main").layers[0]
        refs.branches.move(
            BranchMove(
                "main", FIRST.id, FIRST.id, "commit", "ann", applied_layers=(layer.id,), fence=0
            )
        )
        assert refs.branches.find("main") == BranchState("main", FIRST.id)
        assert len(refs.operations.list()) == 1

    def test_one_of_concurrent_moves_wins(self, refs: RepositoryRefs) -> None:
        commits = [a_commit() for _ in range(4)]
        results = at_once(4, lambda number: refs.branches.move(a_move(FIRST, commits[number])))
        (winner,) = [each for each, result in zip(commits, results, strict=True) if result is None]
        assert all(isinstance(result, RaceLostError) for result in results if result is not None)
        assert refs.branches.find("main") == BranchState("main", winner.id)
        assert [line.to_commit for line in refs.operations.list()] == [winner.id, FIRST.id]
        assert len(refs.commits.find_by_prefix("", 9)) == 2

    def test_retries_of_losers_make_a_linear_history(self, refs: RepositoryRefs) -> None:
        def commit_until_it_works(number: int) -> None:
            while True:
                state = refs.branches.find("main")
                assert state is not None
                head = refs.commits.find(state.commit_id)
                assert head is not None
                try:
                    refs.branches.move(a_move(head, a_commit(head, message=f"by {number}")))
                except RaceLostError:
                    continue
                return

        at_once(4, commit_until_it_works)
        log = refs.operations.list()
        assert len(log) == 5
        assert [line.from_commit for line in log[:-1]] == [line.to_commit for line in log[1:]]

    def test_one_process_at_a_time_holds_a_branch_slot(self, refs: RepositoryRefs) -> None:
        holders, most, lock = 0, 0, Lock()

        def take_turns(_: int) -> None:
            nonlocal holders, most
            for _ in range(5):
                with refs.branches.turn("main", 60):
                    with lock:
                        holders += 1
                        most = max(most, holders)
                    assert refs.branches.is_turn_held("main")
                    with lock:
                        holders -= 1

        at_once(4, take_turns)
        assert most == 1
        assert not refs.branches.is_turn_held("main")

    def test_a_process_proceeds_without_a_slot_after_its_timeout(
        self, refs: RepositoryRefs
    ) -> None:
        with refs.branches.turn("main", 60):
            with refs.branches.turn("main", 0.01):
                assert refs.branches.is_turn_held("main")
            assert refs.branches.is_turn_held("main")
        assert not refs.branches.is_turn_held("main")

    def test_a_queue_slot_belongs_to_one_branch_of_one_repository(self, store: RefStore) -> None:
        refs, others = new_refs(store), new_refs(store, "other")
        with refs.branches.turn("main", 60), others.branches.turn("main", 60):
            assert not refs.branches.is_turn_held("dev")
            with refs.branches.turn("dev", 60):
                assert refs.branches.is_turn_held("dev")
                assert not others.branches.is_turn_held("dev")

    def test_an_error_releases_a_queue_slot(self, refs: RepositoryRefs) -> None:
        commit = a_commit()

        def move_twice() -> None:
            with refs.branches.turn("main", 60):
                refs.branches.move(a_move(FIRST, commit))
                refs.branches.move(a_move(FIRST, a_commit()))

        with pytest.raises(RaceLostError):
            move_twice()
        assert not refs.branches.is_turn_held("main")
        assert refs.branches.find("main") == BranchState("main", commit.id)

    # --- commits

    def test_a_commit_round_trips(self, refs: RepositoryRefs) -> None:
        message = 'Ümlaut \U0001f600 "quotes" \\ %s\nsecond line'
        commit = replace(a_commit(message=message), generation=2**40, creation_date=-1)
        refs.branches.move(a_move(FIRST, commit))
        stored = refs.commits.find(commit.id)
        assert stored == commit
        assert refs.commits.find(NOWHERE) is None

    def test_a_change_summary_is_stored_with_its_commit(self, refs: RepositoryRefs) -> None:
        one, two = a_commit(), a_commit()
        for each in (one, two):
            assert refs.commits.change_summaries([each.id]) == {}
        touched = {one.id: b"\0one", two.id: b""}
        move = replace(a_move(FIRST, two), commits=(one, two), change_summaries=touched)
        refs.branches.move(move)
        ids = [two.id, FIRST.id, NOWHERE, one.id]
        assert refs.commits.change_summaries(ids) == touched
        assert refs.commits.change_summaries([]) == {}
        refs.branches.create("other", FIRST.id, "ann")
        refs.branches.move(
            replace(a_move(FIRST, one, "other"), change_summaries={one.id: b"again"})
        )
        assert refs.commits.change_summaries([one.id]) == {one.id: b"\0one"}

    def test_damaged_commits_are_restored(self, refs: RepositoryRefs) -> None:
        (first,) = refs.commits.find_by_prefix("")
        other = new_commit(
            parents=[first],
            committer="x",
            message="lost",
            creation_date=7,
            meta_range_id=MetaRangeId("ab" * 32),
            metadata={"a": "b"},
        )
        refs.commits.restore([replace(first, message="damaged"), other])
        assert refs.commits.find(first.id) == replace(first, message="damaged")
        refs.commits.restore([first, other])
        assert refs.commits.find(first.id) == first
        assert refs.commits.find(other.id) == other
        assert refs.operations.list() == refs.operations.list(1)

    def test_a_commit_is_found_by_its_prefix(self, refs: RepositoryRefs) -> None:
        ids = [f"{start:0<64}" for start in ("0a", "0a1", "0af", "0b", "f", "ff")]
        head = FIRST
        for number in ids:
            commit = replace(a_commit(head), id=CommitId(number))
            refs.branches.move(a_move(head, commit))
            head = commit

        def ids_of(prefix: str, limit: int = 9) -> list[str]:
            return [commit.id for commit in refs.commits.find_by_prefix(prefix, limit)]

        assert ids_of("0a") == ids[:3]
        assert ids_of("0a", 2) == ids[:2]
        assert ids_of("0a1") == [ids[1]]
        assert ids_of("f") == ids[4:]
        assert ids_of(ids[3]) == [ids[3]]
        assert ids_of("0c") == ids_of("g") == ids_of("%") == []

    SHAPES = (
        {"a": [], "b": ["a"], "c": ["b"], "d": ["c"]},
        # Two merges of each other's parents, twice over: every commit on several ways.
        {"a": [], "l1": ["a"], "r1": ["a"], "l2": ["l1", "r1"], "r2": ["r1", "l1"]}
        | {"l3": ["l2", "r2"], "r3": ["r2", "l2"], "m": ["l3", "r3"]},
        # A short cut and a long way to the same commit.
        {"a": [], "b": ["a"], "c": ["b"], "d": ["c"], "e": ["d", "a"], "f": ["e"]},
        {"a": [], "b": [], "c": [], "octopus": ["a", "b", "c"]},
    )

    @pytest.mark.parametrize("shape", SHAPES, ids=["line", "criss-cross", "short cut", "octopus"])
    def test_ancestry_is_sorted_by_distance(
        self, refs: RepositoryRefs, shape: dict[str, list[str]]
    ) -> None:
        commits = grow(refs, shape)
        commits_by_id = {commit.id: commit for commit in (FIRST, *commits.values())}
        starts = [[commit.id] for commit in commits.values()]
        starts += [[left.id, FIRST.id] for left in commits.values()]
        for start in starts:
            expected = nearest_first(commits_by_id, start)
            for limit in range(1, len(commits_by_id) + 2):
                ancestors = [commit.id for commit in refs.commits.ancestry(start, limit)]
                assert ancestors == list(expected[:limit])

    def test_ancestry_of_random_graphs_matches_a_model(self, refs: RepositoryRefs) -> None:
        dice = random.Random(3)
        commits: list[Commit] = [FIRST]
        for number in range(60):
            parents = dice.sample(commits[-8:], min(len(commits), dice.choice([1, 1, 2, 3])))
            commit = a_commit(*parents, message=str(number))
            refs.branches.create(f"b{number}", FIRST.id, "ann")
            refs.branches.move(a_move(FIRST, commit, branch=f"b{number}"))
            commits.append(commit)
        commits_by_id = {commit.id: commit for commit in commits}
        for _ in range(30):
            start = [commit.id for commit in dice.choices(commits, k=dice.choice([1, 2, 3]))]
            limit = dice.choice([1, 5, 20, 100])
            expected = nearest_first(commits_by_id, start)[:limit]
            assert refs.commits.ancestry(start, limit) == [commits_by_id[name] for name in expected]
            least = dice.randint(-1, 45)
            down = {*start}
            for _ in commits:
                expanded = [each for each in down if commits_by_id[each].generation >= least]
                down.update(parent for each in expanded for parent in commits_by_id[each].parents)
            ancestors = refs.commits.ancestry_down_to(start, least)
            assert sorted(each.id for each in ancestors) == sorted(down)
            assert all(each == commits_by_id[each.id] for each in ancestors)

    def test_ancestry_ignores_unknown_commits(self, refs: RepositoryRefs) -> None:
        assert refs.commits.ancestry([], 9) == []
        assert refs.commits.ancestry([NOWHERE], 9) == []
        assert refs.commits.ancestry([NOWHERE, FIRST.id, FIRST.id], 9) == [FIRST]
        assert refs.commits.ancestry_down_to([], 0) == []
        assert refs.commits.ancestry_down_to([NOWHERE, FIRST.id, FIRST.id], 0) == [FIRST]

    @pytest.mark.parametrize("shape", SHAPES, ids=["line", "criss-cross", "short cut", "octopus"])
    def test_first_ancestors_follow_first_parents(
        self, refs: RepositoryRefs, shape: dict[str, list[str]]
    ) -> None:
        commits = grow(refs, shape)
        commits_by_id = {commit.id: commit for commit in (FIRST, *commits.values())}
        for start in commits_by_id.values():
            line = [start]
            while line[-1].parents:
                line.append(commits_by_id[line[-1].parents[0]])
            for steps, expected in enumerate([*line, None, None]):
                assert refs.commits.first_ancestor(start.id, steps) == expected
            assert refs.commits.first_ancestor(start.id, 999_999_999) is None
        assert refs.commits.first_ancestor(NOWHERE, 0) is None
        assert refs.commits.first_ancestor(NOWHERE, 1) is None

    # --- staging

    def test_rows_stream_in_key_order_with_their_last_values(self, refs: RepositoryRefs) -> None:
        keys = [b"\x00", b"\x00\xff", b"A", b"a", b"a/b", b"\x7f", b"\x80", "é".encode(), b"\xff"]
        refs.staging.put(
            "main", [a_record(key) for key in random.Random(4).sample(keys, 9)], fence=0
        )
        refs.staging.put(
            "main", [a_record(b"a", b"1"), a_record(b"a", b"2"), tombstone(b"A")], fence=0
        )
        layer = top(refs)
        assert layer == Layer(layer.id, LayerKind.ROWS, sealed=False)
        expected = {key: a_record(key) for key in keys}
        expected |= {b"a": a_record(b"a", b"2"), b"A": tombstone(b"A")}
        assert list(refs.staging.rows(layer.id)) == [expected[key] for key in sorted(keys)]
        assert refs.staging.count(layer.id) == len(keys)
        assert refs.staging.row(layer.id, b"a") == a_record(b"a", b"2")
        assert refs.staging.row(layer.id, b"b") is None

    def test_rows_are_filtered_by_a_prefix(self, refs: RepositoryRefs) -> None:
        keys = [b"a", b"a\xff", b"a\xff\xff", b"a\xffz", b"b", b"\xff", b"\xff\xff", b"%"]
        refs.staging.put("main", [a_record(key) for key in keys], fence=0)
        layer = top(refs)
        for prefix in [b"", b"c", *keys]:
            matching = [key for key, _ in refs.staging.rows(layer.id, prefix)]
            assert matching == sorted(key for key in keys if key.startswith(prefix)), prefix

    def test_rows_are_filtered_by_several_prefixes(self, refs: RepositoryRefs) -> None:
        keys = [b"a", b"a/1", b"a/2", b"b", b"b\xff", b"c/1/x", b"c/2", b"d", b"\xff", b"\xff\xffz"]
        refs.staging.put("main", [a_record(key) for key in keys], fence=0)
        layer = top(refs)
        for prefixes in [
            (b"c/", b"a/"),
            (b"a", b"a/", b"a/1"),
            (b"b", b"", b"a"),
            (b"none", b"zz"),
            (b"\xff", b"c/1", b"c/", b"e"),
            (b"\xff\xff", b"b\xff"),
        ]:
            matching = [key for key, _ in refs.staging.rows(layer.id, *prefixes)]
            assert matching == sorted(key for key in keys if key.startswith(prefixes)), prefixes

    def test_large_values_and_many_rows_round_trip(self, refs: RepositoryRefs) -> None:
        records = [a_record(b"%06d" % number) for number in range(12_000)]
        records.append(a_record(b"x" * 1024, bytes(range(256)) * 256))
        refs.staging.put("main", records, fence=0)
        assert list(refs.staging.rows(top(refs).id)) == records

    def test_reads_and_writes_do_not_disturb_each_other(self, refs: RepositoryRefs) -> None:
        refs.branches.create("dev", FIRST.id, "ann")
        for branch in ("main", "dev"):
            refs.staging.put(
                branch, [a_record(b"%05d" % number) for number in range(6_000)], fence=0
            )
        layers = top(refs).id, top(refs, "dev").id
        pairs = zip(refs.staging.rows(layers[0]), refs.staging.rows(layers[1]), strict=True)
        assert next(pairs) == (a_record(b"00000"), a_record(b"00000"))
        refs.staging.put("main", [tombstone(b"99999")], fence=0)
        refs.staging.seal("main")
        refs.staging.reset("dev")
        assert all(left == right for left, right in pairs)
        unfinished = refs.staging.rows(layers[0])
        next(unfinished)
        del unfinished
        assert refs.staging.count(layers[0]) == 6_001

    def test_writes_after_a_seal_go_into_a_fresh_layer(self, refs: RepositoryRefs) -> None:
        assert refs.staging.seal("main") == BranchState("main", FIRST.id)
        refs.staging.put("main", [a_record(b"1")], fence=0)
        first = top(refs)
        state = refs.staging.seal("main")
        assert state == BranchState("main", FIRST.id, (replace(first, sealed=True),))
        assert refs.branches.find("main") == state
        refs.staging.put("main", [a_record(b"2")], fence=0)
        second = top(refs)
        assert second.id > first.id
        assert not second.sealed
        assert [key for key, _ in refs.staging.rows(first.id)] == [b"1"]
        assert [layer.id for layer in refs.staging.seal("main").layers] == [second.id, first.id]

    def test_a_run_seals_the_layers_below_it(self, refs: RepositoryRefs) -> None:
        refs.staging.put("main", [a_record(b"1")], fence=0)
        run = refs.staging.add_run("main", RUN, fence=0)
        assert run == Layer(run.id, LayerKind.RUN, sealed=True, meta_range_id=RUN)
        refs.staging.put("main", [a_record(b"2")], fence=0)
        state = refs.branches.find("main")
        assert state is not None
        assert [(layer.kind, layer.sealed) for layer in state.layers] == [
            (LayerKind.ROWS, False),
            (LayerKind.RUN, True),
            (LayerKind.ROWS, True),
        ]
        assert state.layers[1] == run
        assert refs.branches.list() == [state]
        ids = [layer.id for layer in state.layers]
        assert ids == sorted(ids, reverse=True)

    def test_a_reset_drops_every_layer(self, refs: RepositoryRefs) -> None:
        refs.branches.create("dev", FIRST.id, "ann")
        refs.staging.put("dev", [a_record(b"kept")], fence=0)
        refs.staging.put("main", [a_record(b"1")], fence=0)
        refs.staging.add_run("main", RUN, fence=0)
        refs.staging.put("main", [a_record(b"2")], fence=0)
        layer = top(refs)
        refs.staging.reset("main")
        assert refs.branches.find("main") == BranchState("main", FIRST.id)
        for read in (refs.staging.count, lambda layer_id: list(refs.staging.rows(layer_id))):
            with pytest.raises(RaceLostError, match=str(layer.id)):
                read(layer.id)
        with pytest.raises(RaceLostError, match=str(layer.id)):
            refs.staging.row(layer.id, b"2")
        refs.staging.put("main", [a_record(b"3")], fence=0)
        assert staged(refs) == dict([a_record(b"3")])
        assert staged(refs, "dev") == dict([a_record(b"kept")])

    def test_a_partial_drop_keeps_other_staged_changes(self, refs: RepositoryRefs) -> None:
        other, within = MetaRangeId("c" * 64), Interval(b"b", b"d")
        refs.staging.put("main", [a_record(key) for key in (b"a", b"b", b"c\xff", b"d")], fence=0)
        refs.staging.add_run("main", RUN, fence=0)
        refs.staging.put("main", [a_record(b"c")], fence=0)
        refs.staging.add_run("main", RUN, fence=0)
        refs.staging.add_run("main", RUN, fence=0)
        refs.staging.put("main", [a_record(b"b"), a_record(b"e")], fence=0)
        refs.branches.create("dev", FIRST.id, "ann")
        refs.staging.put("dev", [a_record(b"b")], fence=0)
        before = refs.staging.seal("main")
        top, emptied, changed, dropped, same, bottom = before.layers
        runs = {emptied.id: MetaRangeId(""), changed.id: other}
        refs.staging.drop("main", before, LayerCut([within], runs), fence=0)
        state = refs.branches.find("main")
        assert state is not None
        assert [(each.kind, each.meta_range_id) for each in state.layers] == [
            *((LayerKind.ROWS, None), (LayerKind.RUN, other)),
            *((LayerKind.RUN, RUN), (LayerKind.ROWS, None)),
        ]
        assert all(each.sealed for each in state.layers)
        ids = [each.id for each in state.layers]
        assert ids == sorted(ids, reverse=True)
        assert min(ids) > top.id
        assert [key for key, _ in refs.staging.rows(ids[-1])] == [b"a", b"d"]
        assert staged(refs) == dict(a_record(key) for key in (b"a", b"d", b"e"))
        assert staged(refs, "dev") == dict([a_record(b"b")])
        for each in (top, dropped, same, bottom):
            with pytest.raises(RaceLostError):
                refs.staging.count(each.id)
        # Who has read the layers as they were cannot commit them any more.
        move = a_move(FIRST, a_commit(), layers=[each.id for each in before.layers])
        with pytest.raises(RaceLostError, match="has committed or dropped staged changes"):
            refs.branches.move(move)
        before = refs.staging.seal("main")
        refs.staging.drop(
            "main", before, LayerCut([Interval()], dict.fromkeys(ids, MetaRangeId(""))), fence=0
        )
        assert refs.branches.find("main") == BranchState("main", FIRST.id)
        refs.staging.put("main", [a_record(b"b")], fence=0)
        assert staged(refs) == dict([a_record(b"b")])

    def test_a_run_replaces_dropped_changes(self, refs: RepositoryRefs) -> None:
        refs.staging.put("main", [a_record(b"a"), a_record(b"b")], fence=0)
        before = refs.staging.seal("main")
        refs.staging.drop("main", before, LayerCut([Interval(b"a", b"b")]), RUN, fence=0)
        state = refs.branches.find("main")
        assert state is not None
        assert [(each.kind, each.sealed, each.meta_range_id) for each in state.layers] == [
            (LayerKind.RUN, True, RUN),
            (LayerKind.ROWS, True, None),
        ]
        assert [key for key, _ in refs.staging.rows(state.layers[1].id)] == [b"b"]

    def test_a_drop_is_rejected_after_a_branch_changes(self, refs: RepositoryRefs) -> None:
        refs.staging.put("main", [a_record(b"a")], fence=0)
        before = refs.staging.seal("main")
        refs.staging.put("main", [a_record(b"b")], fence=0)
        state = refs.branches.find("main")
        with pytest.raises(RaceLostError, match="read it again"):
            refs.staging.drop("main", before, LayerCut([Interval()]), fence=0)
        assert refs.branches.find("main") == state
        assert staged(refs) == dict(a_record(key) for key in (b"a", b"b"))
        before = refs.staging.seal("main")
        refs.branches.move(a_move(FIRST, a_commit()))
        with pytest.raises(RaceLostError, match="read it again"):
            refs.staging.drop("main", before, LayerCut([Interval()]), fence=0)
        assert staged(refs) == dict(a_record(key) for key in (b"a", b"b"))

    def test_a_new_branch_inherits_nothing_from_a_deleted_namesake(
        self, refs: RepositoryRefs
    ) -> None:
        refs.branches.create("dev", FIRST.id, "ann")
        refs.staging.put("dev", [a_record(b"1")], fence=0)
        refs.branches.delete("dev", "ann", discard_staged=True)
        refs.branches.create("dev", FIRST.id, "ann")
        assert staged(refs, "dev") == {}

    @pytest.mark.parametrize("is_sealed", [False, True])
    def test_a_branch_with_staged_changes_is_not_deleted(
        self, refs: RepositoryRefs, is_sealed: bool
    ) -> None:
        refs.branches.create("dev", FIRST.id, "ann")
        refs.staging.put("dev", [a_record(b"1")], fence=0)
        if is_sealed:
            refs.staging.seal("dev")
        with pytest.raises(DirtyBranchError, match="staged changes"):
            refs.branches.delete("dev", "ann")
        assert staged(refs, "dev") == dict([a_record(b"1")])
        assert refs.operations.list(1)[0].verb == "create-branch"
        refs.staging.reset("dev")
        refs.branches.delete("dev", "ann")
        assert refs.branches.find("dev") is None

    def test_a_concurrent_write_and_deletion_lose_nothing(self, store: RefStore) -> None:
        refs = new_refs(store, "busy")
        for turn in range(20):
            name = f"b{turn}"
            refs.branches.create(name, FIRST.id, "ann")

            def act(number: int, name: str = name) -> bool:
                try:
                    if number == 0:
                        refs.branches.delete(name, "ann")
                    else:
                        refs.staging.put(name, [a_record(b"k")], fence=0)
                except (DirtyBranchError, RefNotFoundError):
                    return False
                return True

            is_deleted, is_staged = at_once(2, act)
            assert is_deleted != is_staged
            if is_staged:
                assert staged(refs, name) == dict([a_record(b"k")])
        store.delete_repository("busy")

    def test_an_empty_put_opens_no_layer(self, refs: RepositoryRefs) -> None:
        refs.staging.put("main", [], fence=0)
        assert refs.branches.find("main") == BranchState("main", FIRST.id)

    def test_staging_requires_an_existing_branch(self, refs: RepositoryRefs) -> None:
        calls: Sequence[Callable[[], object]] = [
            lambda: refs.staging.put("dev", [a_record(b"k")], fence=0),
            lambda: refs.staging.put("dev", [], fence=0),
            lambda: refs.staging.add_run("dev", RUN, fence=0),
            lambda: refs.staging.seal("dev"),
            lambda: refs.staging.reset("dev"),
            lambda: refs.staging.drop(
                "dev", BranchState("dev", FIRST.id), LayerCut([Interval()]), fence=0
            ),
        ]
        for call in calls:
            with pytest.raises(RefNotFoundError, match="dev"):
                call()

    def test_concurrent_writers_of_the_same_keys_all_succeed(self, refs: RepositoryRefs) -> None:
        keys = [b"%03d" % number for number in range(200)]

        def write(number: int) -> None:
            for turn in range(5):
                shuffled = random.Random(number * 10 + turn).sample(keys, len(keys))
                refs.staging.put(
                    "main", [a_record(key, b"%d" % number) for key in shuffled], fence=0
                )

        assert at_once(4, write) == [None] * 4
        state = refs.branches.find("main")
        assert state is not None
        assert len(state.layers) == 1
        assert [key for key, _ in refs.staging.rows(state.layers[0].id)] == keys

    def test_no_write_is_lost_during_seals_and_commits(self, refs: RepositoryRefs) -> None:
        committed: dict[bytes, bytes] = {}
        acknowledged: dict[bytes, bytes] = {}
        lock, done = Lock(), Event()

        def write(number: int) -> None:
            for turn in range(40):
                records = [a_record(b"%d/%d/%d" % (number, turn, row)) for row in range(3)]
                refs.staging.put("main", records, fence=0)
                with lock:
                    acknowledged.update(records)

        def commit_once() -> None:
            state = refs.staging.seal("main")
            rows = {layer.id: list(refs.staging.rows(layer.id)) for layer in state.layers}
            time.sleep(0.002)
            # A layer that takes no writes any more reads the same as when it was sealed.
            assert rows == {layer: list(refs.staging.rows(layer)) for layer in rows}
            head = refs.commits.find(state.commit_id)
            assert head is not None
            refs.branches.move(a_move(head, a_commit(head), layers=list(rows)))
            for records in rows.values():
                assert not committed.keys() & dict(records).keys()
                committed.update(records)

        def commit(_: int) -> None:
            while not done.is_set():
                commit_once()

        with ThreadPoolExecutor(1) as committer:
            future = committer.submit(commit, 0)
            try:
                assert at_once(3, write) == [None] * 3
            finally:
                done.set()
            future.result()
        assert committed | staged(refs) == acknowledged
        assert len(acknowledged) == 3 * 40 * 3

    def test_concurrent_writes_resets_and_deletions_do_not_deadlock(self, store: RefStore) -> None:
        refs = new_refs(store, "busy")

        def act(number: int) -> None:
            for turn in range(15):
                if number == 0:
                    refs.staging.seal("main")
                    refs.staging.reset("main")
                elif number == 1:
                    refs.branches.create(f"b{turn}", FIRST.id, "ann")
                    refs.staging.put(f"b{turn}", [a_record(b"k")], fence=0)
                    refs.branches.delete(f"b{turn}", "ann", discard_staged=True)
                else:
                    refs.staging.put("main", [a_record(b"%d" % turn)], fence=0)

        assert at_once(5, act) == [None] * 5
        store.delete_repository("busy")

    # --- the log

    def test_the_log_lists_the_newest_first_and_outlives_refs(self, refs: RepositoryRefs) -> None:
        refs.branches.create("dev", FIRST.id, "ann")
        commit = a_commit()
        refs.branches.move(a_move(FIRST, commit, branch="dev"))
        refs.branches.delete("dev", "bob")
        log = refs.operations.list()
        assert [(line.verb, line.from_commit, line.to_commit) for line in log] == [
            ("delete-branch", commit.id, None),
            ("commit", FIRST.id, commit.id),
            ("create-branch", None, FIRST.id),
            ("create-repository", None, FIRST.id),
        ]
        sequences = [line.sequence for line in log]
        assert sequences == sorted(sequences, reverse=True)
        assert refs.operations.list(limit=2) == log[:2]
        for ref in {each.ref for each in log}:
            assert refs.operations.list(ref=ref) == [each for each in log if each.ref == ref]
        assert refs.operations.list(1, "main") == [each for each in log if each.ref == "main"][:1]
        assert refs.operations.list(ref="nothing") == []

    def test_the_log_records_every_position_of_a_ref(self, refs: RepositoryRefs) -> None:
        commit = a_commit()
        refs.branches.create("dev", FIRST.id, "ann")
        refs.branches.move(a_move(FIRST, commit, branch="dev"))
        refs.tags.create(TagInfo("v1", FIRST.id), "ann")
        refs.tags.delete("v1", "bob")
        names = ["dev", "v1", "main", "nothing"]
        latest = {name: refs.operations.list(1, name)[0] for name in names[:3]}
        assert refs.operations.latest(names) == latest
        assert refs.operations.latest(["v1"]) == {"v1": latest["v1"]}
        assert refs.operations.latest([]) == {}
        assert refs.operations.latest() == latest
        log = refs.operations.list()
        assert refs.operations.first() == log[-1]
        assert all(refs.operations.find(each.sequence) == each for each in log)
        assert refs.operations.find(log[0].sequence + 1) is None
        assert latest["v1"].verb == "delete-tag"
        for at, expected in (
            (FIRST.id, {"dev", "v1", "main"}),
            (commit.id, {"dev"}),
            (NOWHERE, set()),
        ):
            assert refs.operations.reached(dict.fromkeys(names, at)) == expected
        assert refs.operations.reached({"dev": commit.id, "v1": commit.id}) == {"dev"}
        assert refs.operations.reached({}) == set()
        assert refs.operations.reached({"dev": commit.id}, after=log[-1]) == {"dev"}
        assert refs.operations.reached({"dev": commit.id, "v1": FIRST.id}, after=log[0]) == set()
        assert refs.operations.reached({"v1": FIRST.id}, after=log[1]) == {"v1"}

    # --- purges

    def test_purges_are_listed_newest_first(self, store: RefStore, refs: RepositoryRefs) -> None:
        counts = PurgeCounts(5, 4, 3, 2, 1)
        one = Purge("1" * 32, "ann", 7, "why", ("a/**", "b"), PurgeState.DELETING, counts)
        two = replace(one, id="2" * 32, include_shared=True, include_external=True)
        for each in (one, two):
            refs.purges.add(each)
        assert refs.purges.list() == [two, one]
        refs.purges.finish(one.id)
        assert refs.purges.find(one.id) == replace(one, state=PurgeState.DONE)
        assert refs.purges.find(two.id) == two
        assert refs.purges.find("0" * 32) is None
        other = a_repository("other")
        store.create_repository(other, FIRST, "ann")
        assert store.refs(other.uid).purges.list() == []
        store.refs(other.uid).purges.finish(two.id)
        assert refs.purges.find(two.id) == two
        refs.settings.change(lambda settings: replace(settings, read_only=True))
        with pytest.raises(ReadOnlyError):
            refs.purges.add(replace(one, id="3" * 32))
        assert len(refs.purges.list()) == 2
        refs.settings.change(lambda settings: replace(settings, read_only=False))

    # --- runs of hooks

    def test_hook_runs_are_listed_newest_first(self, store: RefStore, refs: RepositoryRefs) -> None:
        runs = [a_run(3), a_run(1, "v1", None), a_run(2)]
        for each in runs:
            refs.hook_runs.add(each)
        assert refs.hook_runs.list() == runs[::-1]
        assert refs.hook_runs.list(1) == [runs[2]]
        assert refs.hook_runs.list(ref="v1") == [runs[1]]
        assert refs.hook_runs.list(1, "main") == [runs[2]]
        assert refs.hook_runs.find(runs[0].id) == runs[0]
        assert refs.hook_runs.find("0" * 32) is None
        other = a_repository("other")
        store.create_repository(other, FIRST, "ann")
        assert store.refs(other.uid).hook_runs.list() == []
        assert store.refs(other.uid).hook_runs.find(runs[0].id) is None

    def test_hook_runs_are_deleted_with_their_repository(
        self, store: RefStore, refs: RepositoryRefs
    ) -> None:
        refs.hook_runs.add(a_run(1))
        (info,) = store.list_repositories()
        store.delete_repository(info.name)
        refs.hook_runs.add(a_run(2))
        assert refs.hook_runs.list() == []
