"""Edits of Iceberg tables, with an engine that writes by hand. No Spark is needed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from campaigns.faults.table_writes import edit_iceberg
from sparklake import Repository
from sparklake.errors import InvalidInputError, SparklakeError, TableChangedError
from sparklake.testing.lakes import memory_lake
from sparklake.verbs.iceberg.tree_table import open_iceberg
from sparklake.verbs.tables.version import open_table
from tests.support.iceberg import HandTable

TABLE = "tables/t"


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return memory_lake().create_repository("lake", str(tmp_path / "namespace"))


@pytest.fixture
def table(repo: Repository, tmp_path: Path) -> HandTable:
    table = HandTable(tmp_path / "t", 2)
    table.commit(table.data("a", 1, 2, 3), table.data("b", 4, 5))
    table.write(properties={"write.data.path": table.location, "gc.enabled": "true"})
    repo.branch("main").import_objects(str(table.folder), TABLE)
    return table


@contextmanager
def edited(repo: Repository, table: HandTable, **options: Any) -> Iterator[HandTable]:
    """Yield the table in its private copy."""
    with edit_iceberg(repo, "main", TABLE, **options) as (place, _):
        yield table.continued(Path(repo.info.storage_namespace.removeprefix("file://")) / place)


def run(repo: Repository, table: HandTable, *edits: Callable[[HandTable], object]) -> None:
    with edited(repo, table) as copy:
        for edit in edits:
            edit(copy)


def append(copy: HandTable, name: str, *ids: int) -> None:
    document = json.loads((copy.folder / "metadata/v1.metadata.json").read_text())
    copy.commit(copy.data(name, *ids), properties=document["properties"])


def files(repo: Repository, ref: str = "main") -> dict[str, int]:
    """Return the rows of each live file by key."""
    iceberg = open_iceberg(open_table(repo._context, ref, TABLE))
    assert iceberg is not None
    live = iceberg.live_files()
    return {iceberg.path(each.file.path): each.file.records for each in live}


def current(repo: Repository, ref: str = "main") -> dict[str, Any]:
    iceberg = open_iceberg(open_table(repo._context, ref, TABLE))
    assert iceberg is not None
    document: dict[str, Any] = json.loads(repo.open(ref, iceberg.name).read())
    return document


def test_new_files_are_staged_and_nothing_is_copied(repo: Repository, table: HandTable) -> None:
    before, main = current(repo), repo.branch("main")
    with edited(repo, table) as copy:
        private = json.loads((copy.folder / "metadata/v1.metadata.json").read_text())
        assert private["properties"] == {"gc.enabled": "false"}
        append(copy, "c", 6)
        (copy.folder / "data" / "of-a-failed-task").write_text("leftover")
        main_files = files(repo)
    assert files(repo) == {**main_files, f"{TABLE}/data/c": 1}
    assert files(repo, "main@") == main_files
    assert {each.path for each in repo.objects("main$", TABLE)} == {
        f"{TABLE}/{each}"
        for each in (
            "data/c",
            "metadata/2-m0.avro",
            "metadata/snap-2.avro",
            "metadata/v3.metadata.json",
        )
    }
    after = current(repo)
    assert after["location"] == before["location"]
    assert after["properties"] == before["properties"]
    assert [each["metadata-file"] for each in after["metadata-log"]] == [
        repo.stat("main", f"{TABLE}/metadata/v2.metadata.json").address
    ]
    assert repo.stat("main", f"{TABLE}/data/a").address.startswith(table.location)
    assert repo.writes() == []
    main.commit("edit")
    again = table.continued(table.folder)
    again.snapshots, again._manifests = copy.snapshots, copy._manifests
    with edited(repo, again) as second:
        append(second, "d", 7, 8)
    assert files(repo) == {**main_files, f"{TABLE}/data/c": 1, f"{TABLE}/data/d": 2}
    main.reset()
    assert files(repo) == {**main_files, f"{TABLE}/data/c": 1}


def test_names_of_catalogs_go_on(repo: Repository, table: HandTable) -> None:
    name = f"{TABLE}/metadata/00007-abc.metadata.json"
    main = repo.branch("main")
    main.copy(f"{TABLE}/metadata/v2.metadata.json", name)
    main.remove_many([f"{TABLE}/metadata/v{each}.metadata.json" for each in (1, 2)])
    with edited(repo, table) as copy:
        append(copy, "c", 6)
    (new,) = repo.objects("main", f"{TABLE}/metadata/00008-")
    assert new.path.endswith(".metadata.json")


def test_nothing_is_staged_after_an_error_or_without_a_commit(
    repo: Repository, table: HandTable
) -> None:
    before = files(repo)
    with pytest.raises(FileExistsError):
        run(repo, table, lambda copy: append(copy, "c", 6), lambda copy: copy.folder.mkdir())
    run(repo, table)
    assert files(repo) == before
    assert not repo.branch("main").is_dirty
    assert [each.state.value for each in repo.writes()] == ["abandoned", "abandoned"]


def test_concurrent_edits(repo: Repository, table: HandTable) -> None:
    def concurrent(_: HandTable) -> None:
        run(repo, table, lambda copy: append(copy, "d", 7))

    with pytest.raises(TableChangedError, match="others committed"):
        run(repo, table, lambda copy: append(copy, "c", 6), concurrent)
    assert [each.rpartition("/")[2] for each in files(repo)] == ["a", "b", "d"]


def test_a_key_is_used_once(repo: Repository, table: HandTable) -> None:
    for _ in range(2):
        with edit_iceberg(repo, "main", TABLE, "monday") as (place, name):
            folder = Path(repo.info.storage_namespace.removeprefix("file://")) / place
            append(table.continued(folder), "c", 6)
    assert name.repeated
    assert [each.rpartition("/")[2] for each in files(repo)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("words", "edit"),
    [
        ("its copy was dropped", lambda copy: shutil.rmtree(copy.folder)),
        ("outside of its location", lambda copy: copy.commit(copy.data("c", 6, file_path="/x/c"))),
        (
            "the ref has no object 'tables/t/data/zz'",
            lambda copy: copy.commit(copy.data("c", 6, file_path=f"{copy.home}/data/zz")),
        ),
        ("name-mapping", lambda copy: copy.write(properties={"schema.name-mapping.default": "[]"})),
    ],
)
def test_refused_edits(repo: Repository, table: HandTable, words: str, edit: Any) -> None:
    before = files(repo)

    def prepare(copy: HandTable) -> None:
        copy.home = table.location
        copy.snapshots.append({**copy.snapshots[0], "snapshot-id": 2})

    with pytest.raises(SparklakeError, match=words):
        run(repo, table, prepare, edit)
    assert files(repo) == before
    assert not repo.branch("main").is_dirty


def refused(repo: Repository, words: str, path: str = TABLE) -> None:
    with pytest.raises(InvalidInputError, match=words), edit_iceberg(repo, "main", path):
        pass


def test_refused_tables(repo: Repository, table: HandTable, tmp_path: Path) -> None:
    main = repo.branch("main")
    refused(repo, "has no Iceberg table at 'tables/u'", "tables/u")
    shutil.copytree(table.folder, tmp_path / "copied")
    main.import_objects(str(tmp_path / "copied"), "tables/copied")
    refused(repo, "export the table, and import the export", "tables/copied")
    main.put(f"{TABLE}/README", b"of the table")
    with edit_iceberg(repo, "main", TABLE):
        pass
    main.delete(f"{TABLE}/data/a")
    refused(repo, "the ref has no object 'tables/t/data/a'")
    main.put(f"{TABLE}/data/a", (table.folder / "data/a").read_bytes())
    refused(repo, r"data/a', and the ref's object is")


def test_refused_locations(repo: Repository, table: HandTable) -> None:
    home = repo.info.storage_namespace.rpartition("/")[0]
    table.write(location=home)
    repo.branch("main").import_objects(str(table.folder), TABLE)
    refused(repo, "contains the storage namespace")
