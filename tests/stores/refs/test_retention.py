"""Retention in every ref store: rules, expired commits, and rejected changes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from threading import Event

import pytest

from sparklake.errors import (
    AlreadyExistsError,
    CollectionRunningError,
    CollectionStartedError,
    ExpiredError,
    RaceLostError,
)
from sparklake.graveler.commits import Commit
from sparklake.graveler.guards import RepositorySettings
from sparklake.graveler.ports import BranchMove, RefStore, RepositoryRefs, TagInfo
from sparklake.graveler.retention import BranchRetention, Retention
from tests.stores.refs.histories import FIRST, a_commit, a_repository, grow

RULES = Retention(30, (BranchRetention("z*", 7), BranchRetention("a*", 90)))
HEADS_ALONE = Retention(0)


@pytest.fixture
def uid(store: RefStore) -> str:
    info = a_repository("lake")
    store.create_repository(info, FIRST, "ann")
    return info.uid


@pytest.fixture
def refs(store: RefStore, uid: str) -> RepositoryRefs:
    return store.refs(uid)


def keep(refs: RepositoryRefs, retention: Retention | None) -> None:
    refs.settings.change(lambda now: replace(now, retention=retention))


def begin(refs: RepositoryRefs) -> set[str]:
    """Return the commits that expire when a collection starts."""
    moment = refs.collections.begin()
    return {each.message for each in moment.refs.commits if each.id in moment.expiring}


def fence(refs: RepositoryRefs) -> int:
    (state, *_) = refs.branches.list()
    return state.fence


def a_line(refs: RepositoryRefs) -> dict[str, Commit]:
    """Make the branch `line` with three old commits."""
    commits = grow(refs, {"one": [], "two": ["one"], "three": ["two"]})
    for name in commits:
        refs.branches.delete(name, "ann")
    refs.branches.create("line", commits["three"].id, "ann")
    return commits


def test_rules_keep_their_order(store: RefStore, refs: RepositoryRefs) -> None:
    assert refs.settings.get().retention is None
    keep(refs, RULES)
    assert refs.settings.get().retention == RULES
    (info,) = store.list_repositories()
    assert info.settings.retention == RULES
    refs.settings.change(lambda now: replace(now, metadata={"a": "b"}))
    assert refs.settings.get() == RepositorySettings(metadata={"a": "b"}, retention=RULES)
    keep(refs, None)
    assert refs.settings.get().retention is None


def test_a_repository_is_created_with_rules(store: RefStore) -> None:
    info = replace(a_repository("other"), settings=RepositorySettings(retention=RULES))
    store.create_repository(info, FIRST, "ann")
    assert store.refs(info.uid).settings.get().retention == RULES


def test_an_expired_commit_stays_expired(store: RefStore, refs: RepositoryRefs) -> None:
    commits = a_line(refs)
    ids = [each.id for each in commits.values()]
    assert begin(refs) == set()
    keep(refs, HEADS_ALONE)
    moment = refs.collections.look()
    assert moment.expiring == moment.unkept == {commits["one"].id, commits["two"].id}
    assert refs.commits.expired(ids) == set()
    assert begin(refs) == {"one", "two"}
    assert refs.commits.expired(ids) == {commits["one"].id, commits["two"].id}
    assert refs.commits.expired(ids[1:]) == {commits["two"].id}
    assert refs.commits.expired([]) == set()
    keep(refs, None)
    moment = refs.collections.begin()
    assert (moment.expired, moment.expiring) == ({commits["one"].id, commits["two"].id}, set())
    assert [refs.commits.find(each) for each in ids] == list(commits.values())
    other = a_repository("other")
    store.create_repository(other, FIRST, "ann")
    assert store.refs(other.uid).commits.expired(ids) == set()


def test_expiry_is_deleted_with_the_repository(
    store: RefStore, refs: RepositoryRefs, uid: str
) -> None:
    commits = a_line(refs)
    keep(refs, HEADS_ALONE)
    begin(refs)
    store.delete_repository("lake")
    assert store.refs(uid).commits.expired([commits["one"].id]) == set()


def move_to(refs: RepositoryRefs, commit: Commit, *commits: Commit) -> None:
    head = refs.branches.find("line")
    assert head is not None
    move = BranchMove(
        "line", head.commit_id, commit.id, "hard-reset", "ann", commits, fence=head.fence
    )
    refs.branches.move(move)


NAMES: dict[str, Callable[[RepositoryRefs, Commit], object]] = {
    "branch": lambda refs, commit: refs.branches.create("new", commit.id, "ann"),
    "tag": lambda refs, commit: refs.tags.create(TagInfo("new", commit.id), "ann"),
    "move": move_to,
}


@pytest.mark.parametrize("name", NAMES)
def test_no_ref_moves_to_an_expired_commit(refs: RepositoryRefs, name: str) -> None:
    commits = a_line(refs)
    keep(refs, HEADS_ALONE)
    begin(refs)
    before = refs.snapshot(), refs.operations.list(1000)
    with pytest.raises(ExpiredError, match="has expired") as raised:
        NAMES[name](refs, commits["two"])
    assert raised.value.commit_id == commits["two"].id
    assert (refs.snapshot(), refs.operations.list(1000)) == before
    NAMES[name](refs, commits["three"])


def test_an_existing_name_is_reported_before_an_expired_commit(refs: RepositoryRefs) -> None:
    commits = a_line(refs)
    refs.tags.create(TagInfo("new", commits["three"].id), "ann")
    keep(refs, HEADS_ALONE)
    begin(refs)
    with pytest.raises(AlreadyExistsError):
        refs.branches.create("line", commits["three"].id, "ann")
    with pytest.raises(AlreadyExistsError):
        refs.tags.create(TagInfo("new", commits["three"].id), "ann")


def test_a_moved_branch_is_reported_before_an_expired_commit(refs: RepositoryRefs) -> None:
    commits = a_line(refs)
    keep(refs, HEADS_ALONE)
    begin(refs)
    move = BranchMove(
        "line", commits["two"].id, commits["one"].id, "hard-reset", "ann", fence=fence(refs)
    )
    with pytest.raises(RaceLostError):
        refs.branches.move(move)
    with pytest.raises(CollectionStartedError):
        refs.branches.move(replace(move, expected=commits["three"].id, fence=0))


def test_a_commit_that_is_added_again_is_no_longer_expired(refs: RepositoryRefs) -> None:
    commits = a_line(refs)
    move_to(refs, commits["one"])
    keep(refs, HEADS_ALONE)
    assert begin(refs) == {"two", "three"}
    with pytest.raises(ExpiredError):
        move_to(refs, commits["two"])
    move_to(refs, commits["three"], commits["two"], commits["three"])
    assert refs.commits.expired([each.id for each in commits.values()]) == set()
    assert begin(refs) == {"one", "two"}


def test_a_failed_move_renews_no_commit(refs: RepositoryRefs) -> None:
    commits = a_line(refs)
    move_to(refs, commits["one"])
    keep(refs, HEADS_ALONE)
    begin(refs)
    move = BranchMove(
        "line", FIRST.id, commits["two"].id, "commit", "ann", (commits["two"],), fence=fence(refs)
    )
    with pytest.raises(RaceLostError):
        refs.branches.move(move)
    assert refs.commits.expired([commits["two"].id]) == {commits["two"].id}


def test_no_ref_is_ever_left_at_an_expired_commit(refs: RepositoryRefs) -> None:
    """Collections expire everything but heads while others create refs to old commits."""
    commits = a_line(refs)
    keep(refs, HEADS_ALONE)
    done = Event()

    def name(number: int) -> int:
        refused = 0
        for turn in range(25):
            commit = a_commit(commits["three"], message=f"{number}-{turn}")
            with suppress(RaceLostError):
                move_to(refs, commit, commit)
            try:
                refs.branches.create(f"b{number}-{turn}", commit.id, "ann")
                refs.tags.create(TagInfo(f"t{number}-{turn}", commit.id), "ann")
                refs.branches.delete(f"b{number}-{turn}", "ann")
            except ExpiredError:
                refused += 1
            except Exception as error:
                if "there is no commit" not in str(error):
                    raise
        return refused

    def collect() -> None:
        while not done.is_set():
            begin(refs)
            snapshot = refs.snapshot()
            # A ref may have gone since, and none can have come.
            assert not refs.commits.expired([each.commit_id for each in snapshot.tags])

    with ThreadPoolExecutor(4) as pool:
        collecting = pool.submit(collect)
        list(pool.map(name, range(3)))
        done.set()
        collecting.result()
    at = [each.commit_id for each in refs.snapshot().named]
    assert refs.commits.expired(at) == set()


# --- trees ----------------------------------------------------------------------------------------


def begin_trees(refs: RepositoryRefs) -> set[str]:
    """Return the commits that lose their trees when a collection starts."""
    moment = refs.collections.begin(trees=True)
    return {each.message for each in moment.refs.commits if each.id in moment.collecting}


def test_trees_are_collected_after_their_period(refs: RepositoryRefs) -> None:
    commits = a_line(refs)
    ids = [each.id for each in commits.values()]
    keep(refs, HEADS_ALONE)
    assert begin_trees(refs) == set()
    keep(refs, Retention(0, tree_days=1))
    assert refs.settings.get().retention == Retention(0, tree_days=1)
    assert begin_trees(refs) == set()
    keep(refs, Retention(0, tree_days=0))
    moment = refs.collections.look()
    assert moment.collecting == moment.treeless == set(ids[:2])
    assert moment.collected == set()
    # One that collects objects alone gives up no tree.
    begin(refs)
    assert refs.commits.collected(ids) == set()
    assert begin_trees(refs) == {"one", "two"}
    assert refs.commits.collected(ids) == refs.commits.expired(ids) == set(ids[:2])
    assert refs.commits.collected(ids[2:]) == refs.commits.collected([]) == set()
    assert begin_trees(refs) == set()
    moment = refs.collections.look()
    assert (moment.collected, moment.collecting) == (set(ids[:2]), set())


def test_trees_are_collected_at_once_without_a_period(refs: RepositoryRefs) -> None:
    a_line(refs)
    keep(refs, Retention(0, tree_days=0))
    assert begin_trees(refs) == {"one", "two"}


def test_merge_bases_keep_their_trees(refs: RepositoryRefs) -> None:
    commits = grow(refs, {"base": [], "more": ["base"], "left": ["more"], "right": ["more"]})
    for name in ("base", "more"):
        refs.branches.delete(name, "ann")
    keep(refs, Retention(0, tree_days=0))
    assert begin_trees(refs) == {"base"}
    assert refs.commits.expired([commits["more"].id]) == {commits["more"].id}
    refs.branches.delete("right", "ann")
    assert begin_trees(refs) == {"more", "right"}


def test_a_commit_that_is_added_again_has_its_tree(refs: RepositoryRefs) -> None:
    commits = a_line(refs)
    move_to(refs, commits["one"])
    keep(refs, Retention(0, tree_days=0))
    assert begin_trees(refs) == {"two", "three"}
    move_to(refs, commits["three"], commits["two"], commits["three"])
    assert refs.commits.collected([each.id for each in commits.values()]) == set()


def test_reads_report_the_number_of_finished_tree_sweeps(store: RefStore, uid: str) -> None:
    refs = store.refs(uid)
    refs.tags.create(TagInfo("t", FIRST.id), "ann")
    tag = "t"
    reads: list[Callable[[RepositoryRefs], object]] = [
        lambda refs: refs.branches.find("main"),
        lambda refs: refs.branches.list(),
        lambda refs: refs.staging.seal("main"),
        lambda refs: refs.tags.find(tag),
        lambda refs: refs.commits.find(FIRST.id),
        lambda refs: refs.commits.find_by_prefix(FIRST.id[:8]),
        lambda refs: refs.commits.ancestry([FIRST.id], 1),
        lambda refs: refs.commits.ancestry_down_to([FIRST.id], 0),
        lambda refs: refs.commits.first_ancestor(FIRST.id, 0),
    ]
    refs.collections.end_tree_sweep()
    refs.collections.end_tree_sweep()
    for read in reads:
        refs_after = store.refs(uid)
        read(refs_after)
        assert refs_after.tree_sweeps == 2


def test_dumps_and_tree_collections_exclude_each_other(store: RefStore, uid: str) -> None:
    refs, other = store.refs(uid), store.refs(uid)
    with refs.collections.alone(), refs.collections.alone_with_tree_files():
        with pytest.raises(CollectionRunningError), other.collections.alone_with_tree_files():
            pass
        with pytest.raises(CollectionRunningError), other.collections.alone():
            pass
    with other.collections.alone_with_tree_files(), refs.collections.alone():
        pass


def test_a_restore_accepts_collected_trees(store: RefStore, refs: RepositoryRefs) -> None:
    commits = a_line(refs)
    snapshot, info = refs.snapshot(), a_repository("restored")
    store.restore_repository(info, snapshot, "ann", {commits["one"].id})
    restored, ids = store.refs(info.uid), [each.id for each in commits.values()]
    assert restored.commits.expired(ids) == restored.commits.collected(ids) == {commits["one"].id}
