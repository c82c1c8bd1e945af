"""Merges, reverts and cherry-picks whose conflicts are decided: by name, by path, by functions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sparklake import Branch, Commit, MergeConflictError, Repository
from sparklake.errors import InvalidInputError, StrategyError
from sparklake.graveler.commits import STRATEGY_METADATA_KEY
from sparklake.strategies import CONFLICT_SCHEMA, Both, Objects, choosing
from sparklake.testing.lakes import commit_all, contents, memory_lake
from tests.support import strategies

if TYPE_CHECKING:
    import pyarrow as pa

Contents = Mapping[str, bytes | None]

HERE = "tests.support.strategies"

BASE: Contents = {"a.csv": b"1\n", "b.csv": b"1\n2\n", "gone": b"x", "kept": b"k"}
SOURCE: Contents = {"a.csv": b"1\ns\n", "b.csv": b"2\n3\n", "gone": None, "new": b"source"}
DEST: Contents = {
    "a.csv": b"1\nd\n",
    "b.csv": b"1\n2\n4\n",
    "gone": b"xx",
    "new": b"dest is longer",
}
IN_CONFLICT = ["a.csv", "b.csv", "gone", "new"]


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return memory_lake().create_repository("lake", str(tmp_path / "ns"), range_records=2)


@pytest.fixture
def main(repo: Repository) -> Branch:
    return parted(repo, BASE, SOURCE, DEST)


def parted(repo: Repository, base: Contents, source: Contents, dest: Contents) -> Branch:
    """Make main and dev, which part after a first commit; dest comes last."""
    main = repo.branch("main")
    commit_all(main, base, "base")
    commit_all(repo.create_branch("dev", "main"), source, "source")
    commit_all(main, dest, "dest")
    return main


def said(commit: Commit) -> str:
    return commit.metadata[STRATEGY_METADATA_KEY]


def check_refused(repo: Repository, kind: type[Exception], how: dict[str, Any], words: str) -> None:
    """Check that a merge is refused and moves nothing."""
    head, before = repo.branch("main").head, contents(repo, "main")
    with pytest.raises(kind, match=words):
        repo.merge("dev", "main", **how)
    assert repo.branch("main").head == head
    assert contents(repo, "main") == before


# --- by name, and by path -------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", [None, "none"])
def test_without_a_strategy_conflicts_stop_the_merge(
    repo: Repository, main: Branch, strategy: str | None
) -> None:
    with pytest.raises(MergeConflictError) as raised:
        repo.merge("dev", "main", strategy)
    assert [row.path for row in raised.value.conflicts] == IN_CONFLICT
    assert [row.path for row in repo.diff("main", "dev", three_way=True)] == IN_CONFLICT


def test_the_first_rule_that_fits_decides(repo: Repository, main: Branch) -> None:
    rules = [("a.*", "source-wins"), ("*.csv", "dest-wins"), ("a.csv", "none")]
    made = repo.merge("dev", "main", "source-wins", rules=rules)
    assert said(made) == "a.*=source-wins; *.csv=dest-wins; a.csv=none; else source-wins"
    assert contents(repo, "main") == {
        "a.csv": b"1\ns\n",
        "b.csv": b"1\n2\n4\n",
        "kept": b"k",
        "new": b"source",
    }


def test_what_no_rule_fits_is_left(repo: Repository, main: Branch) -> None:
    head = main.head
    with pytest.raises(MergeConflictError) as raised:
        repo.merge("dev", "main", rules={"*.csv": "source-wins"})
    assert [row.path for row in raised.value.conflicts] == ["gone", "new"]
    assert raised.value.count == 2
    (row, _) = raised.value.conflicts
    assert (row.base is None, row.source, row.dest is None) == (False, None, False)
    with pytest.raises(MergeConflictError) as raised:
        repo.merge("dev", "main", "dest-wins", rules={"a*": "none"})
    assert [row.path for row in raised.value.conflicts] == ["a.csv"]
    assert main.head == head


def test_a_rule_whose_conflicts_are_left_writes_no_table(repo: Repository, main: Branch) -> None:
    folder = Path(repo.info.storage_namespace.removeprefix("file://"))
    before = sorted(folder.rglob("*"))
    with pytest.raises(MergeConflictError):
        repo.merge("dev", "main", "source-wins", rules={"new": "none"})
    assert sorted(folder.rglob("*")) == before


def test_newest_wins(repo: Repository, main: Branch) -> None:
    assert said(repo.merge("dev", "main", "newest-wins")) == "newest-wins"
    assert contents(repo, "main") == {**BASE, **DEST}


def test_newest_wins_the_other_way_round(repo: Repository, main: Branch) -> None:
    repo.merge("main", "dev", "newest-wins")
    assert contents(repo, "dev") == {**BASE, **DEST}


def test_larger_wins_and_a_tie_stays(repo: Repository, main: Branch) -> None:
    with pytest.raises(MergeConflictError) as raised:
        repo.merge("dev", "main", "larger-wins")
    assert [row.path for row in raised.value.conflicts] == ["a.csv"]
    repo.merge("dev", "main", "larger-wins", rules={"a.csv": "source-wins"})
    assert contents(repo, "main") == {**BASE, **DEST, "a.csv": b"1\ns\n"}


def test_lines_are_united(repo: Repository, main: Branch) -> None:
    made = repo.merge("dev", "main", "newest-wins", rules={"*.csv": "union-lines"})
    assert said(made) == "*.csv=union-lines; else newest-wins"
    assert contents(repo, "main") == {**BASE, **DEST, "a.csv": b"1\nd\ns\n", "b.csv": b"2\n4\n3\n"}


def test_lines_of_a_deleted_object_are_not_united(repo: Repository, main: Branch) -> None:
    with pytest.raises(MergeConflictError) as raised:
        repo.merge("dev", "main", "union-lines")
    assert [row.path for row in raised.value.conflicts] == ["gone"]


def test_an_object_too_large_for_lines_is_named(
    repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparklake.strategies.built_in.MAX_BYTES", 5)
    rules = {"b.csv": "union-lines"}
    how = {"strategy": "dest-wins", "rules": rules}
    check_refused(repo, StrategyError, how, "'union-lines'.*'b.csv' has 6 bytes")


# --- both sides -----------------------------------------------------------------------------------


def test_both_are_kept(repo: Repository, main: Branch) -> None:
    made = repo.merge("dev", "main", "keep-both")
    assert said(made) == "keep-both"
    assert contents(repo, "main") == {
        **BASE,
        **DEST,
        "a.source.csv": b"1\ns\n",
        "b.source.csv": b"2\n3\n",
        "new.source": b"source",
    }
    assert main.head == made


def test_a_name_that_is_taken_gets_a_number(repo: Repository) -> None:
    taken = {"a.source.csv": b"other", "a.source-2.csv": b"other still", "b.source.csv": b"s"}
    parted(
        repo,
        {**taken, "a.csv": b"", "b.csv": b""},
        {"a.csv": b"s", "b.csv": b"s"},
        {"a.csv": b"d", "b.csv": b"d"},
    )
    repo.merge("dev", "main", "keep-both")
    assert contents(repo, "main") == {**taken, "a.csv": b"d", "a.source-3.csv": b"s", "b.csv": b"d"}


def test_two_that_want_one_name_both_get_one(repo: Repository) -> None:
    parted(repo, {"x": b""}, {"a": b"1", "b": b"2"}, {"a": b"3", "b": b"4"})

    def together(conflicts: pa.RecordBatch, objects: Objects) -> list[Both]:
        return [Both("all/of.them")] * conflicts.num_rows

    repo.merge("dev", "main", together)
    assert contents(repo, "main") == {
        "x": b"",
        "a": b"3",
        "b": b"4",
        "all/of.them": b"1",
        "all/of-2.them": b"2",
    }


def test_a_path_too_long_for_another_stays_in_conflict(repo: Repository) -> None:
    path = "x" * 1010
    parted(repo, {"x": b""}, {path: b"s"}, {path: b"d"})
    with pytest.raises(MergeConflictError):
        repo.merge("dev", "main", "keep-both")


def test_what_is_kept_survives_a_race(repo: Repository) -> None:
    """The branch moves between the tree and the swap, far from the conflict.

    The next attempt could take over the piece of the conflict, and would not hear what to keep.
    """
    others = {f"m/{number:02d}": b"m" for number in range(60)}
    parted(repo, {"a": b"a", **others}, {"a": b"source"}, {"a": b"dest"})
    moves = iter([{"z": b"z"}])

    def slow(conflicts: pa.RecordBatch, objects: Objects) -> list[Both]:
        for change in moves:
            thread = threading.Thread(target=commit_all, args=(repo.branch("main"), change, "z"))
            thread.start()
            thread.join()
        return [Both("n")] * conflicts.num_rows

    repo.merge("dev", "main", IN_PROCESS(slow))
    assert contents(repo, "main") == {"a": b"dest", **others, "n": b"source", "z": b"z"}


class IN_PROCESS:  # noqa: N801  (a wrapper that reads as a word)
    """Calls a function that cannot travel; a pickled copy would fail."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, conflicts: pa.RecordBatch, objects: Objects) -> Any:
        return self.function(conflicts, objects)

    def __reduce__(self) -> tuple[type, tuple[None]]:
        return IN_PROCESS, (None,)


# --- functions ------------------------------------------------------------------------------------


def test_a_function_by_name_reads_and_writes_objects(repo: Repository, main: Branch) -> None:
    made = repo.merge("dev", "main", f"{HERE}:joined", rules={"gone": "source-wins"})
    assert said(made) == f"gone=source-wins; else {HERE}:joined"
    assert contents(repo, "main") == {
        "a.csv": b"1\nd\n+1\ns\n",
        "b.csv": b"1\n2\n4\n+2\n3\n",
        "kept": b"k",
        "new": b"dest is longer+source",
    }
    joined = repo.stat("main", "new")
    assert joined.address.startswith(f"{repo.info.storage_namespace}/data/")
    assert (joined.metadata, joined.content_type) == ({"made": "joined"}, "text/plain")


def test_a_function_is_found_by_its_entry_point(
    repo: Repository, main: Branch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered = tmp_path / "offering-1.0.dist-info"
    offered.mkdir()
    (offered / "METADATA").write_text("Metadata-Version: 2.1\nName: offering\nVersion: 1.0\n")
    (offered / "entry_points.txt").write_text(f"[sparklake.strategies]\nours = {HERE}:sources\n")
    monkeypatch.syspath_prepend(tmp_path)
    choosing.entry_point_targets.cache_clear()
    try:
        assert said(repo.merge("dev", "main", rules={"**": "ours"})) == "**=ours; else none"
        assert contents(repo, "main") == {
            "a.csv": b"1\ns\n",
            "b.csv": b"2\n3\n",
            "kept": b"k",
            "new": b"source",
        }
    finally:
        choosing.entry_point_targets.cache_clear()


def test_a_function_decides_each_key(repo: Repository) -> None:
    base = {f"{take}/x": b"b" for take in ("base", "source", "dest", "delete")}
    source = dict.fromkeys(base, b"s")
    dest = dict.fromkeys(base, b"d")
    parted(repo, base, source, dest)
    made = repo.merge("dev", "main", strategies.as_named)
    assert said(made) == f"{HERE}:as_named"
    assert contents(repo, "main") == {"base/x": b"b", "source/x": b"s", "dest/x": b"d"}


def test_a_function_sees_entries_and_leaves_conflicts(repo: Repository, main: Branch) -> None:
    seen: list[pa.RecordBatch] = []

    def look(conflicts: pa.RecordBatch, objects: Objects) -> list[str]:
        seen.append(conflicts)
        return ["conflict"] * conflicts.num_rows

    with pytest.raises(MergeConflictError) as raised:
        repo.merge("dev", "main", IN_PROCESS(look))
    assert [row.path for row in raised.value.conflicts] == IN_CONFLICT
    (batch,) = seen
    assert batch.schema == CONFLICT_SCHEMA
    rows = batch.to_pylist()
    assert [row["path"] for row in rows] == IN_CONFLICT
    assert [row["key"] for row in rows] == [path.encode() for path in IN_CONFLICT]
    gone, new = rows[2:]
    assert gone["source"] is None
    assert new["base"] is None
    theirs = repo.stat("dev", "new")
    assert new["source"] == {
        "address": theirs.address,
        "size": 6,
        "checksum": theirs.checksum,
        "mtime": new["source"]["mtime"],
        "metadata": [],
        "content_type": theirs.content_type,
    }
    assert round(new["source"]["mtime"].timestamp() * 1e6) == theirs.mtime // 1000


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("failing", "'a.csv', 'b.csv', 'gone' and 1 more, failed: ValueError: no idea what to do"),
        ("short", "returned 3 decisions for 4 conflicts"),
        ("no_list", "failed: TypeError: it must return a list"),
        ("unknown", "called for 'a.csv', decided 'ours': it must be one of base, source"),
        ("number", "called for 'a.csv', decided 1"),
        ("under_itself", "called for 'a.csv', decided to keep both objects under one path"),
        ("outside", r"called for 'a.csv', decided to keep an object under '\.\./x'.*would leave"),
        ("too_much", "called for 'a.csv', wrote an invalid object.*at most 65536"),
    ],
)
def test_a_function_that_fails_is_named_and_moves_nothing(
    repo: Repository, main: Branch, name: str, words: str
) -> None:
    whole = f"'{HERE}:{name}', called for .*{words.removeprefix('called for ')}"
    check_refused(repo, StrategyError, {"strategy": f"{HERE}:{name}"}, whole)
    check_refused(repo, StrategyError, {"strategy": getattr(strategies, name)}, whole)
    folder = Path(repo.info.storage_namespace.removeprefix("file://")) / "_lakefs"
    before = sorted(folder.iterdir())
    check_refused(repo, StrategyError, {"rules": {"a.csv": f"{HERE}:{name}"}}, name)
    assert sorted(folder.iterdir()) == before


def test_a_side_that_is_gone_cannot_be_kept(repo: Repository) -> None:
    parted(repo, {"a": b"1"}, {"a": None}, {"a": b"2"})

    def both(conflicts: pa.RecordBatch, objects: Objects) -> list[Both]:
        return [Both("b")]

    check_refused(repo, StrategyError, {"strategy": both}, "'a', decided to keep both, but one")


LOCK = threading.Lock()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (
            {"strategy": "ours"},
            "'ours' is not a merge strategy: choose source-wins, dest-wins, new",
        ),
        ({"strategy": 3}, "3 is not a merge strategy"),
        ({"strategy": "no.such:thing"}, "'no.such:thing' cannot be imported: ModuleNotFound"),
        ({"strategy": f"{HERE}:nothing"}, "cannot be imported: AttributeError"),
        ({"strategy": f"{HERE}:NOT_CALLABLE"}, "is not a function, but a int"),
        pytest.param(
            {"strategy": lambda conflicts, objects, lock=LOCK: []},
            "cannot be sent to tasks",
            id="a lambda with a lock",
        ),
        ({"rules": {"": "source-wins"}}, "an empty glob"),
        ({"rules": {"a**": "source-wins"}}, "must be between slashes"),
        ({"rules": {"a": "ours"}}, "'ours' is not a merge strategy"),
        ({"rules": ["a=source-wins"]}, "a rule must be a glob and a strategy"),
        ({"rules": {f"{number:0100}": "none" for number in range(200)}}, "fewer and wider globs"),
        ({"rules": {1: "none"}}, "a rule must be a glob and a strategy"),
    ],
    ids=lambda each: str(each)[:60],
)
def test_what_cannot_decide_is_refused_at_once(
    repo: Repository, main: Branch, how: dict[str, Any], words: str
) -> None:
    check_refused(repo, InvalidInputError, how, words)
    with pytest.raises(InvalidInputError, match=words):
        main.revert("main", **how)


# --- the other verbs ------------------------------------------------------------------------------


def test_a_revert_takes_rules(repo: Repository) -> None:
    main = repo.branch("main")
    for text in (b"1", b"2", b"3"):
        commit_all(main, {"a": text, "b": text}, text.decode())
    with pytest.raises(MergeConflictError, match=r"cannot revert .* 1 conflicting object"):
        main.revert("main~1", rules={"a": "source-wins"})
    main.revert("main~1", rules={"a": "source-wins"}, strategy="dest-wins")
    assert contents(repo, "main") == {"a": b"1", "b": b"3"}


def test_a_cherry_pick_keeps_both(repo: Repository, main: Branch) -> None:
    main.cherry_pick("dev", rules=[("*.csv", "keep-both")], strategy=strategies.sources)
    assert contents(repo, "main") == {
        "a.csv": b"1\nd\n",
        "a.source.csv": b"1\ns\n",
        "b.csv": b"1\n2\n4\n",
        "b.source.csv": b"2\n3\n",
        "kept": b"k",
        "new": b"source",
    }


def test_a_strategy_that_fails_undoes_all_of_a_replay(repo: Repository, main: Branch) -> None:
    head = main.head
    with pytest.raises(StrategyError, match="'gone'"):
        main.cherry_pick("dev", "dev", strategy="source-wins", rules={"g*": strategies.failing})
    assert main.head == head
