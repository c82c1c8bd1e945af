"""Merges of a table that one side replaced with one of another format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import permutations
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import convert_to_deltalake

from sparklake import Branch, Repository
from sparklake.errors import DirtyBranchError, MergeConflictError, TransactionError
from sparklake.testing.lakes import contents, memory_lake, put_all
from sparklake.verbs.merges import replaced_tables
from tests.support.delta import ids_of

TABLE = "tables/t"
LOG = "_delta_log/0000000000000000000"
FORMATS: dict[str, dict[str, bytes]] = {
    "plain files": {"a.orc": b"1", "day=1/b.csv": b"1", "day=2/c.parquet": b"1"},
    "Delta": {f"{LOG}0.json": b"{}", "day=1/d.parquet": b"1", "_delta_log/_last_checkpoint": b"1"},
    "Iceberg": {"metadata/v1.metadata.json": b"{}", "data/e.parquet": b"1"},
}
APPENDS: dict[str, dict[str, bytes]] = {
    "plain files": {"day=1/new.json": b"2"},
    "Delta": {f"{LOG}1.json": b"{}", "new.parquet": b"2"},
    "Iceberg": {"metadata/v2.metadata.json": b"{}", "data/new.parquet": b"2"},
}
PAIRS = list(permutations(FORMATS, 2))
HIDDEN = {"_SUCCESS": b"", "day=1/.b.csv.crc": b"1", "_temporary/0/task": b"1"}
WINNERS = {"source-wins": "dev", "dest-wins": "main"}
Files = Mapping[str, bytes | None]


@pytest.fixture(params=[2, 1_000], ids=["small ranges", "one range"])
def repo(request: pytest.FixtureRequest, tmp_path: Path) -> Repository:
    namespace = str(tmp_path / "namespace")
    repo = memory_lake().create_repository("lake", namespace, range_records=request.param)
    beside = {f"{folder}/{number}": b"x" for folder in ("a", "z") for number in range(9)}
    commit(repo.branch("main"), beside)
    return repo


def commit(branch: Branch, files: Files) -> str:
    put_all(branch, dict(files))
    return branch.commit("change").id


def below(files: Files) -> Files:
    return {f"{TABLE}/{name}": body for name, body in files.items()}


def replacement(old: str, new: str, *, keeps_files: bool = False) -> Files:
    """Return the change from one format to another. Plain files may stay, as in CONVERT."""
    old_names = {name for name in FORMATS[old] if not (keeps_files and is_data(name))}
    return below({**dict.fromkeys(old_names), **FORMATS[new]})


def is_data(name: str) -> bool:
    return "_delta_log" not in name and "metadata" not in name


def table_in(repo: Repository, ref: str) -> dict[str, bytes]:
    return {path: body for path, body in contents(repo, ref).items() if path.startswith(TABLE)}


def merge(repo: Repository, source: Files, dest: Files) -> None:
    diverge(repo, source, dest)
    repo.merge("dev", "main")


def merge_paths(repo: Repository, source: Files, dest: Files) -> None:
    diverge(repo, source, dest)
    repo.merge("dev", "main", paths=["tables/", "a/"])


def merge_one_by_one(repo: Repository, source: Files, dest: Files) -> None:
    diverge(repo, source, dest)
    repo.merge("dev", "main", paths=[*source])


def preview(repo: Repository, source: Files, dest: Files) -> None:
    diverge(repo, source, dest)
    preview = repo.preview_merge("dev", "main")
    assert preview.unresolved
    raise MergeConflictError(str(preview.conflicts[0].reason), [], 1)


def cherry_pick(repo: Repository, source: Files, dest: Files) -> None:
    diverge(repo, source, dest)
    repo.branch("main").cherry_pick("dev")


def rebase(repo: Repository, source: Files, dest: Files) -> None:
    diverge(repo, source, dest)
    repo.branch("dev").rebase("main")


def transaction(repo: Repository, source: Files, dest: Files) -> None:
    with repo.branch("main").transaction("x") as branch:
        put_all(branch, dict(source))
        commit(repo.branch("main"), dest)


VERBS = [merge, merge_paths, merge_one_by_one, preview, cherry_pick, rebase, transaction]


def diverge(repo: Repository, source: Files, dest: Files) -> None:
    commit(repo.create_branch("dev", "main"), source)
    commit(repo.branch("main"), dest)


@pytest.mark.parametrize(
    "verb", [merge, *(pytest.param(each, marks=pytest.mark.system) for each in VERBS[1:])]
)
@pytest.mark.parametrize("replaces", ["source", "dest"])
@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_a_replacement_and_a_change_are_a_conflict(
    repo: Repository,
    verb: Callable[[Repository, Files, Files], None],
    replaces: str,
    old: str,
    new: str,
) -> None:
    commit(repo.branch("main"), below(FORMATS[old]))
    changes = [replacement(old, new), below(APPENDS[old])]
    source, dest = changes if replaces == "source" else reversed(changes)
    with pytest.raises((MergeConflictError, TransactionError)) as error:
        verb(repo, source, dest)
    words, other = str(error.value), "dest" if replaces == "source" else "source"
    assert f"table {TABLE!r} cannot be merged" in words
    assert f"{replaces} changed it from {old} to {new}" in words
    assert f"{other} changed {min(APPENDS[old])!r}" in words
    assert ("only a part of it" in words) == (verb is merge_one_by_one and replaces == "source")


@pytest.mark.parametrize("keeps_files", [False, True])
@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_only_one_side_changed_the_table(
    repo: Repository, old: str, new: str, keeps_files: bool
) -> None:
    main = repo.branch("main")
    commit(main, below(FORMATS[old]))
    hidden = {} if old == "Delta" else below(HIDDEN)  # Delta's log names each of its files.
    beside = {**hidden, f"{TABLE}2/new.parquet": b"1", "tables/new.parquet": b"1"}
    diverge(repo, replacement(old, new, keeps_files=keeps_files), beside)
    expected = {**contents(repo, "dev"), **beside}
    repo.merge("dev", "main")
    assert contents(repo, "main") == expected
    repo.merge("main", "dev")
    assert contents(repo, "dev") == expected


@pytest.mark.parametrize(
    ("keeps_files", "by_rule"), [(False, True), pytest.param(True, False, marks=pytest.mark.system)]
)
@pytest.mark.parametrize("strategy", WINNERS)
@pytest.mark.parametrize("replaces", ["source", "dest"])
@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_a_strategy_takes_one_side_as_a_whole(
    repo: Repository,
    old: str,
    new: str,
    replaces: str,
    strategy: str,
    by_rule: bool,
    keeps_files: bool,
) -> None:
    commit(repo.branch("main"), below({**FORMATS[old], "_SUCCESS": b"1"}))
    changes = [
        replacement(old, new, keeps_files=keeps_files),
        {**below({**APPENDS[old], "_SUCCESS": b"2", min(FORMATS[old]): None})},
    ]
    source, dest = changes if replaces == "source" else reversed(changes)
    diverge(repo, source, {**dest, "a/1": b"y"})
    expected, before = table_in(repo, WINNERS[strategy]), contents(repo, "main")
    chosen = None if by_rule else strategy
    rules = {f"{TABLE}/**": strategy} if by_rule else None
    preview = repo.preview_merge("dev", "main", chosen, rules=rules)
    made = repo.merge("dev", "main", chosen, rules=rules)
    after = contents(repo, "main")
    assert table_in(repo, "main") == expected
    assert {**after, **before}.keys() - before.keys() == after.keys() - before.keys()
    assert after["a/1"] == b"y"
    assert made.metadata["sparklake.merge.winners"] == f"{TABLE}={strategy}"
    assert preview.table_winners == {TABLE: strategy}
    assert (preview.unresolved, preview.merged_tables) == (0, ())
    changed = {path for path in before.keys() & after.keys() if before[path] != after[path]}
    assert (preview.added, preview.removed, preview.changed) == (
        len(after.keys() - before.keys()),
        len(before.keys() - after.keys()),
        len(changed),
    )


def test_the_ways_out_of_the_conflict(repo: Repository) -> None:
    commit(repo.branch("main"), below(FORMATS["plain files"]))
    diverge(repo, replacement("plain files", "Delta"), below(APPENDS["plain files"]))
    words = r"choose a strategy, such as source-wins or dest-wins"
    with pytest.raises(MergeConflictError, match=words):
        repo.merge("dev", "main")
    with pytest.raises(MergeConflictError, match=words):
        repo.merge("dev", "main", rules={"**/*.json": "source-wins", "**": "dest-wins"})
    with pytest.raises(MergeConflictError, match="with `restore`"):
        repo.merge("dev", "main", strategy="source-wins", paths=[f"{TABLE}/_delta_log/"])
    dev = repo.branch("dev")
    dev.restore("main", [f"{TABLE}/"])
    dev.put("z/9", b"x")
    dev.commit("the table of main")
    expected = contents(repo, "dev")
    repo.merge("dev", "main")
    assert contents(repo, "main") == expected


def test_too_many_files_for_a_strategy(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaced_tables, "MAX_TAKEN", 2)
    commit(repo.branch("main"), below(FORMATS["plain files"]))
    diverge(repo, replacement("plain files", "Delta"), below(APPENDS["plain files"]))
    with pytest.raises(MergeConflictError, match=r"more than 2 changed files.*with `restore`"):
        repo.merge("dev", "main", strategy="source-wins")


@pytest.mark.parametrize(("old", "new"), [("plain files", "Delta"), ("plain files", "Iceberg")])
def test_rows_that_both_sides_removed(repo: Repository, old: str, new: str) -> None:
    """The replacement has them under other names, so the deletion of the other side is lost."""
    commit(repo.branch("main"), below(FORMATS[old]))
    diverge(repo, replacement(old, new), below({"day=1/b.csv": None}))
    with pytest.raises(MergeConflictError, match=r"dest changed 'day=1/b.csv' in it"):
        repo.merge("dev", "main")


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_both_sides_created_a_table(repo: Repository, one: str, other: str) -> None:
    diverge(repo, below(FORMATS[one]), below(FORMATS[other]))
    with pytest.raises(MergeConflictError, match=r"changed it from plain files to"):
        repo.merge("dev", "main")


@pytest.mark.parametrize(("old", "new"), [each for each in PAIRS if each[1] != "plain files"])
def test_both_sides_replaced_a_table(repo: Repository, old: str, new: str) -> None:
    """A union of two new tables would have each row of the old one twice."""
    commit(repo.branch("main"), below(FORMATS[old]))
    change = replacement(old, new)
    diverge(repo, change, {name: body and body + b" " for name, body in change.items()})
    with pytest.raises(
        MergeConflictError, match=f"source changed it from {old} to {new}, and dest"
    ):
        repo.merge("dev", "main")


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_staged_changes_count(repo: Repository, old: str, new: str) -> None:
    main = repo.branch("main")
    commit(main, below(FORMATS[old]))
    commit(repo.create_branch("dev", "main"), replacement(old, new))
    put_all(main, dict(below(APPENDS[old])))
    with pytest.raises(DirtyBranchError):
        repo.merge("dev", "main")


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_a_revert_of_the_replacement(repo: Repository, old: str, new: str) -> None:
    main = repo.branch("main")
    commit(main, below(FORMATS[old]))
    before = contents(repo, "main")
    replaced = commit(main, replacement(old, new))
    commit(main, {"z/9": b"y"})
    undone = repo.create_branch("undone", "main")
    undone.revert(replaced)
    assert contents(repo, "undone") == {**before, "z/9": b"y"}
    commit(main, below(APPENDS[new]))
    with pytest.raises(MergeConflictError, match=f"source changed it from {new} to {old}"):
        main.revert(replaced)


def test_bases_of_different_formats(repo: Repository) -> None:
    """Each side resolved the conflict in its own way, and neither way is the later one."""
    main = repo.branch("main")
    commit(main, below(FORMATS["plain files"]))
    diverge(repo, replacement("plain files", "Delta"), below(APPENDS["plain files"]))
    repo.create_branch("theirs", "dev")
    repo.merge("main", "theirs", strategy="dest-wins")
    repo.merge("dev", "main", strategy="dest-wins")
    with pytest.raises(MergeConflictError, match=f"table {TABLE!r} cannot be merged"):
        repo.merge("theirs", "main")


def test_rows_of_a_converted_table(repo: Repository, tmp_path: Path) -> None:
    def parquet(number: int) -> bytes:
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"id": pa.array([number], pa.int64())}), sink)
        return sink.getvalue().to_pybytes()

    main = repo.branch("main")
    commit(main, below({"a.parquet": parquet(1)}))
    (tmp_path / TABLE).mkdir(parents=True)
    (tmp_path / TABLE / "a.parquet").write_bytes(parquet(1))
    convert_to_deltalake(str(tmp_path / TABLE))
    log = (tmp_path / TABLE / f"{LOG}0.json").read_bytes()
    diverge(repo, below({f"{LOG}0.json": log}), below({"b.parquet": parquet(2)}))
    with pytest.raises(MergeConflictError, match=r"dest changed 'b.parquet' in it"):
        repo.merge("dev", "main")
    repo.merge("dev", "main", strategy="source-wins")
    assert ids_of(repo, "main", tmp_path / "read") == [1]
    assert f"{TABLE}/b.parquet" not in contents(repo, "main")
