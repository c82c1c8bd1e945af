"""What a write means for older files holds for what is there when it lands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from campaigns.faults import table_writes
from sparklake import Repository
from sparklake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    RefStoreUnavailableError,
    WriteFinishedError,
)
from sparklake.graveler.ports import Write, WriteState
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import contents, memory_lake
from sparklake.verbs.tables import write as writes
from sparklake.verbs.tables.write_request import TableWrite, WriteMode
from tests.support.lakes import stage_sizes
from tests.support.recorded_reads import recorded_states

TABLE = "tables/x"
FOLDER = f"{TABLE}/"


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return memory_lake().create_repository("lake", str(tmp_path / "namespace"))


def write(
    repo: Repository,
    names: str | Iterable[str],
    mode: WriteMode,
    partition_by: tuple[str, ...] = (),
    then: Callable[[], object] = lambda: None,
) -> TableWrite:
    files = [f"part-{names}"] if isinstance(names, str) else list(names)
    return table_writes.write(repo, "main", TABLE, files, mode, partition_by, then)


def files_of(repo: Repository) -> list[str]:
    return [each.path.removeprefix(FOLDER) for each in repo.objects("main", FOLDER)]


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let something happen between a write's look at the table and its landing."""
    landed = writes.stage_batches

    def once(*arguments: Any, **options: Any) -> None:
        monkeypatch.setattr(writes, "stage_batches", landed)
        act()
        landed(*arguments, **options)

    monkeypatch.setattr(writes, "stage_batches", once)


def states(repo: Repository) -> list[WriteState]:
    return [each.state for each in repo._context.refs.writes.list()]


@pytest.mark.parametrize(
    ("mode", "states"),
    [
        (WriteMode.APPEND, 1),
        (WriteMode.IGNORE, 2),
        (WriteMode.OVERWRITE, 2),
        (WriteMode.OVERWRITE_PARTITIONS, 2),
    ],
)
def test_a_write_reads_each_state_of_its_branch_once(
    repo: Repository, mode: WriteMode, states: int
) -> None:
    """The steps before Spark share one state, and those after the seal another."""
    if not mode.is_first:
        write(repo, ["p=1/part-0"], WriteMode.APPEND, ("p",))
    with recorded_states() as reads:
        write(repo, ["p=1/part-1"], mode, ("p",))
    assert len(reads) == states


def test_of_two_overwrites_one_is_left(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    write(repo, "old", WriteMode.APPEND)
    meanwhile(monkeypatch, lambda: write(repo, "bob", WriteMode.OVERWRITE))
    write(repo, "alice", WriteMode.OVERWRITE)
    assert files_of(repo) == ["part-alice"]
    assert states(repo) == []


def test_an_overwrite_sees_what_was_committed_meanwhile(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit() -> None:
        write(repo, "bob", WriteMode.APPEND)
        repo.branch("main").commit("bob's")

    meanwhile(monkeypatch, commit)
    write(repo, "alice", WriteMode.OVERWRITE)
    assert files_of(repo) == ["part-alice"]


def test_of_two_first_writes_one_is_refused(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, lambda: write(repo, "bob", WriteMode.ERROR_IF_EXISTS))
    with pytest.raises(AlreadyExistsError):
        write(repo, "alice", WriteMode.ERROR_IF_EXISTS)
    assert files_of(repo) == ["part-bob"]
    assert states(repo) == [WriteState.ABANDONED]


def test_a_first_write_that_comes_second_may_be_passed_over(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, lambda: write(repo, "bob", WriteMode.APPEND))
    assert write(repo, "alice", WriteMode.IGNORE) == TableWrite(TABLE, 0, 0)
    assert write(repo, "carol", WriteMode.IGNORE) == TableWrite(TABLE, 0, 0)
    assert files_of(repo) == ["part-bob"]
    assert states(repo) == [WriteState.ABANDONED]


def test_appends_both_land(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(monkeypatch, lambda: write(repo, "bob", WriteMode.APPEND))
    write(repo, "alice", WriteMode.APPEND)
    assert files_of(repo) == ["part-alice", "part-bob"]


def test_what_is_not_committed_is_not_staged(repo: Repository) -> None:
    left = [
        "_temporary/0/task_1/part-1",
        ".part-1.crc",
        "p=1/.part-1.crc",
        ".spark-staging-1/p=1/x",
    ]
    write(repo, ["part-1", "p=_temporary/_x", "_SUCCESS", *left], WriteMode.APPEND)
    assert files_of(repo) == ["_SUCCESS", "p=_temporary/_x", "part-1"]


# --- the register ---------------------------------------------------------------------------------


def test_a_write_that_fails_is_abandoned(repo: Repository) -> None:
    def fail() -> None:
        assert states(repo) == [WriteState.OPEN]
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        write(repo, "one", WriteMode.APPEND, then=fail)
    (left,) = repo.writes()
    assert (left.state, left.branch, left.who) == (WriteState.ABANDONED, "main", "tester")
    store = repo._context.store
    assert [each.key for each in store.list("data/")] == [f"{left.place}/part-one"]
    assert not repo.branch("main").is_dirty


def test_a_write_that_was_abandoned_stages_nothing(repo: Repository) -> None:
    def abandon() -> Write:
        (found,) = repo.writes()
        return repo.abandon_write(found.id)

    with pytest.raises(WriteFinishedError, match="is finished"):
        write(repo, "one", WriteMode.APPEND, then=abandon)
    assert not repo.branch("main").is_dirty
    assert abandon().state is WriteState.ABANDONED


def test_what_cannot_be_abandoned(repo: Repository) -> None:
    with pytest.raises(NotFoundError, match="sparklake writes"):
        repo.abandon_write("nothing")
    known: list[Write] = []
    write(repo, "one", WriteMode.APPEND, then=lambda: known.extend(repo.writes()))
    assert repo.writes() == []
    with pytest.raises(WriteFinishedError, match="its files are already staged"):
        repo.abandon_write(known[0].id)


@pytest.mark.parametrize("lost_before", [True, False])
def test_a_landing_whose_answer_is_lost_is_no_failure(
    repo: Repository, monkeypatch: pytest.MonkeyPatch, lost_before: bool
) -> None:
    staging = type(repo._context.refs.staging)
    add_run = staging.add_run

    def lose(*arguments: Any, **options: Any) -> None:
        if not lost_before:
            add_run(*arguments, **options)
        raise RefStoreUnavailableError("the connection is lost")

    monkeypatch.setattr(staging, "add_run", lose)
    if lost_before:
        with pytest.raises(RefStoreUnavailableError):
            write(repo, "one", WriteMode.APPEND)
        assert (files_of(repo), states(repo)) == ([], [WriteState.ABANDONED])
    else:
        assert write(repo, "one", WriteMode.APPEND).files == 1
        assert (files_of(repo), states(repo)) == (["part-one"], [])


# --- a model --------------------------------------------------------------------------------------

VALUES = ["1", "2", "a b", "a%20b", "é%3D", "%C3%A9%3d", "a%2Fb", "__HIVE_DEFAULT_PARTITION__"]
NAMES = st.sampled_from(
    [f"p={value}/q={other}/f{number}" for value in VALUES for other in VALUES for number in (1, 2)]
)
OLD = NAMES | st.sampled_from(["_SUCCESS", "p=1", "p=1/f", "p=1/q=2/sub/f", "p=1/q=2x/f"])


def left(old: set[str], new: set[str], mode: WriteMode, depth: int) -> set[str]:
    if mode is WriteMode.APPEND:
        return old
    if mode is WriteMode.OVERWRITE:
        return set()
    parts = {partition(each, depth) for each in new if each != "_SUCCESS"}
    return {each for each in old if each.count("/") < depth or partition(each, depth) not in parts}


def partition(name: str, depth: int) -> tuple[str, ...]:
    return tuple(map(unquote, name.split("/")[:depth]))


def test_an_overwrite_finds_partitions_in_any_spelling(repo: Repository) -> None:
    """Pyarrow escapes a space and 'é', which Spark leaves."""
    write(repo, ["p=a%20%C3%A9%3D/old", "p=a%2520/old"], WriteMode.APPEND, ("p",))
    write(repo, ["p=a é%3D/new"], WriteMode.OVERWRITE_PARTITIONS, ("p",))
    assert files_of(repo) == ["p=a é%3D/new", "p=a%2520/old"]


def test_an_overwrite_warns_of_equal_numbers_in_other_directories(
    repo: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    """As Spark's own writer, it replaces directories by their names."""
    old = ["m=01/d=1/old", "m=1/d=1/old", "m=1/d=02/old", "m=10/d=1/old", "m=01/d=a/old"]
    write(repo, old, WriteMode.APPEND, ("m", "d"))
    write(repo, ["m=1/d=1/new", "m=1/d=0a/new"], WriteMode.OVERWRITE_PARTITIONS, ("m", "d"))
    assert files_of(repo) == sorted([*set(old) - {"m=1/d=1/old"}, "m=1/d=1/new", "m=1/d=0a/new"])
    (warning,) = [each.getMessage() for each in caplog.records]
    assert "tables/x/ keeps m=01/d=1/, which Spark reads as partitions" in warning
    caplog.clear()
    write(repo, ["m=10/d=1/new"], WriteMode.OVERWRITE_PARTITIONS, ("m", "d"))
    assert not caplog.records


def joins_others(old: set[str], mode: WriteMode, partition_by: tuple[str, ...]) -> bool:
    """Return whether new files would join some that are partitioned otherwise."""
    first = next((each for each in sorted(old) if each != "_SUCCESS"), None)
    if mode is WriteMode.OVERWRITE or first is None:
        return False
    folders = first.split("/")[:-1]
    return [each.partition("=")[0] for each in folders if "=" in each] != list(partition_by)


@pytest.mark.system
@settings(max_examples=60)
@given(
    st.sets(OLD),
    st.sets(NAMES),
    st.sampled_from([WriteMode.APPEND, WriteMode.OVERWRITE, WriteMode.OVERWRITE_PARTITIONS]),
    st.sampled_from([("p",), ("p", "q")]),
)
def test_what_is_left_is_what_the_mode_says(
    old: set[str], new: set[str], mode: WriteMode, partition_by: tuple[str, ...]
) -> None:
    with memory_folder() as folder:
        repo = memory_lake().create_repository("lake", str(folder / "namespace"))
        beside = {f"{TABLE}-beside/p=1/q=1/f1": 1, "tables/y": 1}
        stage_sizes(repo.branch("main"), {**beside, **{FOLDER + each: 1 for each in old}})
        repo.branch("main").commit("old")
        if joins_others(old, mode, partition_by):
            with pytest.raises(InvalidInputError, match="with the same partition_by"):
                write(repo, new | {"_SUCCESS"}, mode, partition_by)
            assert set(files_of(repo)) == old
            return
        done = write(repo, new | {"_SUCCESS"}, mode, partition_by)
        assert done.files == len(new) + 1
        expected = left(old, new, mode, len(partition_by)) | new | {"_SUCCESS"}
        assert set(files_of(repo)) == expected
        assert all(each in {one.path for one in repo.objects("main")} for each in beside)


def test_what_was_written_can_be_read(repo: Repository) -> None:
    names = [f"p=é %3D/part-{number}" for number in range(20)]
    write(repo, names, WriteMode.APPEND, ("p",))
    assert contents(repo, "main") == {f"{FOLDER}{each}": each.encode() for each in names}
