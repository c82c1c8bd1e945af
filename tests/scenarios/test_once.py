"""Runs of verbs with idempotency keys: repeated, with other arguments, concurrent, and killed."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from threading import Barrier
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from benchmarks.counting import counted_trips
from sparklake import (
    ImportReport,
    Inventory,
    Lake,
    Once,
    Repository,
    Strategy,
    VerbResult,
    run_verb,
)
from sparklake.config import OnceSettings
from sparklake.errors import (
    IdempotencyKeyInUseError,
    IdempotencyKeyReusedError,
    InvalidInputError,
    NoChangesError,
    RefStoreUnavailableError,
)
from sparklake.graveler.ports import BranchMove, WriteState
from sparklake.testing.lakes import postgres_lake, stage_table
from sparklake.verbs.base.once import digest_of, normalised
from tests.support.crashes import CrashError, dies_at
from tests.support.once_verbs import VERBS, Rows, effects, fill, new_stage, writes_without_spark

GOLDEN = "861e23fcf1ca81472f5e02597b16b4c0b54284d518e46a3220115dcfccb7d15b"


@pytest.fixture
def filled(repo: Repository, folder: Path) -> Repository:
    fill(repo, folder)
    return repo


@pytest.fixture
def postgres_repo(lake: Lake, folder: Path) -> Repository:
    made = lake.create_repository(f"once-{uuid4().hex}", str(folder / "ns"), range_records=4)
    fill(made, folder)
    return made


def expected(repo: Repository, folder: Path, name: str) -> dict[str, object]:
    """Return the effects of a verb without a key."""
    twin = new_stage(repo, folder, VERBS[name])
    VERBS[name].act(twin, None)  # type: ignore[arg-type]
    return effects(twin)


@pytest.mark.parametrize("name", VERBS)
def test_a_repeated_run_changes_nothing_and_returns_the_first_result(
    filled: Repository, folder: Path, name: str
) -> None:
    verb, wanted = VERBS[name], expected(filled, folder, name)
    stage = new_stage(filled, folder, verb)
    first = verb.act(stage, Once("a key"))
    assert (first.repeated, effects(stage)) == (False, wanted)
    assert verb.act(stage, Once("a key")) == replace(first, repeated=True)
    assert effects(stage) == wanted


@pytest.mark.parametrize("name", VERBS)
def test_a_key_with_other_arguments_is_refused(filled: Repository, folder: Path, name: str) -> None:
    verb = VERBS[name]
    stage = new_stage(filled, folder, verb)
    verb.act(stage, Once("a key"))
    before = effects(stage)
    with pytest.raises(IdempotencyKeyReusedError, match="'a key'"):
        verb.other(stage, Once("a key"))
    with pytest.raises(IdempotencyKeyReusedError):
        filled.create_tag("another-verb", "main", once="a key")
    assert effects(stage) == before
    verb.act(stage, Once("a key"))
    assert effects(stage) == before


@pytest.mark.parametrize("name", VERBS)
def test_of_two_runs_at_once_one_acts_and_both_return_its_result(
    postgres_repo: Repository, dsn: str, folder: Path, name: str
) -> None:
    verb, wanted = VERBS[name], expected(postgres_repo, folder, name)
    stage, barrier = new_stage(postgres_repo, folder, verb), Barrier(2)
    key = Once("a key")

    with ExitStack() as lakes, ThreadPoolExecutor(2) as pool:
        repos = [
            lakes.enter_context(postgres_lake(dsn)).repository(stage.repo.name) for _ in range(2)
        ]

        def run(number: int) -> VerbResult[Any]:
            barrier.wait()
            return verb.act(stage.on(repos[number]), key)

        one, other = pool.map(run, range(2))
    assert one.value == other.value
    assert sorted(each.repeated for each in (one, other)) == [False, True]
    assert effects(stage) == wanted


def with_terms(repo: Repository, **terms: float) -> Repository:
    """Return a repository opened with other settings for keys."""
    return Repository(replace(repo._context, once_terms=OnceSettings(**terms)))


def test_a_key_whose_run_goes_on_is_busy_after_the_wait(filled: Repository) -> None:
    main = with_terms(filled, wait_seconds=0.01).branch("main")
    with filled._context.refs.once_keys.turn("a key", 1):
        with pytest.raises(IdempotencyKeyInUseError, match="'a key'"):
            main.put("a", b"1", once="a key")
        assert not main.is_dirty
    made = main.put("a", b"1", once="a key")
    # A run that has recorded its key, and has not ended.
    with filled._context.refs.once_keys.turn("a key", 1):
        assert main.put("a", b"1", once="a key") == made


def test_without_its_turn_a_second_run_still_takes_no_effect(
    filled: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock of the key is lost, as with a connection, and both runs act."""
    main = filled.branch("main")
    put = type(filled._context.refs.staging).put
    runs = list[VerbResult[Any]]()

    def overtaken(*given: Any, **named: Any) -> None:
        monkeypatch.undo()
        lost = with_terms(filled, wait_seconds=0.01)
        keys = type(filled._context.refs.once_keys)
        with monkeypatch.context() as patch:
            patch.setattr(keys, "turn", lambda *_: nullcontext(True))
            runs.append(run_verb(lost.branch("main").put, "a", b"1", once="a key"))
        put(*given, **named)

    monkeypatch.setattr(type(filled._context.refs.staging), "put", overtaken)
    second = run_verb(main.put, "a", b"1", once="a key")
    (first,) = runs
    assert (first.repeated, second.repeated) == (False, True)
    assert filled.stat("main", "a") == second.value
    assert first.stored == second.stored


def test_a_run_that_finds_its_work_done_returns_the_result(
    filled: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both runs have lost the lock. The second one reads the branch when the first has ended."""
    keys, runs = type(filled._context.refs.once_keys), list[VerbResult[Any]]()
    find = keys.find

    def overtaken(store: Any, key: str) -> object:
        monkeypatch.setattr(keys, "find", find)
        found = find(store, key)
        runs.append(run_verb(filled.merge, "dev", "main", once="a key"))
        return found

    monkeypatch.setattr(keys, "turn", lambda *_: nullcontext(True))
    monkeypatch.setattr(keys, "find", overtaken)
    second = run_verb(filled.merge, "dev", "main", once="a key")
    assert [each.repeated for each in (*runs, second)] == [False, True]
    assert filled.branch("main").head == second.value


def test_a_fifo_is_not_read(filled: Repository, folder: Path) -> None:
    os.mkfifo(folder / "fifo")
    with pytest.raises(InvalidInputError, match="is not a file"):
        filled.branch("main").put_file("a", folder / "fifo", once="a key")


@pytest.mark.both_stores
def test_a_lost_answer_is_found_by_the_same_run(
    filled: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = filled.branch("main")
    branches = type(filled._context.refs.branches)
    move = branches.move

    def losing(store: Any, wanted: BranchMove) -> None:
        move(store, wanted)
        raise RefStoreUnavailableError("the connection was lost")

    with monkeypatch.context() as patch:
        patch.setattr(branches, "move", losing)
        made = run_verb(main.commit, "empty", allow_empty=True, once="a key")
        assert not made.repeated
        with pytest.raises(RefStoreUnavailableError):
            main.commit("empty", allow_empty=True)
    assert [each.message for each in filled.log("main")][:3] == ["empty", "empty", "on main"]
    assert main.commit("empty", allow_empty=True, once="a key") == made.value


def test_a_run_that_a_collection_overtakes_takes_effect_once(
    filled: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging, runs = type(filled._context.refs.staging), list[str]()
    put = staging.put

    def overtaken(*given: Any, **named: Any) -> None:
        runs.append(named["once"].run)
        if len(runs) == 1:
            filled.collect_garbage(grace=timedelta())
        put(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(staging, "put", overtaken)
        made = filled.branch("main").put("a", b"1", once="a key")
    assert len(runs) == 2
    assert len(set(runs)) == 1
    recorded = filled._context.refs.once_keys.find("a key")
    assert recorded is not None
    assert recorded.result["address"] == made.address == filled.stat("main", "a").address


@pytest.mark.both_stores
def test_an_expired_key_acts_again(filled: Repository) -> None:
    brief = with_terms(filled, days=1e-12).branch("main")
    for _ in range(2):
        assert not run_verb(brief.commit, "empty", allow_empty=True, once="a key").repeated
    assert [each.message for each in filled.log("main")][:3] == ["empty", "empty", "on main"]


def test_a_failed_run_is_not_recorded(filled: Repository) -> None:
    main = filled.branch("main")
    with pytest.raises(NoChangesError):
        main.commit("changes", once="a key")
    main.put("a", b"1")
    made = run_verb(main.commit, "changes", once="a key")
    assert not made.repeated
    assert main.commit("changes", once="a key") == made.value


@pytest.mark.both_stores
def test_a_run_without_a_change_is_recorded(filled: Repository) -> None:
    main = filled.branch("main")
    assert main.remove_many(["late"], once="remove") == 0
    assert main.delete_prefix("late", once="prefix") == 0
    head = main.commit("changes", if_needed=True, once="commit")
    assert head == main.head
    main.put("late", b"1")
    assert main.remove_many(["late"], once="remove") == 0
    assert main.delete_prefix("late", once="prefix") == 0
    assert main.commit("changes", if_needed=True, once="commit") == head
    assert main.is_dirty
    assert filled.read_bytes("main", "late") == b"1"


def test_a_run_that_may_have_nothing_to_do_reports_whether_it_had(filled: Repository) -> None:
    main = filled.branch("main")
    main.put("a", b"1")
    acted = run_verb(main.commit, "changes", if_needed=True, once="acted")
    idle = run_verb(main.commit, "changes", if_needed=True, once="idle")
    assert acted.value == idle.value
    assert (acted.changed, idle.changed) == (True, False)
    main.put("b", b"2")
    for key, changed in (("acted", True), ("idle", False)):
        again = run_verb(main.commit, "changes", if_needed=True, once=key)
        assert again.value == acted.value
        assert (again.repeated, again.changed) == (True, changed)
    assert main.is_dirty


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb", "\x1b[0m", "\udc80", 7])
def test_a_key_is_short_printable_text(filled: Repository, key: Any) -> None:
    with pytest.raises(InvalidInputError):
        filled.branch("main").put("a", b"1", once=key)
    with pytest.raises(InvalidInputError, match=r"once|idempotency key"):
        filled.branch("main").put("a", b"1", once=Once(key))
    assert not filled.branch("main").is_dirty


def test_a_later_version_computes_the_same_digest(filled: Repository) -> None:
    arguments = {"source": "dev", "metadata": {"a": "b"}, "expires": timedelta(hours=1)}
    assert digest_of("merge", "", Once("a key"), arguments) == GOLDEN
    # A parameter that it adds has its default.
    main = filled.branch("main")
    made = main.commit("empty", None, None, True, once="a key")
    assert main.commit(message="empty", allow_empty=True, paths=None, once="a key") == made


def test_arguments_are_normalised() -> None:
    assert normalised({"b": (1, Path("x")), "a": {"z", "y"}}) == {"b": [1, "x"], "a": ["y", "z"]}
    assert normalised(Strategy.SOURCE_WINS) == "source-wins"
    assert normalised(timedelta(days=1)) == 86_400.0
    assert normalised(b"secret") == {"sha256": sha256(b"secret").hexdigest()}
    assert normalised(effects) == {"name": "tests.support.once_verbs:effects"}
    assert normalised(iter([1])) == normalised(object()) == {"stream": True}
    inventory = Inventory("s3://bucket/manifest.json")
    assert normalised(inventory)["manifest"] == "s3://bucket/manifest.json"


def test_inputs_are_compared_like_arguments(filled: Repository) -> None:
    main = filled.branch("main")
    main.put("a", b"1", once=Once("a key", ["s3://one"]))
    with pytest.raises(IdempotencyKeyReusedError):
        main.put("a", b"1", once=Once("a key", ["s3://two"]))
    main.put("a", b"1", once=Once("a key", ["s3://one"]))


def test_nothing_of_the_arguments_is_stored(postgres_repo: Repository, dsn: str) -> None:
    rows: Any = Rows()
    with writes_without_spark():
        postgres_repo.branch("main").write(rows, "t", once="a key", password="s3cret")
    with psycopg.connect(dsn) as connection:
        found = connection.execute("SELECT once_keys::text FROM sparklake.once_keys").fetchall()
    assert len([row for (row,) in found if "a key" in row]) >= 1
    assert "s3cret" not in str(found)


def test_verbs_without_a_key_send_no_more_statements(postgres_repo: Repository) -> None:
    main = postgres_repo.branch("main")
    main.put("a", b"0")
    with counted_trips() as plain:
        main.put("a", b"1")
    assert not [each for each in plain if "once" in each]
    with counted_trips() as keyed:
        main.put("a", b"2", once="a key")
    assert len(keyed) - len(plain) == 6
    with counted_trips() as commit:
        main.commit("changes")
    assert not [each for each in commit if "once" in each]
    with counted_trips() as repeated:
        main.put("a", b"2", once="a key")
    assert len(repeated) == 3


def test_a_run_abandons_the_open_write_of_a_killed_one(filled: Repository) -> None:
    main, rows = filled.branch("main"), Rows()
    refs = filled._context.refs
    with (
        writes_without_spark(),
        dies_at(0, type(refs.staging), ["add_run"]),
        dies_at(0, type(refs.writes), ["abandon"]),
        pytest.raises(CrashError),
    ):
        main.write(rows, "t", once="a key")  # type: ignore[arg-type]
    (dead,) = filled.writes()
    assert dead.state is WriteState.OPEN
    main.put("other", b"1", once="another key")
    with writes_without_spark():
        main.write(rows, "t", once="a key")  # type: ignore[arg-type]
    assert [each.state for each in filled.writes()] == [WriteState.ABANDONED]
    assert [each.path[:7] for each in filled.objects("main", "t/")] == ["t/part-"]


def test_an_import_repeats_the_errors_of_a_killed_one(filled: Repository, folder: Path) -> None:
    main, errors_to = filled.branch("main"), folder / "errors"
    rows = stage_table(
        [{"path": path, "size": 3, "address": f"file://{folder}/files/one"} for path in "aab"]
    )

    def run() -> ImportReport:
        terms: dict[str, Any] = {"on_error": "skip", "errors_to": str(errors_to)}
        return main.import_objects(rows, "in/", once="a key", **terms)

    with dies_at(0, type(filled._context.refs.branches), ["move"]), pytest.raises(CrashError):
        run()
    assert len(list(errors_to.glob("part-*"))) == 1
    (errors_to / "part-00001-0123456789abcdef0123456789abcdef.parquet").write_bytes(b"of the dead")
    report = run()
    assert (report.objects, report.skipped) == (2, 1)
    assert len(list(errors_to.glob("part-*"))) == 1
    again = run()
    assert (again.commit, again.counts, again.errors) == (
        report.commit,
        report.counts,
        report.errors,
    )
    with pytest.raises(InvalidInputError, match="not empty"):
        main.import_objects(rows, "in/", once="another key", errors_to=str(errors_to))
