"""What every ref store refuses, and from which moment on; hidden branches, and expiry."""

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
    found = refs.branches.find(name)
    assert found is not None
    return found


def move(refs: RepositoryRefs, verb: str, branch: str = "main") -> None:
    made = a_commit()
    head = get(refs, branch).commit_id
    refs.branches.move(BranchMove(branch, head, made.id, verb, "ann", (made,), fence=0))


def drop(refs: RepositoryRefs, branch: str) -> None:
    """Drop part of what is staged, as it would where nothing had just been sealed."""
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
def test_a_protected_branch_refuses_what_is_blocked_and_no_other_does(
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
def test_a_rebase_is_blocked_as_a_commit_and_as_a_reset(
    refs: RepositoryRefs, blocked: Action
) -> None:
    protect(refs, "main", blocked)
    before = all_of(refs)
    if blocked in (Action.COMMIT, Action.RESET):
        with pytest.raises(ProtectedError, match=f"against '{blocked.value}'"):
            move(refs, "rebase")
        assert all_of(refs) == before
    else:
        move(refs, "rebase")


def test_a_branch_that_is_made_later_is_protected_too(refs: RepositoryRefs) -> None:
    protect(refs, "release-*")
    made = refs.branches.create("release-1", FIRST.id, "ann")
    assert made.guard.protected == ALL_ACTIONS
    assert get(refs, "release-1") == made
    with pytest.raises(ProtectedError):
        refs.staging.put("release-1", [a_record(b"k")], fence=0)


def test_rules_add_up_and_go(refs: RepositoryRefs) -> None:
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


def test_an_edit_that_fails_changes_nothing(refs: RepositoryRefs) -> None:
    def fail(now: RepositorySettings) -> RepositorySettings:
        raise AlreadyExistsError("there is one")

    before = all_of(refs)
    with pytest.raises(AlreadyExistsError):
        refs.settings.change(fail)
    assert all_of(refs) == before


def test_edits_come_one_after_the_other(refs: RepositoryRefs) -> None:
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
def test_nothing_lands_once_it_is_refused(
    refs: RepositoryRefs, write: str, read_only: bool
) -> None:
    """Writers go on until they are refused; what is there when that is said stays as it is."""
    _, act = WRITES[write]
    begun = Event()

    def work(_: int) -> SparklakeError:
        while True:
            try:
                act(refs, "main")
            except RaceLostError:
                continue
            except SparklakeError as error:
                return error
            begun.set()

    def content() -> object:
        state = get(refs)
        rows = [list(refs.staging.rows(each.id)) for each in state.layers if each.kind == "rows"]
        return state.content, rows

    for _ in range(3):
        begun.clear()
        with ThreadPoolExecutor(3) as pool:
            errors = pool.map(work, range(3))
            assert begun.wait(30)
            if read_only:
                let_write(refs, True)
            else:
                protect(refs, "main")
            seen = content()
        expected = ReadOnlyError if read_only else ProtectedError
        assert {type(each) for each in errors} == {expected}
        assert content() == seen
        refs.settings.change(lambda now: RepositorySettings())


def test_a_branch_that_is_created_meanwhile_is_protected_in_the_end(refs: RepositoryRefs) -> None:
    def create(number: int) -> None:
        for each in range(10):
            refs.branches.create(f"b-{number}-{each}", FIRST.id, "ann")

    with ThreadPoolExecutor(4) as pool:
        creating = pool.map(create, range(3))
        pool.submit(protect, refs, "b-*").result()
        list(creating)
    made = [each for each in refs.branches.list() if each.name.startswith("b-")]
    assert [each.guard.protected for each in made] == [ALL_ACTIONS] * 30


# --- read-only ------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", WRITES)
def test_a_read_only_repository_refuses_everything_unless_forced(
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


def test_a_read_only_repository_has_its_branches_and_tags_for_good(
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


def test_a_repository_is_born_with_settings(store: RefStore) -> None:
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
    found = store.find_repository("born")
    assert found is not None
    assert found.settings == replace(settings, read_only=False)


def test_settings_of_what_is_gone(store: RefStore, refs: RepositoryRefs) -> None:
    store.delete_repository("lake")
    with pytest.raises(RepositoryNotFoundError):
        refs.settings.get()
    with pytest.raises(RepositoryNotFoundError):
        refs.settings.change(lambda now: now)


# --- hidden branches and expiry -------------------------------------------------------------------


def test_a_hidden_branch_says_so(refs: RepositoryRefs) -> None:
    made = refs.branches.create("secret", FIRST.id, "ann", hidden=True)
    assert made.hidden
    assert get(refs, "secret") == made == refs.staging.seal("secret")
    assert [each.hidden for each in refs.branches.list()] == [False, False, True]
    move(refs, "commit", "secret")
    refs.staging.add_run("secret", MetaRangeId("b" * 64), fence=0)
    assert get(refs, "secret").hidden


def test_a_branch_expires_when_its_time_is_over(refs: RepositoryRefs) -> None:
    made = refs.branches.create("short", FIRST.id, "ann", lifetime=DAY)
    assert made.expires is not None
    assert not made.is_expired
    assert get(refs, "short") == made
    with pytest.raises(RaceLostError):
        refs.branches.delete("short", "ann", if_expired=True)
    later = refs.branches.set_lifetime("short", 2 * DAY)
    assert later.expires is not None
    assert abs(later.expires - made.expires - DAY.total_seconds()) < 60
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


def test_layers_of_an_expired_branch_are_its_own(refs: RepositoryRefs) -> None:
    refs.branches.create("old", FIRST.id, "ann", lifetime=PAST)
    refs.staging.put("old", [a_record(b"1")], fence=0)
    refs.staging.add_run("old", RUN, fence=0)
    refs.staging.put("old", [a_record(b"2")], fence=0)
    state = get(refs, "old")
    assert [len(each.layers) for each in refs.branches.list()] == [1, 1, 3]
    refs.staging.drop("old", refs.staging.seal("old"), LayerCut([Interval(b"2", None)]), fence=0)
    assert state.is_expired
    assert get(refs, "old").expires == state.expires
