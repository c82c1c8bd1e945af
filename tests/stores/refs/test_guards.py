"""Protection, read-only mode, hidden branches and expiry of every ref store."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Event

import pytest

from sparklake.errors import (
    AlreadyExistsError,
    ProtectedError,
    RaceLostError,
    ReadOnlyError,
    RefNotFoundError,
    RepositoryNotFoundError,
    SparklakeError,
)
from sparklake.graveler.guards import ALL_ACTIONS, Action, ProtectionRule, RepositorySettings
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.keys import Interval
from sparklake.graveler.ports import (
    BranchMove,
    BranchState,
    LayerCut,
    RefStore,
    RepositoryRefs,
    TagInfo,
)
from tests.stores.refs.contract import RUN, a_record
from tests.stores.refs.histories import FIRST, a_commit, a_repository

DAY = timedelta(days=1)
PAST = timedelta(seconds=-5)


@pytest.fixture
def uid(store: RefStore) -> str:
    info = a_repository("lake")
    store.create_repository(info, FIRST, "ann")
    refs = store.refs(info.uid)
    refs.branches.create("dev", FIRST.id, "ann")
    refs.tags.create(TagInfo("v1", FIRST.id), "ann")
    for name in ("main", "dev"):
        refs.staging.put(name, [a_record(b"staged")], fence=0)
    return info.uid


@pytest.fixture
def refs(store: RefStore, uid: str) -> RepositoryRefs:
    return store.refs(uid)


def protect(refs: RepositoryRefs, pattern: str, *actions: Action) -> None:
    rule = ProtectionRule(pattern, frozenset(actions or ALL_ACTIONS))
    refs.settings.change(lambda now: replace(now, protection=(*now.protection, rule)))


def let_write(refs: RepositoryRefs, read_only: bool) -> None:
    refs.settings.change(lambda now: replace(now, read_only=read_only))


def get(refs: RepositoryRefs, name: str = "main") -> BranchState:
    state = refs.branches.find(name)
    assert state is not None
    return state


def move(refs: RepositoryRefs, verb: str, branch: str = "main") -> None:
    commit = a_commit()
    head = get(refs, branch).commit_id
    refs.branches.move(BranchMove(branch, head, commit.id, verb, "ann", (commit,), fence=0))


def drop(refs: RepositoryRefs, branch: str) -> None:
    """Drop part of the staged changes, without a seal before it."""
    refs.staging.drop(branch, get(refs, branch), LayerCut([Interval()]), fence=0)


WRITES: dict[str, tuple[Action | None, Callable[[RepositoryRefs, str], object]]] = {
    "put": (Action.STAGE, lambda refs, name: refs.staging.put(name, [a_record(b"k")], fence=0)),
    "put nothing": (Action.STAGE, lambda refs, name: refs.staging.put(name, [], fence=0)),
    "add a run": (Action.STAGE, lambda refs, name: refs.staging.add_run(name, RUN, fence=0)),
    "seal to commit": (Action.COMMIT, lambda refs, name: refs.staging.seal(name, Action.COMMIT)),
    "commit": (Action.COMMIT, lambda refs, name: move(refs, "commit", name)),
    "import": (Action.COMMIT, lambda refs, name: move(refs, "import", name)),
    "cherry-pick": (Action.COMMIT, lambda refs, name: move(refs, "cherry-pick", name)),
    "what is not known": (Action.COMMIT, lambda refs, name: move(refs, "squeeze", name)),
    "reset": (Action.RESET, lambda refs, name: refs.staging.reset(name)),
    "reset a part": (Action.RESET, drop),
    "hard reset": (Action.RESET, lambda refs, name: move(refs, "hard-reset", name)),
    "undo": (Action.RESET, lambda refs, name: move(refs, "undo", name)),
    "delete": (
        Action.DELETE,
        lambda refs, name: refs.branches.delete(name, "ann", discard_staged=True),
    ),
    "merge": (None, lambda refs, name: move(refs, "merge", name)),
    "revert": (None, lambda refs, name: move(refs, "revert", name)),
    "set an expiry": (None, lambda refs, name: refs.branches.set_lifetime(name, DAY)),
    "seal": (None, lambda refs, name: refs.staging.seal(name)),
}


def all_of(refs: RepositoryRefs) -> object:
    return refs.snapshot(), refs.operations.list(1000)


# --- protection -----------------------------------------------------------------------------------


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("blocked", Action)
def test_a_protected_branch_rejects_exactly_the_blocked_actions(
    refs: RepositoryRefs, write: str, blocked: Action
) -> None:
    protect(refs, "ma?n", blocked)
    action, act = WRITES[write]
    before = all_of(refs)
    if action is blocked:
        with pytest.raises(ProtectedError, match=f"'main' is protected against '{blocked.value}'"):
            act(refs, "main")
        assert all_of(refs) == before
    else:
        act(refs, "main")
    act(refs, "dev")


@pytest.mark.parametrize("blocked", Action)
def test_a_rebase_requires_commit_and_reset(refs: RepositoryRefs, blocked: Action) -> None:
    protect(refs, "main", blocked)
    before = all_of(refs)
    if blocked in (Action.COMMIT, Action.RESET):
        with pytest.raises(ProtectedError, match=f"against '{blocked.value}'"):
            move(refs, "rebase")
        assert all_of(refs) == before
    else:
        move(refs, "rebase")


def test_a_rule_protects_branches_created_later(refs: RepositoryRefs) -> None:
    protect(refs, "release-*")
    branch = refs.branches.create("release-1", FIRST.id, "ann")
    assert branch.guard.protected == ALL_ACTIONS
    assert get(refs, "release-1") == branch
    with pytest.raises(ProtectedError):
        refs.staging.put("release-1", [a_record(b"k")], fence=0)


def test_rules_are_combined_and_removed(refs: RepositoryRefs) -> None:
    protect(refs, "main", Action.STAGE)
    protect(refs, "m*", Action.DELETE)
    assert get(refs).guard.protected == {Action.STAGE, Action.DELETE}
    assert [each.guard.protected for each in refs.branches.list()] == [
        frozenset(),
        {Action.STAGE, Action.DELETE},
    ]
    changed = refs.settings.change(lambda now: replace(now, protection=now.protection[:1]))
    assert changed == refs.settings.get()
    assert len(changed.protection) == 1
    refs.settings.change(lambda now: RepositorySettings())
    refs.staging.put("main", [a_record(b"k")], fence=0)
    assert get(refs).guard.protected == frozenset()


def test_a_failed_edit_changes_nothing(refs: RepositoryRefs) -> None:
    def fail(now: RepositorySettings) -> RepositorySettings:
        raise AlreadyExistsError("there is one")

    before = all_of(refs)
    with pytest.raises(AlreadyExistsError):
        refs.settings.change(fail)
    assert all_of(refs) == before


def test_concurrent_edits_are_serialized(refs: RepositoryRefs) -> None:
    def count(_: int) -> None:
        for _ in range(10):
            refs.settings.change(
                lambda now: replace(now, metadata={"n": str(int(now.metadata.get("n", 0)) + 1)})
            )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count, range(4)))
    assert refs.settings.get().metadata == {"n": "40"}


@pytest.mark.parametrize("write", ["put", "add a run", "commit"])
@pytest.mark.parametrize("read_only", [False, True])
def test_no_write_succeeds_after_it_is_blocked(
    refs: RepositoryRefs, write: str, read_only: bool
) -> None:
    """Writers continue until they are rejected, and the content then stays the same."""
    _, act = WRITES[write]
    started = Event()

    def work(_: int) -> SparklakeError:
        while True:
            try:
                act(refs, "main")
            except RaceLostError:
                continue
            except SparklakeError as error:
                return error
            started.set()

    def content() -> object:
        state = get(refs)
        rows = [list(refs.staging.rows(each.id)) for each in state.layers if each.kind == "rows"]
        return state.content, rows

    for _ in range(3):
        started.clear()
        with ThreadPoolExecutor(3) as pool:
            errors = pool.map(work, range(3))
            assert started.wait(30)
            if read_only:
                let_write(refs, True)
            else:
                protect(refs, "main")
            content_before = content()
        expected = ReadOnlyError if read_only else ProtectedError
        assert {type(each) for each in errors} == {expected}
        assert content() == content_before
        refs.settings.change(lambda now: RepositorySettings())


def test_a_branch_created_concurrently_is_protected(refs: RepositoryRefs) -> None:
    def create(number: int) -> None:
        for each in range(10):
            refs.branches.create(f"b-{number}-{each}", FIRST.id, "ann")

    with ThreadPoolExecutor(4) as pool:
        creating = pool.map(create, range(3))
        pool.submit(protect, refs, "b-*").result()
        list(creating)
    branches = [each for each in refs.branches.list() if each.name.startswith("b-")]
    assert [each.guard.protected for each in branches] == [ALL_ACTIONS] * 30


# --- read-only ------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", WRITES)
def test_a_read_only_repository_rejects_every_write_without_force(
    store: RefStore, uid: str, refs: RepositoryRefs, write: str
) -> None:
    let_write(refs, True)
    before, (_, act) = all_of(refs), WRITES[write]
    with pytest.raises(ReadOnlyError, match="read-only"):
        act(refs, "dev")
    assert all_of(refs) == before
    assert get(refs).guard.read_only
    forced = store.refs(uid, force=True)
    assert not get(forced).guard.read_only
    act(forced, "dev")
    let_write(refs, False)
    act(refs, "main")


def test_a_read_only_repository_keeps_its_branches_and_tags(
    store: RefStore, uid: str, refs: RepositoryRefs
) -> None:
    let_write(refs, True)
    before = all_of(refs)
    for act in (
        lambda: refs.branches.create("b", FIRST.id, "ann"),
        lambda: refs.tags.create(TagInfo("v2", FIRST.id), "ann"),
        lambda: refs.tags.delete("v1", "ann"),
        lambda: store.delete_repository("lake"),
    ):
        with pytest.raises(ReadOnlyError):
            act()
    assert all_of(refs) == before
    forced = store.refs(uid, force=True)
    forced.branches.create("b", FIRST.id, "ann")
    forced.tags.create(TagInfo("v2", FIRST.id), "ann")
    forced.tags.delete("v1", "ann")
    with pytest.raises(ReadOnlyError):
        refs.staging.put("b", [a_record(b"k")], fence=0)
    store.delete_repository("lake", force=True)
    assert store.find_repository("lake") is None


def test_a_repository_is_created_with_settings(store: RefStore) -> None:
    rules = (ProtectionRule("a*", frozenset({Action.COMMIT})), ProtectionRule("main"))
    settings = RepositorySettings(True, rules, {"owner": "joe", "ünit": "'; --"})
    info = replace(a_repository("born"), settings=settings)
    store.create_repository(info, FIRST, "ann")
    assert store.find_repository("born") == info
    assert store.list_repositories() == [info]
    refs = store.refs(info.uid)
    assert refs.settings.get() == settings
    with pytest.raises(ReadOnlyError):
        refs.staging.put("main", [a_record(b"k")], fence=0)
    let_write(refs, False)
    with pytest.raises(ProtectedError):
        refs.staging.put("main", [a_record(b"k")], fence=0)
    info_after = store.find_repository("born")
    assert info_after is not None
    assert info_after.settings == replace(settings, read_only=False)


def test_settings_of_a_deleted_repository_are_not_found(
    store: RefStore, refs: RepositoryRefs
) -> None:
    store.delete_repository("lake")
    with pytest.raises(RepositoryNotFoundError):
        refs.settings.get()
    with pytest.raises(RepositoryNotFoundError):
        refs.settings.change(lambda now: now)


# --- hidden branches and expiry -------------------------------------------------------------------


def test_a_hidden_branch_is_reported_as_hidden(refs: RepositoryRefs) -> None:
    branch = refs.branches.create("secret", FIRST.id, "ann", hidden=True)
    assert branch.hidden
    assert get(refs, "secret") == branch == refs.staging.seal("secret")
    assert [each.hidden for each in refs.branches.list()] == [False, False, True]
    move(refs, "commit", "secret")
    refs.staging.add_run("secret", MetaRangeId("b" * 64), fence=0)
    assert get(refs, "secret").hidden


def test_a_branch_expires_after_its_lifetime(refs: RepositoryRefs) -> None:
    branch = refs.branches.create("short", FIRST.id, "ann", lifetime=DAY)
    assert branch.expires is not None
    assert not branch.is_expired
    assert get(refs, "short") == branch
    with pytest.raises(RaceLostError):
        refs.branches.delete("short", "ann", if_expired=True)
    later = refs.branches.set_lifetime("short", 2 * DAY)
    assert later.expires is not None
    assert abs(later.expires - branch.expires - DAY.total_seconds()) < 60
    assert refs.branches.set_lifetime("short", None).expires is None
    with pytest.raises(RaceLostError):
        refs.branches.delete("short", "ann", if_expired=True)
    assert refs.branches.set_lifetime("short", PAST).is_expired
    assert get(refs, "short").is_expired
    refs.branches.delete("short", "ann", if_expired=True)
    assert refs.branches.find("short") is None
    assert refs.operations.list(1)[0].verb == "prune-branch"
    with pytest.raises(RefNotFoundError):
        refs.branches.set_lifetime("short", DAY)


def test_an_expired_branch_keeps_its_layers(refs: RepositoryRefs) -> None:
    refs.branches.create("old", FIRST.id, "ann", lifetime=PAST)
    refs.staging.put("old", [a_record(b"1")], fence=0)
    refs.staging.add_run("old", RUN, fence=0)
    refs.staging.put("old", [a_record(b"2")], fence=0)
    state = get(refs, "old")
    assert [len(each.layers) for each in refs.branches.list()] == [1, 1, 3]
    refs.staging.drop("old", refs.staging.seal("old"), LayerCut([Interval(b"2", None)]), fence=0)
    assert state.is_expired
    assert get(refs, "old").expires == state.expires
