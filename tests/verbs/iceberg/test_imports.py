"""Imports of a table by its metadata: what it references, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparklake import Repository
from sparklake.errors import InvalidInputError, SparklakeError
from sparklake.testing.lakes import memory_lake
from tests.support.iceberg import HandTable

TABLE = "tables/t"


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return memory_lake().create_repository("lake", str(tmp_path / "namespace"))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_metadata_file(repo: Repository, tmp_path: Path, version: int) -> None:
    table = HandTable(tmp_path / "t", version)
    table.commit(table.data("a", 1, 2))
    statistics = [{"statistics-path": f"{table.location}/metadata/s.puffin"}]
    (table.folder / "metadata/s.puffin").write_bytes(b"PFA1")
    table.commit(table.data("b", 3), statistics=statistics)
    table.data("of-a-failed-task", 4)
    old, place = (
        table.folder / "metadata/v2.metadata.json",
        table.folder / "metadata/v3.metadata.json",
    )
    main = repo.branch("main")
    main.import_objects(str(old), TABLE)
    names = {each.path.removeprefix(f"{TABLE}/") for each in repo.objects("main", TABLE)}
    assert names == {"data/a", "metadata/1-m0.avro", "metadata/snap-1.avro", f"metadata/{old.name}"}
    main.import_objects(str(place), TABLE)
    added = {"data/b", "metadata/2-m0.avro", "metadata/snap-2.avro", "metadata/s.puffin"}
    objects = {each.path.removeprefix(f"{TABLE}/"): each for each in repo.objects("main", TABLE)}
    assert set(objects) == {*names, *added, f"metadata/{place.name}"} - {f"metadata/{old.name}"}
    assert objects["data/a"].address == f"{table.location}/data/a"
    assert objects["data/a"].size == (table.folder / "data/a").stat().st_size


def test_refused_tables(repo: Repository, tmp_path: Path) -> None:
    main, table = repo.branch("main"), HandTable(tmp_path / "t", 2)
    place = str(table.folder / "metadata/v2.metadata.json")
    table.commit(table.data("a", 1, file_path=f"file://{tmp_path}/u/a"))
    with pytest.raises(InvalidInputError, match=r"cannot be imported: its file .* is outside of"):
        main.import_objects(place, TABLE)
    table.write(location=repo.info.storage_namespace)
    with pytest.raises(InvalidInputError, match="overlaps the storage namespace"):
        main.import_objects(place, TABLE)
    gone = HandTable(tmp_path / "u", 2)
    gone.commit(gone.data("a", 1))
    (gone.folder / "data/a").unlink()
    with pytest.raises(SparklakeError, match="data/a"):
        main.import_objects(str(gone.folder / "metadata/v2.metadata.json"), TABLE)
    assert list(repo.objects("main")) == []
