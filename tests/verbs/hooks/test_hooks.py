"""Hooks: declared in the repository, run before and after what they guard."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import uuid4

import pytest

from sparklake import Engine, Lake, MergeConflictError, Repository, SparklakeError
from sparklake.config import HookSettings
from sparklake.engine.choice import Runners
from sparklake.errors import (
    AlreadyExistsError,
    HookFailedError,
    HookNotAllowedError,
    InvalidHooksError,
    NoChangesError,
    NotFoundError,
    ProtectedError,
    RaceLostError,
    ReadOnlyError,
    RefNotFoundError,
)
from sparklake.graveler.ports import BranchMove, RefStore
from sparklake.graveler.ports.registers import HookStatus
from sparklake.graveler.sstable import range_files
from sparklake.rows.objects import ObjectInfo, object_record
from sparklake.stores.postgres import connect_ref_store
from sparklake.testing.lakes import TESTER, commit_all
from sparklake.testing.memory import MemoryRefStore
from tests.support.hook_functions import CALLS, DOING
from tests.support.hook_server import hook_server
from tests.support.lakes import paths, refs_of

HERE = HookSettings(
    allow=("python:tests.support.**", "shell", "webhook"), private=("127.0.0.1",), env=("HOOK_*",)
)
FILE = "_sparklake/hooks/guard.yaml"


def declared(*events: str, function: str = "note", branches: Sequence[str] = ()) -> bytes:
    """Return a file of one Python hook."""
    on = "".join(f"  {event}: {{branches: [{', '.join(branches)}]}}\n" for event in events)
    return hook_file(on, python(function))


def hook_file(on: str, *hooks: str) -> bytes:
    lines = "".join(f"  - {{id: h{at}, {each}}}\n" for at, each in enumerate(hooks))
    return f"on:\n{on}hooks:\n{lines}".encode()


def python(function: str, more: str = "") -> str:
    return (
        f"type: python, {more}properties: {{function: 'tests.support.hook_functions:{function}'}}"
    )


def webhook(url: str) -> str:
    header = "{Authorization: '{{ ENV.HOOK_TOKEN }}'}"
    return f"type: webhook, properties: {{url: '{url}', headers: {header}}}"


@pytest.fixture(params=["memory", "postgres"])
def ref_store(request: pytest.FixtureRequest) -> Iterator[RefStore]:
    if request.param == "memory":
        yield MemoryRefStore()
        return
    store = connect_ref_store(request.getfixturevalue("dsn"))
    yield store
    store.close()


@pytest.fixture
def repository(ref_store: RefStore, folder: Path) -> Repository:
    CALLS.clear()
    DOING.clear()
    made = opened(ref_store, HERE).create_repository(f"r{uuid4().hex[:12]}", str(folder / "lake"))
    commit_all(made.branch("main"), {"t/a": b"1", "t/b": b"1", "z": b"1"}, "begin")
    return made


def opened(store: RefStore, settings: HookSettings) -> Lake:
    return Lake(store, Runners(Engine.LOCAL), TESTER, hooks=settings)


def reopened(repository: Repository, store: RefStore, **settings: tuple[str, ...]) -> Repository:
    return opened(store, HookSettings(**settings)).repository(repository.name)


def guard(repository: Repository, files: Mapping[str, bytes | None] | bytes) -> None:
    """Commit files of hooks to main."""
    given = {FILE: files} if isinstance(files, bytes) else files
    commit_all(repository.branch("main"), given, "guard")
    CALLS.clear()


@contextmanager
def refused(
    repository: Repository, words: str, error: type[SparklakeError] = HookFailedError
) -> Iterator[None]:
    before = moved(repository)
    with pytest.raises(error, match=words) as raised:
        yield
    assert type(raised.value) is error
    assert moved(repository) == before


def moved(repository: Repository) -> dict[str, Any]:
    """Return all of the refs that a publish changes; what is staged is none of it."""
    found = refs_of(repository)
    heads = [(name, commit_id) for name, commit_id, *_ in found["branches"]]
    return {**found, "branches": heads, "rows": None}


def called() -> list[tuple[str, str]]:
    return [(each.event.name.value, each.event.ref) for each in CALLS]


# --- what they guard ------------------------------------------------------------------------------


def test_each_verb_has_its_events_before_and_after(repository: Repository) -> None:
    verbs = ("commit", "merge", "revert", "cherry-pick", "create-branch", "delete-branch")
    on = "".join(
        f"  {when}-{each}:\n"
        for each in (*verbs, "create-tag", "delete-tag")
        for when in ("pre", "post")
    )
    guard(repository, hook_file(on, python("note")))
    main = repository.branch("main")
    dev = repository.create_branch("dev", "main")
    assert called() == [("pre-create-branch", "dev"), ("post-create-branch", "dev")]
    CALLS.clear()
    made = commit_all(dev, {"t/a": b"2"}, "change")
    assert called() == [("pre-commit", "dev"), ("post-commit", "dev")]
    assert [each.commit for each in CALLS] == [made, made]
    CALLS.clear()
    merged = repository.merge("dev", "main")
    assert called() == [("pre-merge", "main"), ("post-merge", "main")]
    assert [(each.event.source, each.event.head) for each in CALLS] == [merged.parents[::-1]] * 2
    CALLS.clear()
    undone = main.revert("main", parent_number=1)
    picked = main.cherry_pick(made.id)
    assert [name for name, _ in called()] == [
        *("pre-revert", "post-revert", "pre-cherry-pick", "post-cherry-pick")
    ]
    assert [each.event.commits for each in CALLS] == [(undone[0],)] * 2 + [(picked[0],)] * 2
    CALLS.clear()
    repository.create_tag("v1", "main")
    repository.delete_tag("v1")
    repository.delete_branch("dev")
    assert [name for name, _ in called()] == [
        f"{when}-{each}"
        for each in ("create-tag", "delete-tag", "delete-branch")
        for when in ("pre", "post")
    ]
    assert [each.event.commit_id for each in CALLS] == [picked[0].id] * 4 + [made.id] * 2
    assert all(run.status is HookStatus.PASSED for run in repository.hook_runs(1000))


@pytest.mark.parametrize("function", ["refuse", "fail", "leave", "no_such_function"])
def test_what_is_refused_leaves_nothing_moved(repository: Repository, function: str) -> None:
    dev = repository.create_branch("dev", "main")
    change = commit_all(dev, {"t/a": b"2"}, "change")
    repository.create_tag("v1", "main")
    names = ("create-branch", "delete-branch", "create-tag", "delete-tag")
    events = ("commit", "merge", "revert", "cherry-pick", *names)
    on = "".join(f"  pre-{each}:\n" for each in events)
    guard(repository, hook_file(on, python(function)))
    main = repository.branch("main")
    for verb in (
        lambda: repository.merge("dev", "main"),
        lambda: main.revert("main"),
        lambda: main.cherry_pick(change.id),
        lambda: repository.create_branch("new", "dev"),
        lambda: repository.delete_branch("dev"),
        lambda: repository.create_tag("v2", "dev"),
        lambda: repository.delete_tag("v1"),
    ):
        with refused(repository, "'h0' of _sparklake/hooks/guard.yaml failed on pre-"):
            verb()
    main.put("t/a", b"3")
    with refused(repository, "the operation was rejected"):
        main.commit("try")
    assert main.is_dirty
    assert {each.status for each in repository.hook_runs()} == {HookStatus.FAILED}
    assert len(repository.hook_runs()) == 8


def test_an_import_is_guarded_as_a_commit(repository: Repository, folder: Path) -> None:
    guard(repository, declared("pre-commit", function="refuse"))
    (folder / "source").mkdir()
    (folder / "source" / "file").write_bytes(b"x")
    with refused(repository, "pre-commit of 'main'"):
        repository.branch("main").import_objects(str(folder / "source"), "new")


def test_a_refused_purge_leaves_nothing_staged(repository: Repository) -> None:
    main = repository.branch("main")
    commit_all(main, {"secret": b"x"}, "a secret")
    guard(repository, declared("pre-commit", function="refuse"))
    with refused(repository, "pre-commit of 'main'"):
        repository.purge(["secret"], commit=True)
    assert not main.is_dirty
    assert repository.read_bytes("main", "secret") == b"x"


def test_what_is_refused_anyway_is_refused_before_hooks(repository: Repository) -> None:
    repository.create_branch("dev", "main")
    repository.create_tag("v1", "main")
    events = ("create-branch", "delete-branch", "create-tag", "delete-tag")
    guard(repository, hook_file("".join(f"  pre-{each}:\n" for each in events), python("note")))
    repository.settings.protect("dev", block=["delete"])
    for error, words, verb in (
        (ProtectedError, "against 'delete'", lambda: repository.delete_branch("dev")),
        (AlreadyExistsError, "'dev'", lambda: repository.create_branch("dev", "main")),
        (AlreadyExistsError, "'v1'", lambda: repository.create_tag("v1", "main")),
        (RefNotFoundError, "'none'", lambda: repository.delete_tag("none")),
    ):
        with refused(repository, words, error):
            verb()
    repository.settings.set_read_only()
    for verb in (
        lambda: repository.create_branch("new", "main"),
        lambda: repository.delete_branch("dev"),
        lambda: repository.create_tag("v2", "main"),
        lambda: repository.delete_tag("v1"),
    ):
        with refused(repository, "read-only", ReadOnlyError):
            verb()
    assert not CALLS
    assert not repository.hook_runs()


def test_a_rebase_has_the_commit_that_it_moves_to(repository: Repository) -> None:
    dev = repository.create_branch("dev", "main")
    guard(repository, declared("pre-commit", "post-commit"))
    repository.merge("main", "dev")
    head = commit_all(repository.branch("main"), {"t/a": b"2"}, "change")
    dev.hard_reset("main~1")
    CALLS.clear()
    assert dev.rebase("main") == []
    assert called() == [("pre-commit", "dev"), ("post-commit", "dev")]
    assert [(each.commit, each.event.commit_id, each.tree.id) for each in CALLS] == [
        (head, head.id, head.meta_range_id)
    ] * 2


def test_a_guard_is_read_where_it_guards(repository: Repository) -> None:
    """Not at the source, which could leave it out; nor in what is staged, which could drop it."""
    dev = repository.create_branch("dev", "main")
    guard(repository, declared("pre-merge", "pre-commit", function="fail", branches=["main"]))
    commit_all(dev, {FILE: declared("pre-merge", function="note"), "t/a": b"2"}, "weaker")
    assert CALLS == []
    with refused(repository, "main is not fit"):
        repository.merge("dev", "main", strategy="source-wins")
    main = repository.branch("main")
    main.delete(FILE)
    with refused(repository, "main is not fit"):
        main.commit("drop the guard")


def test_a_hook_begins_with_what_comes_after_it(repository: Repository) -> None:
    main = repository.branch("main")
    commit_all(main, {FILE: declared("pre-commit", "post-commit", function="fail")}, "guard")
    assert CALLS == []
    with pytest.raises(HookFailedError):
        commit_all(main, {"t/a": b"2"}, "change")


def test_hooks_see_the_tree_that_is_to_be_published(repository: Repository) -> None:
    guard(repository, hook_file("  pre-commit:\n  pre-merge:\n", python("look")))
    dev = repository.create_branch("dev", "main")
    commit_all(dev, {"t/a": b"2", "t/b": None, "t/c": b"3", "u": b"1"}, "change")
    repository.merge("dev", "main")
    outputs = [run.hooks[0].output for run in repository.hook_runs(2)]
    expected = "['t/a', 't/c'] ['changed t/a', 'removed t/b', 'added t/c'] 2"
    assert outputs == [expected, expected]
    assert CALLS[-1].tree.id == repository.resolve("main").meta_range_id


def test_who_loses_a_race_is_asked_again_for_the_new_tree(repository: Repository) -> None:
    guard(repository, hook_file("  pre-commit: {branches: [main]}\n", python("act")))
    main = repository.branch("main")
    main.put("t/a", b"mine")
    DOING.append(lambda _: _move_away(repository))
    made = main.commit("mine")
    first, second = CALLS
    assert first.event.head != second.event.head == made.parents[0]
    assert not first.tree.exists("elsewhere")
    assert second.tree.exists("elsewhere")
    assert "elsewhere" in paths(repository, "main")


def _move_away(repository: Repository) -> None:
    """Move main to another commit, and take nothing of what is staged on it."""
    head = repository.resolve("main")
    moved = commit_all(repository.create_branch("side", "main"), {"elsewhere": b"1"}, "side")
    move = BranchMove("main", head.id, moved.id, "test", TESTER, fence=0)
    repository._context.refs.branches.move(move)


# --- files ----------------------------------------------------------------------------------------


def test_hooks_run_in_the_order_of_files_and_hooks_until_one_fails(repository: Repository) -> None:
    one = hook_file("  pre-commit:\n", python("note"), python("note"))
    two = hook_file(
        "  pre-commit:\n",
        python("note"),
        python("fail"),
        python("note"),
        python("note", "if: failure(), "),
        python("note", "if: true, "),
        python("note", "if: false, "),
    )
    guard(
        repository,
        {
            "_lakefs_actions/first.yaml": one,
            "_sparklake/hooks/b.yml": two,
            "_sparklake/hooks/c.yaml": one,
            "_sparklake/hooks/README.md": b"no hook",
            "_sparklake/other.yaml": b"no hook",
        },
    )
    with pytest.raises(HookFailedError, match=r"'h1' of _sparklake/hooks/b\.yml"):
        commit_all(repository.branch("main"), {"t/a": b"2"}, "change")
    assert [(each.action, each.hook) for each in CALLS] == [
        *(("first", "h0"), ("first", "h1")),
        *(("b", "h0"), ("b", "h1"), ("b", "h3"), ("b", "h4")),
    ]
    (run,) = repository.hook_runs()
    assert [(each.file, each.hook, each.status.value) for each in run.hooks][2:4] == [
        ("_sparklake/hooks/b.yml", "h0", "passed"),
        ("_sparklake/hooks/b.yml", "h1", "failed"),
    ]


def test_a_broken_file_refuses_until_it_is_mended(repository: Repository) -> None:
    main = repository.branch("main")
    dev = repository.create_branch("dev", "main")
    commit_all(dev, {"u": b"1"}, "change")
    commit_all(main, {FILE: b"on: [", "_sparklake/hooks/b.yaml": declared("pre-commit")}, "broken")
    for verb in (
        lambda: repository.merge("dev", "main"),
        lambda: repository.create_tag("v1", "main"),
        lambda: commit_all(main, {"t/a": b"2"}, "another"),
        lambda: commit_all(main, {FILE: b"on: ["}, "as broken"),
    ):
        with refused(repository, f"{FILE}: line 1: ", InvalidHooksError):
            verb()
    assert CALLS == []
    # The file as it is mended guards the commit that mends it, and so do the others.
    main.put(FILE, declared("pre-commit", function="fail"))
    with pytest.raises(HookFailedError, match="main is not fit"):
        main.commit("mend")
    commit_all(main, {FILE: declared("pre-commit")}, "mend")
    assert [each.action for each in CALLS] == ["b", "guard", "b", "guard"]
    repository.merge("dev", "main")


def test_events_that_only_lakefs_has(repository: Repository) -> None:
    main = repository.branch("main")
    commit_all(main, {FILE: declared("prepare-commit", "pre-commit")}, "a file of lakeFS")
    with refused(repository, "'prepare-commit'.*hooks_skip", InvalidHooksError):
        commit_all(main, {"t/a": b"2"}, "another")
    skipping = replace(HERE, skip=("prepare-commit",))
    object.__setattr__(repository._context.move_guard, "settings", skipping)
    commit_all(main, {"t/a": b"2"}, "another")
    assert [each.event.name.value for each in CALLS] == ["pre-commit"]


def test_a_broken_file_may_be_deleted_or_be_lost(repository: Repository, folder: Path) -> None:
    main = repository.branch("main")
    put = main.put(FILE, declared("pre-commit", function="fail"))
    main.commit("guard")
    Path(put.address.removeprefix("file://")).unlink()
    repository._context.move_guard.declarations.clear()
    with refused(repository, "it cannot be read", InvalidHooksError):
        commit_all(main, {"t/a": b"2"}, "another")
    commit_all(main, {FILE: None}, "mend")
    assert not main.is_dirty


def test_a_file_too_large_is_broken(repository: Repository) -> None:
    main = repository.branch("main")
    commit_all(main, {FILE: b"#" * 100_000}, "large")
    with refused(repository, "more than 65536 bytes", InvalidHooksError):
        commit_all(main, {"t/a": b"2"}, "another")


TAGGED = b"on: {pre-commit: }\nhooks: !!bool x"


def test_no_verb_is_locked_by_a_file_that_cannot_be_read(repository: Repository) -> None:
    """Each verb is refused by name, and each that repairs the file is possible."""
    main = repository.branch("main")
    dev = repository.create_branch("dev", "main")
    change = commit_all(dev, {"u": b"1"}, "change")
    repository.create_tag("v1", "main")
    mended = commit_all(
        repository.create_branch("mended", "main"), {FILE: declared("pre-commit")}, "mend"
    )
    broken = commit_all(main, {FILE: TAGGED}, "broken")
    for verb in (
        lambda: commit_all(main, {"t/a": b"2"}, "another"),
        lambda: repository.merge("dev", "main"),
        lambda: main.cherry_pick(change.id),
        lambda: main.revert("main~1", strategy="dest-wins"),
        lambda: repository.create_branch("new", "dev"),
        lambda: repository.delete_branch("dev"),
        lambda: repository.create_tag("v2", "dev"),
        lambda: repository.delete_tag("v1"),
    ):
        with refused(repository, f"{FILE}: line 2: 'x' is not a valid bool", InvalidHooksError):
            verb()
        main.reset()
    for verb in (
        lambda: commit_all(main, {FILE: None}, "delete"),
        lambda: commit_all(main, {FILE: declared("pre-commit")}, "mend"),
        lambda: main.revert("main"),
        lambda: main.cherry_pick(mended.id, strategy="source-wins"),
        lambda: repository.merge("mended", "main", "source-wins"),
    ):
        main.hard_reset(broken.id)
        verb()
        repository.create_branch("new", "main")
        repository.delete_branch("new")


def test_several_broken_files_are_named_and_mended_at_once(repository: Repository) -> None:
    main = repository.branch("main")
    names = [f"_sparklake/hooks/{number}.yaml" for number in range(5)]
    commit_all(main, dict.fromkeys(names, TAGGED), "broken")
    with refused(repository, r"/0\.yaml.*/1\.yaml.*/2\.yaml.*2 more", InvalidHooksError):
        commit_all(main, {"t/a": b"2"}, "another")
    commit_all(main, dict.fromkeys(names), "mend")


@pytest.mark.parametrize("address", ["gs://bucket/x", "s3://", "{folder}"])
def test_a_file_at_an_address_that_cannot_be_read_may_be_deleted(
    repository: Repository, folder: Path, address: str
) -> None:
    """Data of lakeFS may name any address."""
    main, context = repository.branch("main"), repository._context
    found = ObjectInfo(FILE, 1, "x", 0, address.format(folder=folder.as_uri()))
    record = object_record(found, context.info.storage_namespace)
    context.refs.staging.put("main", [record], fence=None)
    main.commit("guard")
    with refused(repository, f"{FILE}: it cannot be read: ", InvalidHooksError):
        commit_all(main, {"t/a": b"2"}, "another")
    commit_all(main, {FILE: None}, "mend")


def test_a_hook_may_say_any_text(repository: Repository) -> None:
    guard(repository, declared("pre-commit", function="babble"))
    with pytest.raises(HookFailedError):
        commit_all(repository.branch("main"), {"t/a": b"2"}, "change")
    assert (
        repository.hook_runs()[0].hooks[0].output == "ValueError: \N{REPLACEMENT CHARACTER}\\ud800"
    )


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        (python("note"), "'python:tests.support.hook_functions:note' to hooks_allow"),
        ("type: shell, properties: {command: [touch, x]}", "'shell:touch' to hooks_allow"),
        ("type: lua, properties: {script: x}", "'lua' to hooks_skip"),
        ("type: airflow", "only lakeFS runs"),
    ],
)
def test_what_is_not_allowed_here_refuses(
    repository: Repository, ref_store: RefStore, hook: str, words: str
) -> None:
    guard(repository, hook_file("  pre-commit:\n  post-merge:\n", hook))
    careful = reopened(repository, ref_store)
    main = careful.branch("main")
    with refused(careful, words, HookNotAllowedError):
        commit_all(main, {"t/a": b"2"}, "change")
    assert CALLS == []
    kind = hook.split()[1].strip(",")
    passing = reopened(repository, ref_store, skip=(kind,))
    passing.branch("main").commit("change")
    assert passing.hook_runs(1)[0].status is HookStatus.SKIPPED
    assert CALLS == []


@pytest.mark.parametrize(
    ("allow", "is_allowed"),
    [
        (("python",), True),
        (("python:tests.**",), True),
        (("python:tests.support.hook_functions:note",), True),
        (("python:tests",), False),
        (("python:tests.*",), False),
        (("shell", "python:checks.**"), False),
    ],
)
def test_types_are_allowed_with_patterns(
    repository: Repository, ref_store: RefStore, allow: tuple[str, ...], is_allowed: bool
) -> None:
    guard(repository, declared("pre-commit"))
    careful = reopened(repository, ref_store, allow=allow).branch("main")
    if not is_allowed:
        with pytest.raises(HookNotAllowedError):
            commit_all(careful, {"t/a": b"2"}, "change")
    else:
        commit_all(careful, {"t/a": b"2"}, "change")
    assert len(CALLS) == is_allowed


# --- after ----------------------------------------------------------------------------------------


def test_what_fails_after_is_recorded_and_undoes_nothing(
    repository: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    guard(repository, declared("post-commit", function="fail"))
    with caplog.at_level(logging.WARNING, "sparklake.hooks"):
        made = commit_all(repository.branch("main"), {"t/a": b"2"}, "change")
    assert repository.resolve("main") == made
    assert "main is not fit" in caplog.text
    (run,) = repository.hook_runs()
    assert (run.event, run.status, run.commit_id) == ("post-commit", HookStatus.FAILED, made.id)


def test_hooks_after_are_not_run_where_nothing_has_moved(repository: Repository) -> None:
    dev = repository.create_branch("dev", "main")
    commit_all(dev, {"t/a": b"dev"}, "dev")
    guard(repository, {FILE: declared("pre-merge", "post-merge", "post-commit"), "t/a": b"main"})
    with pytest.raises(MergeConflictError):
        repository.merge("dev", "main")
    with pytest.raises(NoChangesError):
        repository.branch("main").commit("nothing")
    with pytest.raises(RefNotFoundError):
        repository.delete_branch("none")
    assert called() == []


def test_a_post_hook_that_loses_a_race_of_its_own_repeats_nothing(repository: Repository) -> None:
    guard(repository, hook_file("  post-commit:\n", python("act")))

    def lose(_: object) -> None:
        raise RaceLostError("of its own")

    DOING.append(lose)
    before = repository.resolve("main")
    made = commit_all(repository.branch("main"), {"t/a": b"2"}, "change")
    assert made.parents == (before.id,)
    assert len(CALLS) == 1


# --- all types, end to end ------------------------------------------------------------------------


def test_webhooks_and_commands_are_told_of_a_merge(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_TOKEN", "s3cret")
    told = tmp_path / "told"
    with hook_server() as server:
        guard(
            repository,
            hook_file(
                "  pre-merge:\n",
                webhook(f"{server.url}/200"),
                f"type: shell, properties: {{command: [cp, /dev/stdin, '{told}']}}",
                webhook(f"{server.url}/echo"),
            ),
        )
        dev = repository.create_branch("dev", "main")
        source = commit_all(dev, {"t/a": b"2"}, "change")
        with refused(repository, r"status 403"):
            repository.merge("dev", "main", message="Join", metadata={"k": "v"})
        (_, headers, body), _ = server.posted
    assert headers["Authorization"] == "s3cret"
    assert body["event_type"] == "pre-merge"
    assert body["repository_id"] == repository.name
    assert (body["branch_id"], body["source_ref"]) == ("main", source.id)
    assert (body["commit_message"], body["committer"]) == ("Join", TESTER)
    assert body["commit_metadata"]["k"] == "v"
    assert body["head"] == repository.resolve("main").id
    assert f'"run_id": "{body["run_id"]}"' in told.read_text()
    run = repository.hook_run(body["run_id"])
    assert [each.status.value for each in run.hooks] == ["passed", "passed", "failed"]
    assert run.hooks[2].output == "*** at /echo\nstatus 403"
    assert "s3cret" not in repr(run)


def test_runs_are_found(repository: Repository) -> None:
    guard(repository, declared("pre-commit"))
    made = commit_all(repository.branch("main"), {"t/a": b"2"}, "change")
    (run,) = repository.hook_runs(ref="main")
    assert repository.hook_run(run.id) == run
    assert (run.who, run.commit_id, run.hooks[0].output) == (TESTER, made.id, "noted h0")
    assert repository.hook_runs(ref="dev") == []
    with pytest.raises(NotFoundError, match="hooks runs"):
        repository.hook_run("0" * 32)


# --- cost -----------------------------------------------------------------------------------------


def test_without_hooks_nothing_is_read_for_them(repository: Repository) -> None:
    main = repository.branch("main")
    with mock.patch.object(range_files, "read_ranges") as read:
        commit_all(main, {"t/a": b"2"}, "change")
        repository.create_branch("dev", "main")
        commit_all(repository.branch("dev"), {"a": b"1"}, "change")
    assert read.call_count == 0
    assert repository.hook_runs() == []


def test_files_of_hooks_are_read_once(repository: Repository) -> None:
    guard(repository, declared("pre-merge"))
    main = repository.branch("main")
    commit_all(main, {"u": b"0"}, "change")
    with mock.patch.object(range_files, "read_ranges", wraps=range_files.read_ranges) as read:
        repository.create_tag("v1", "main")
        repository.create_tag("v2", "main")
        repository.delete_tag("v1")
    assert read.call_count <= 2
