"""Protected branches, read-only repositories, labels, hidden branches and expiry, verb by verb."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from threading import Thread
from uuid import uuid4

import pytest

from sparklake import Lake, Repository
from sparklake.errors import (
    InvalidInputError,
    NotFoundError,
    ProtectedError,
    RaceLostError,
    ReadOnlyError,
    RefNotFoundError,
    SparklakeError,
)
from sparklake.graveler.guards import ALL_ACTIONS, Action, ProtectionRule
from sparklake.testing.lakes import commit_all, contents, memory_lake
from tests.support.lakes import refused, stage_sizes

DAY = timedelta(days=1)


@pytest.fixture(params=["memory", "postgres"])
def arena(request: pytest.FixtureRequest) -> Lake:
    return memory_lake() if request.param == "memory" else request.getfixturevalue("lake")


@pytest.fixture
def source(folder: Path) -> Path:
    """Is a folder to import."""
    (folder / "source").mkdir()
    (folder / "source" / "a").write_text("imported")
    return folder / "source"


@pytest.fixture
def repo(arena: Lake, folder: Path) -> Repository:
    """Have two commits on main, and one more on dev, with something staged there."""
    name = f"guards-{uuid4().hex[:8]}"
    made = arena.create_repository(name, str(folder / name), range_records=2)
    for body in (b"1", b"2"):
        commit_all(made.branch("main"), {"k": body}, body.decode())
    commit_all(made.create_branch("dev", "main"), {"dev": b"dev"}, "dev")
    made.create_tag("v1", "main")
    return made


Act = Callable[[Repository, Path], object]
WRITES: dict[str, tuple[Action | None, Act]] = {
    "put": (Action.STAGE, lambda repo, _: repo.branch("main").put("k", b"x")),
    "put_file": (
        Action.STAGE,
        lambda repo, source: repo.branch("main").put_file("k", source / "a"),
    ),
    "delete": (Action.STAGE, lambda repo, _: repo.branch("main").delete("k")),
    "delete_prefix": (Action.STAGE, lambda repo, _: repo.branch("main").delete_prefix("")),
    "remove": (Action.STAGE, lambda repo, _: repo.branch("main").remove("k")),
    "stage": (Action.STAGE, lambda repo, _: stage_sizes(repo.branch("main"), {"s": 1})),
    "move": (Action.STAGE, lambda repo, _: repo.branch("main").move("k", "l")),
    "copy": (Action.STAGE, lambda repo, _: repo.branch("main").copy("dev", "d", "dev")),
    "restore": (Action.STAGE, lambda repo, _: repo.branch("main").restore("main~1", ["k"])),
    "commit": (Action.COMMIT, lambda repo, _: repo.branch("main").commit("x", allow_empty=True)),
    "import": (
        Action.COMMIT,
        lambda repo, source: repo.branch("main").import_objects(str(source), "raw"),
    ),
    "cherry-pick": (Action.COMMIT, lambda repo, _: repo.branch("main").cherry_pick("dev")),
    "reset": (Action.RESET, lambda repo, _: repo.branch("main").reset()),
    "reset a part": (Action.RESET, lambda repo, _: repo.branch("main").reset(prefix="k")),
    "hard-reset": (Action.RESET, lambda repo, _: repo.branch("main").hard_reset("main~1")),
    "undo": (Action.RESET, lambda repo, _: repo.branch("main").undo()),
    "merge paths": (None, lambda repo, _: repo.merge("dev", "main", paths=["dev"])),
    "squash": (None, lambda repo, _: repo.merge("dev", "main", squash=True)),
    "transaction": (None, lambda repo, _: work(repo)),
    "merge": (None, lambda repo, _: repo.merge("dev", "main")),
    "revert": (None, lambda repo, _: repo.branch("main").revert("main")),
}


def work(repo: Repository) -> None:
    with repo.branch("main").transaction("work") as branch:
        branch.put("k", b"x")


OTHER_WRITES: dict[str, Act] = {
    "create_branch": lambda repo, _: repo.create_branch("new", "main"),
    "delete_branch": lambda repo, _: repo.delete_branch("dev"),
    "create_tag": lambda repo, _: repo.create_tag("v2", "main"),
    "delete_tag": lambda repo, _: repo.delete_tag("v1"),
    "set_expiry": lambda repo, _: repo.branch("dev").set_expiry(DAY),
}


# --- protection -----------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", WRITES)
def test_a_protected_branch_refuses_all_but_merges_and_reverts(
    arena: Lake, repo: Repository, source: Path, verb: str
) -> None:
    repo.settings.protect("ma*")
    action, act = WRITES[verb]
    if action is None:
        before = repo.branch("main").head
        act(repo, source)
        assert repo.branch("main").head.parents[0] == before.id
        return
    words = f"'main' is protected against '{action.value}': work on another branch and merge"
    with refused(arena, ProtectedError, words, source):
        act(repo, source)
    repo.settings.protect("ma*", block=ALL_ACTIONS - {action})
    act(repo, source)


@pytest.mark.parametrize("action", [Action.COMMIT, Action.RESET])
def test_a_rebase_is_a_commit_and_a_reset(arena: Lake, repo: Repository, action: Action) -> None:
    repo.branch("main").commit("own", allow_empty=True)
    repo.settings.protect("main", block=[action])
    with refused(arena, ProtectedError, f"'main' is protected against '{action.value}'"):
        repo.branch("main").rebase("dev")
    repo.settings.protect("main", block=["stage", "delete"])
    assert [each.message for each in repo.branch("main").rebase("dev")] == ["own"]


@pytest.mark.parametrize("action", [Action.STAGE, Action.COMMIT])
def test_a_part_of_what_is_staged_is_guarded_as_all_of_it(
    arena: Lake, repo: Repository, action: Action
) -> None:
    main = repo.branch("main")
    main.put("k", b"staged")
    main.put("l", b"staged")
    repo.settings.protect("main", block=[action])
    act = (
        (lambda: main.restore("main", ["k"]))
        if action is Action.STAGE
        else (lambda: main.commit("part", paths=["k"]))
    )
    with refused(arena, ProtectedError, f"'main' is protected against '{action.value}'"):
        act()
    repo.settings.unprotect("main")
    act()
    assert [row.path for row in main.diff()] == ["l"]


def test_a_protected_branch_is_not_deleted(arena: Lake, repo: Repository) -> None:
    repo.settings.protect("dev", block=["delete"])
    with refused(arena, ProtectedError, "'dev' is protected against 'delete'"):
        repo.delete_branch("dev")
    repo.branch("dev").put("k", b"x")
    with refused(arena, ProtectedError, "'dev' is protected against 'delete'"):
        repo.delete_branch("dev")
    repo.settings.unprotect("dev")
    repo.delete_branch("dev", discard_staged=True)


def test_rules_are_set_replaced_and_removed(arena: Lake, repo: Repository) -> None:
    settings = repo.settings
    assert settings.protection == ()
    settings.protect("main", "release-*", block=["commit", Action.STAGE])
    settings.protect("main")
    some = frozenset({Action.COMMIT, Action.STAGE})
    assert settings.protection == (ProtectionRule("main"), ProtectionRule("release-*", some))
    with refused(arena, NotFoundError, "rule with the pattern 'rel\\*' does not"):
        settings.unprotect("main", "rel*")
    assert len(settings.protection) == 2
    settings.unprotect("main", "release-*")
    assert settings.protection == ()
    for act, words in (
        (settings.protect, "pass at least one pattern"),
        (settings.unprotect, "pass at least one pattern"),
        (lambda: settings.protect("a/*"), "matches no branch"),
        (lambda: settings.protect("main", "a b"), "matches no branch"),
        (lambda: settings.protect("main", block=["merge"]), "'merge' cannot be blocked"),
        (lambda: settings.protect("main", block=[]), "must block"),
    ):
        with refused(arena, InvalidInputError, words):
            act()
    assert settings.protection == ()


def test_what_was_staged_before_is_committed_elsewhere_or_let_go(repo: Repository) -> None:
    main = repo.branch("main")
    main.put("late", b"late")
    repo.settings.protect("main")
    for act in (lambda: main.commit("x"), main.reset, lambda: main.hard_reset("main", force=True)):
        with pytest.raises(ProtectedError):
            act()
    assert contents(repo, "main")["late"] == b"late"
    repo.settings.protect("main", block=["stage", "commit", "delete"])
    main.reset()
    assert repo.merge("dev", "main") == main.head


@pytest.mark.parametrize("read_only", [False, True])
def test_writers_race_with_the_one_who_forbids_it(repo: Repository, read_only: bool) -> None:
    """What is committed when the branch is closed is what there is for good."""
    errors: list[SparklakeError] = []

    def work(number: int) -> None:
        main, turn = repo.branch("main"), 0
        while True:
            turn += 1
            try:
                main.put(f"{number}-{turn}", b"x")
                main.commit(f"{number}-{turn}", allow_empty=True)
            except RaceLostError:
                continue
            except SparklakeError as error:
                errors.append(error)
                return

    writers = [Thread(target=work, args=(number,)) for number in range(2)]
    for writer in writers:
        writer.start()
    while len(repo.operations(10, "main")) < 8:
        pass
    if read_only:
        repo.settings.set_read_only()
    else:
        repo.settings.protect("main")
    state = repo.branch("main").state
    for writer in writers:
        writer.join()
    assert repo.branch("main").state == state
    expected = ReadOnlyError if read_only else ProtectedError
    assert [type(each) for each in errors] == [expected] * len(writers)


# --- read-only ------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [*WRITES, *OTHER_WRITES])
def test_a_read_only_repository_refuses_every_write(
    arena: Lake, repo: Repository, source: Path, verb: str
) -> None:
    act = OTHER_WRITES[verb] if verb in OTHER_WRITES else WRITES[verb][1]
    repo.settings.set_read_only()
    assert repo.settings.read_only
    with refused(arena, ReadOnlyError, "read-only: `sparklake repo set", source):
        act(repo, source)
    act(arena.repository(repo.name, force=True), source)
    assert repo.settings.read_only


def test_a_read_only_repository_is_deleted_by_force_alone(arena: Lake, repo: Repository) -> None:
    repo.settings.set_read_only()
    with refused(arena, ReadOnlyError, "read-only"):
        arena.delete_repository(repo.name)
    repo.settings.set_read_only(False)
    repo.branch("main").put("k", b"x")
    repo.settings.set_read_only()
    arena.delete_repository(repo.name, force=True)


def test_a_repository_is_created_read_only(arena: Lake, folder: Path) -> None:
    name = f"born-{uuid4().hex[:8]}"
    made = arena.create_repository(
        name, str(folder / name), read_only=True, metadata={"b": "1", "a": "2"}
    )
    assert made.info == arena.repository(name).info
    assert made.info.settings.read_only
    assert list(made.settings.metadata.items()) == [("a", "2"), ("b", "1")]
    with refused(arena, ReadOnlyError, "read-only"):
        made.branch("main").put("k", b"x")


# --- labels ---------------------------------------------------------------------------------------


def test_labels_are_set_and_removed(arena: Lake, repo: Repository) -> None:
    settings = repo.settings
    settings.set_metadata({"owner": "joe", "tier": "gold"})
    settings.set_metadata({"owner": "ann", "ü": ""})
    assert settings.metadata == {"owner": "ann", "tier": "gold", "ü": ""}
    with refused(arena, NotFoundError, "the label 'x' does not exist"):
        settings.remove_metadata("owner", "x")
    settings.remove_metadata("owner", "ü")
    assert arena.repository(repo.name).info.settings.metadata == {"tier": "gold"}
    for bad in ({"": "x"}, {"a": "\0"}, {"a": "\udcff"}, {"a": "x" * 70_000}):
        with refused(arena, InvalidInputError, "label"):
            settings.set_metadata(bad)
    settings.set_metadata({"a": "x" * 40_000})
    with refused(arena, InvalidInputError, "labels may have at most"):
        settings.set_metadata({"b": "x" * 40_000})


# --- hidden branches and expiry -------------------------------------------------------------------


def test_a_hidden_branch_is_there_for_who_knows_it(repo: Repository) -> None:
    made = repo.create_branch("secret", "main", hidden=True)
    commit_all(made, {"secret": b"1"}, "secret")
    assert [each.name for each in repo.branches()] == ["dev", "main"]
    assert [each.name for each in repo.branch_states(hidden=True)] == ["dev", "main", "secret"]
    assert contents(repo, "secret")["secret"] == b"1"
    assert repo.merge("secret", "main").parents[1] == made.head.id


def test_branches_are_pruned_when_they_have_expired(arena: Lake, repo: Repository) -> None:
    branches = repo._context.refs.branches
    main = repo.branch("main").head
    for name in ("old", "older", "kept", "young"):
        repo.create_branch(name, "main", expires=DAY).put("k", b"staged")
    for name in ("old", "older", "kept", "main"):
        branches.set_lifetime(name, timedelta(seconds=-1))
    repo.settings.protect("kept", block=["stage"])
    with_all = [each.name for each in repo.branches()]
    assert [each.name for each in repo.prune_branches(dry_run=True)] == ["old", "older"]
    assert [each.name for each in repo.branches()] == with_all
    repo.branch("older").set_expiry(DAY)
    assert [each.name for each in repo.prune_branches()] == ["old"]
    assert repo.prune_branches() == []
    (latest,) = repo.operations(1)
    assert (latest.verb, latest.ref, latest.from_commit) == ("prune-branch", "old", main.id)
    assert repo.branch("main").head == main
    assert [each.name for each in repo.branches()] == ["dev", "kept", "main", "older", "young"]
    assert repo.branch("young").set_expiry(None).expires is None


def test_what_is_no_expiry(arena: Lake, repo: Repository) -> None:
    for span in (timedelta(), timedelta(seconds=-1), timedelta(days=40_000)):
        with refused(arena, InvalidInputError, "cannot expire in"):
            repo.branch("dev").set_expiry(span)
        with refused(arena, InvalidInputError, "cannot expire in"):
            repo.create_branch("new", "main", expires=span)
    with refused(arena, ProtectedError, "'main' is the default branch, which cannot expire"):
        repo.branch("main").set_expiry(DAY)
    dev = repo.branch("dev")
    repo.delete_branch("dev")
    with refused(arena, RefNotFoundError, "no branch 'dev'"):
        dev.set_expiry(DAY)


# --- dumps ----------------------------------------------------------------------------------------


def test_a_dump_keeps_what_is_set(arena: Lake, repo: Repository) -> None:
    repo.create_branch("secret", "main", hidden=True)
    repo.create_branch("short", "main", expires=DAY)
    repo.settings.protect("main", block=["stage"])
    repo.settings.set_metadata({"owner": "joe"})
    repo.settings.set_read_only()
    settings, namespace = repo.settings.get(), repo.info.storage_namespace
    repo.dump_refs()
    arena.delete_repository(repo.name, force=True)
    back = arena.restore_repository(repo.name, namespace)
    assert back.settings.get() == settings
    assert [each.name for each in back.branches()] == ["dev", "main", "short"]
    assert back.branch("secret").state.hidden
    with refused(arena, ReadOnlyError, "read-only"):
        back.branch("dev").put("k", b"x")
    with refused(arena, ProtectedError, "'main' is protected"):
        arena.repository(repo.name, force=True).branch("main").put("k", b"x")
