"""Tables that lost rows to a merge of two formats, before such a merge was a conflict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from campaigns.iceberg.branch_tables import TABLE, BranchTable
from sparklake import Repository
from sparklake.rows.findings import Finding, FindingKind
from sparklake.testing.lakes import commit_all, memory_lake
from sparklake.verbs.merges import table_unions
from tests.support.written_tables import WrittenTable, add, created, remove


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Return a repository with plain files, merged without regard to formats."""
    monkeypatch.setattr(table_unions, "replaced_table", lambda *_: None)
    namespace = str(tmp_path / "namespace")
    repo = memory_lake().create_repository("lake", namespace, range_records=4)
    commit_all(repo.branch("main"), {f"{TABLE}/a.parquet": b"1", "z": b"1"}, "plain files")
    repo.create_branch("dev", "main")
    return repo


def to_delta(repo: Repository, _: Path) -> None:
    table = WrittenTable(repo, "main")
    table.change(*created("t"), add("a.parquet"))
    table.commit()
    table.change(remove("a.parquet"), add("c.parquet"))
    table.checkpoint()
    table.commit()
    repo.branch("main").put(f"{TABLE}/failed.parquet", b"a leftover of a failed write")
    repo.branch("main").commit("leftover")


def to_iceberg(repo: Repository, folder: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()))
    table = BranchTable(repo, folder / "t", schema)
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    table.commit(repo.branch("main"), lambda each: each.append(rows))
    table.commit(repo.branch("main"), lambda each: each.overwrite(rows))


def append(repo: Repository, branch: str, name: str = "b.parquet") -> str:
    return commit_all(repo.branch(branch), {f"{TABLE}/{name}": name.encode()}, "append").id


def harmed(repo: Repository) -> list[Finding]:
    report = repo.check("content")
    kinds = {FindingKind.TREE_FILE_UNREFERENCED, FindingKind.OBJECT_YOUNG}
    assert set(report.kinds) <= {FindingKind.TABLE_LACKS_FILES, *kinds}
    return [each for each in report.findings if each.kind is FindingKind.TABLE_LACKS_FILES]


MIGRATIONS = [to_delta, to_iceberg]
migrations = pytest.mark.parametrize("migrate", MIGRATIONS)


@pytest.mark.parametrize("way", ["into the table", "into plain files", "squash", "cherry-pick"])
@migrations
def test_a_harmed_table_is_reported(
    repo: Repository, tmp_path: Path, migrate: Callable[[Repository, Path], None], way: str
) -> None:
    migrate(repo, tmp_path)
    append(repo, "dev", "day=1/b.parquet")
    assert harmed(repo) == []
    source, dest = ("main", "dev") if way == "into plain files" else ("dev", "main")
    if way == "cherry-pick":
        repo.branch("main").cherry_pick("dev")
    else:
        repo.merge(source, dest, squash=way == "squash")
    commit_all(repo.branch(dest), {f"{TABLE}/later.parquet": b"1", "z": b"2"}, "later")
    (finding,) = harmed(repo)
    lost = f"{TABLE}/day=1/b.parquet"
    assert (finding.subject, finding.first_path, finding.last_path) == (TABLE, lost, lost)
    assert finding.detail == "'day=1/b.parquet'"
    assert finding.branches == (dest,)
    assert "append" in finding.remedy
    # As the remedy says.
    repo.branch(dest).delete(lost)
    repo.branch(dest).commit("written with the table's format instead")
    assert harmed(repo) == []


def test_a_file_that_the_log_has_since(repo: Repository, tmp_path: Path) -> None:
    to_delta(repo, tmp_path)
    append(repo, "dev")
    repo.merge("dev", "main")
    assert harmed(repo)
    table = WrittenTable(repo, "main")
    table.change(add("b.parquet"), body=b"b.parquet")
    table.change(remove("b.parquet"))
    table.commit()
    assert harmed(repo) == []


@migrations
def test_files_that_a_migration_left(
    repo: Repository, tmp_path: Path, migrate: Callable[[Repository, Path], None]
) -> None:
    append(repo, "main", "before.parquet")
    migrate(repo, tmp_path)
    append(repo, "main", "after.parquet")
    repo.merge("main", "dev")
    assert harmed(repo) == []
    assert "table_lacks_files" not in repo.check("objects").kinds


def test_unreadable_checkpoints_are_reported(repo: Repository, tmp_path: Path) -> None:
    to_delta(repo, tmp_path)
    assert repo.check("content").is_healthy
    checkpoint = next(
        each.path for each in repo.objects("main", TABLE) if "checkpoint" in each.path
    )
    for body in (b"", b"PAR1 cut off"):
        commit_all(repo.branch("main"), {checkpoint: body}, "a broken checkpoint")
        kind = FindingKind.CHECKPOINT_UNREADABLE
        (finding,) = (each for each in repo.check("content").findings if each.kind is kind)
        assert (finding.subject, finding.first_path) == (TABLE, checkpoint)
    # As the remedy says.
    repo.branch("main").delete(checkpoint)
    repo.branch("main").commit("no checkpoint")
    assert repo.check("content").is_healthy
