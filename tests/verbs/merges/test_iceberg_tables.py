"""Unreadable Iceberg tables that both sides changed are a conflict, whatever their file names."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparklake import Branch, Repository
from sparklake.errors import MergeConflictError
from sparklake.testing.lakes import contents, memory_lake

TABLE = "tables/x"
CONFLICT = r"Iceberg table 'tables/x' cannot be merged: its metadata is damaged"


@pytest.fixture(params=[2, 1_000], ids=["small ranges", "one range"])
def repo(request: pytest.FixtureRequest, tmp_path: Path) -> Repository:
    lake = memory_lake()
    return lake.create_repository("lake", str(tmp_path / "namespace"), range_records=request.param)


@pytest.fixture
def sides(repo: Repository) -> tuple[Branch, Branch]:
    main = repo.branch("main")
    main.put_many({f"{folder}/{number}": b"x" for folder in ("a", "z") for number in range(9)})
    commit(main, "00000-a")
    return repo.create_branch("dev", "main"), main


def commit(branch: Branch, version: str) -> str:
    """Commit to the table as an engine does: a data file and metadata, of names of their own."""
    names = (f"data/{version}.parquet", f"metadata/{version}.metadata.json")
    hint = {f"{TABLE}/metadata/version-hint.text": version.encode()}
    bodies = {f"{TABLE}/{name}": f"{branch.name} {version}".encode() for name in names}
    branch.put_many(bodies | hint)
    return branch.commit(version).id


@pytest.mark.parametrize("strategy", [None, "source-wins", "dest-wins"])
@pytest.mark.parametrize(
    ("ours", "theirs"), [("00001-b", "00001-c"), ("00001-b", "00002-c"), ("v2", "v2")]
)
def test_both_sides_committed(
    repo: Repository, sides: tuple[Branch, Branch], ours: str, theirs: str, strategy: str | None
) -> None:
    dev, main = sides
    commit(dev, ours)
    commit(main, theirs)
    with pytest.raises(MergeConflictError, match=CONFLICT):
        repo.merge("dev", "main", strategy=strategy)
    assert repo.preview_merge("dev", "main", strategy=strategy).conflicts
    # As the error says: the table of one side, whole.
    dev.restore("main", [f"{TABLE}/"])
    dev.put("z/9", b"x")
    dev.commit("the table of main")
    before = contents(repo, "main")
    repo.merge("dev", "main")
    assert contents(repo, "main") == before | {"z/9": b"x"}


def test_one_side_committed(repo: Repository, sides: tuple[Branch, Branch]) -> None:
    dev, main = sides
    commit(dev, "00001-b")
    main.put("z/9", b"x")
    main.commit("another path")
    repo.merge("dev", "main")
    assert repo.read_bytes("main", f"{TABLE}/metadata/version-hint.text") == b"00001-b"


def test_a_revert_below_later_commits(repo: Repository, sides: tuple[Branch, Branch]) -> None:
    _, main = sides
    reverted = commit(main, "00001-b")
    commit(main, "00002-c")
    with pytest.raises(MergeConflictError, match=CONFLICT):
        main.revert(reverted)


def test_a_delta_table_with_metadata_of_iceberg(
    repo: Repository, sides: tuple[Branch, Branch]
) -> None:
    dev, main = sides
    main.put(f"{TABLE}/_delta_log/00000000000000000000.json", b"")
    main.commit("a log")
    repo.merge("main", "dev")
    dev.put(f"{TABLE}/metadata/00001-b.metadata.json", b"b")
    dev.commit("one")
    main.put(f"{TABLE}/metadata/00002-b.metadata.json", b"b")
    main.commit("other")
    repo.merge("dev", "main")
