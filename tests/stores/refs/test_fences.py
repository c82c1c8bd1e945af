"""The fences of every ref store, which a garbage collection raises."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from sparklake.errors import CollectionRunningError, CollectionStartedError, ReadOnlyError
from sparklake.graveler.guards import RepositorySettings
from sparklake.graveler.keys import Interval
from sparklake.graveler.ports import BranchMove, BranchState, LayerCut, RefStore, RepositoryRefs
from sparklake.graveler.records import tombstone
from tests.stores.refs.contract import RUN, a_record
from tests.stores.refs.histories import FIRST, a_commit, a_repository


@pytest.fixture
def uid(store: RefStore) -> str:
    info = a_repository("lake")
    store.create_repository(info, FIRST, "ann")
    return info.uid


@pytest.fixture
def refs(store: RefStore, uid: str) -> RepositoryRefs:
    return store.refs(uid)


def get(refs: RepositoryRefs, name: str = "main") -> BranchState:
    state = refs.branches.find(name)
    assert state is not None
    return state


def begin(refs: RepositoryRefs) -> None:
    refs.collections.begin()


def move(refs: RepositoryRefs, fence: int) -> None:
    commit = a_commit(FIRST)
    refs.branches.move(
        BranchMove("main", FIRST.id, commit.id, "commit", "ann", (commit,), fence=fence)
    )


def drop(refs: RepositoryRefs, fence: int) -> None:
    refs.staging.drop("main", get(refs), LayerCut([Interval()]), RUN, fence=fence)


CHANGES: dict[str, Callable[[RepositoryRefs, int], object]] = {
    "move": move,
    "put": lambda refs, fence: refs.staging.put("main", [a_record(b"k")], fence=fence),
    "put nothing": lambda refs, fence: refs.staging.put("main", [], fence=fence),
    "add a run": lambda refs, fence: refs.staging.add_run("main", RUN, fence=fence),
    "drop": drop,
}


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_with_an_old_fence_is_rejected(
    refs: RepositoryRefs, change: str, is_open: bool
) -> None:
    if is_open:
        refs.staging.put("main", [a_record(b"open")], fence=0)
    old_fence = get(refs).fence
    begin(refs)
    now = get(refs)
    assert now.fence == old_fence + 1
    with pytest.raises(CollectionStartedError):
        CHANGES[change](refs, old_fence)
    assert get(refs) == now
    CHANGES[change](refs, now.fence)
    if change != "put nothing":
        assert get(refs) != now


def test_a_tombstone_needs_no_fence(refs: RepositoryRefs) -> None:
    begin(refs)
    refs.staging.put("main", [tombstone(b"k")], fence=None)
    assert len(get(refs).layers) == 1


def test_every_branch_reports_the_fence(refs: RepositoryRefs) -> None:
    refs.branches.create("old", FIRST.id, "ann")
    begin(refs)
    begin(refs)
    new = refs.branches.create("new", FIRST.id, "ann")
    assert {each.name: each.fence for each in refs.branches.list()} == {
        "main": 2,
        "old": 2,
        "new": 2,
    }
    assert new.fence == get(refs, "new").fence == refs.staging.seal("new").fence == 2


def test_each_repository_has_its_own_fence(store: RefStore, refs: RepositoryRefs) -> None:
    other = a_repository("other")
    store.create_repository(other, FIRST, "ann")
    begin(refs)
    assert get(store.refs(other.uid)).fence == 0


def test_a_collection_reads_one_consistent_state(refs: RepositoryRefs) -> None:
    refs.staging.put("main", [a_record(b"1")], fence=0)
    refs.staging.add_run("main", RUN, fence=0)
    refs.staging.put("main", [a_record(b"2")], fence=0)
    moment = refs.collections.begin()
    state_before = get(refs)
    refs.staging.reset("main")
    refs.staging.put("main", [a_record(b"3")], fence=state_before.fence)
    refs.branches.create("dev", FIRST.id, "ann")
    (state,) = moment.refs.branches
    assert [each.id for each in state.layers] == [each.id for each in state_before.layers]
    assert [each.meta_range_id for each in state.layers] == [None, RUN, None]
    top, _, bottom = state.layers
    assert list(moment.rows(top.id)) == [a_record(b"2")]
    assert list(moment.rows(bottom.id)) == [a_record(b"1")]
    assert moment.refs.commits == (FIRST,)


def test_a_preview_of_a_collection_does_not_raise_the_fence(refs: RepositoryRefs) -> None:
    moment = refs.collections.look()
    refs.staging.put("main", [a_record(b"1")], fence=0)
    assert moment.refs.branches[0].layers == ()
    assert get(refs).fence == 0


def test_one_collection_runs_at_a_time(store: RefStore, refs: RepositoryRefs, uid: str) -> None:
    other = a_repository("other")
    store.create_repository(other, FIRST, "ann")
    with refs.collections.alone():
        with pytest.raises(CollectionRunningError), store.refs(uid).collections.alone():
            pass
        with store.refs(other.uid).collections.alone():
            pass
    with pytest.raises(ZeroDivisionError), refs.collections.alone():
        _ = 1 // 0
    with refs.collections.alone():
        pass


def test_a_collection_in_a_read_only_repository_requires_force(
    store: RefStore, refs: RepositoryRefs, uid: str
) -> None:
    refs.settings.change(lambda _: RepositorySettings(read_only=True))
    with pytest.raises(ReadOnlyError):
        begin(refs)
    assert get(refs).fence == 0
    begin(store.refs(uid, force=True))
    assert get(refs).fence == 1


def test_a_concurrent_write_is_collected_or_rejected(refs: RepositoryRefs) -> None:
    """The collection behind a fence reads every write before that fence."""
    done = Event()

    def write(number: int) -> list[tuple[int, bytes]]:
        acknowledged = []
        for turn in range(40):
            fence, key = get(refs).fence, b"%d-%d" % (number, turn)
            try:
                refs.staging.put("main", [a_record(key)], fence=fence)
            except CollectionStartedError:
                continue
            acknowledged.append((fence, key))
        return acknowledged

    def collect() -> list[set[bytes]]:
        collected = []
        while not done.is_set():
            moment = refs.collections.begin()
            (state,) = moment.refs.branches
            collected.append({key for layer in state.layers for key, _ in moment.rows(layer.id)})
        return collected

    with ThreadPoolExecutor(4) as pool:
        collecting = pool.submit(collect)
        writing = list(pool.map(write, range(3)))
        done.set()
        collected = collecting.result()
    for acknowledged in writing:
        for fence, key in acknowledged:
            assert all(key in keys for keys in collected[fence:])
