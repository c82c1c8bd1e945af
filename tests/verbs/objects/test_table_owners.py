"""Files staged inside tables with metadata: verbs for objects warn, once per table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from sparklake import Branch, Repository
from sparklake.testing.lakes import memory_lake

DELTA = "_delta_log/0000000000000000000"
ICEBERG = "metadata/v"
Stage = Callable[[Branch, Path, list[str]], object]


@pytest.fixture(params=[4, 1_000], ids=["small ranges", "one range"])
def repo(request: pytest.FixtureRequest, tmp_path: Path) -> Repository:
    namespace = str(tmp_path / "namespace")
    repo = memory_lake().create_repository("lake", namespace, range_records=request.param)
    branch = repo.branch("main")
    branch.put_many({f"{folder}/{number}": b"x" for folder in "az" for number in range(5)})
    branch.put_many({"new/day=1/b.parquet": b"1", "new/_SUCCESS": b"1", "new/day=2/.crc": b"1"})
    branch.put_many({f"new/{DELTA}1.json": b"{}", f"new/{ICEBERG}2.metadata.json": b"{}"})
    branch.commit("files for other folders")
    branch.put_many({"t/_delta_log/_last_checkpoint": b"", f"t/{DELTA}0.json": b"{}"})
    branch.put_many({f"u/{ICEBERG}1.metadata.json": b"{}", "plain/a.parquet": b"1"})
    branch.commit("tables")
    return repo


def name_of(path: str) -> str:
    return f"new/{path.partition('/')[2]}"


def put(branch: Branch, _: Path, paths: list[str]) -> None:
    for path in paths:
        branch.put(path, b"1")


def put_file(branch: Branch, folder: Path, paths: list[str]) -> None:
    for path in paths:
        (folder / "file").write_bytes(b"1")
        branch.put_file(path, folder / "file")


def put_many(branch: Branch, _: Path, paths: list[str]) -> None:
    branch.put_many(dict.fromkeys(paths, b"1"))


def put_folder(branch: Branch, folder: Path, paths: list[str]) -> None:
    for path in paths:
        file = folder / "folder" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"1")
    branch.put_folder("", folder / "folder")


def copy_many(branch: Branch, _: Path, paths: list[str]) -> None:
    branch.copy_many([(name_of(each), each) for each in paths])


def copy(branch: Branch, _: Path, paths: list[str]) -> None:
    for path in paths:
        branch.copy(name_of(path), path)


def move(branch: Branch, _: Path, paths: list[str]) -> None:
    for path in paths:
        branch.move(name_of(path), path)


def stage(branch: Branch, folder: Path, paths: list[str]) -> None:
    branch.stage(_rows(folder, paths))


def import_objects(branch: Branch, folder: Path, paths: list[str]) -> None:
    (prefix,) = {each.partition("/")[0] for each in paths}
    branch.import_objects(_rows(folder, [each.partition("/")[2] for each in paths]), prefix)


def _rows(folder: Path, paths: list[str]) -> pa.Table:
    (folder / "object").write_bytes(b"1")
    address = f"file://{folder}/object"
    rows = [{"path": each, "size": 1, "address": address} for each in sorted(paths)]
    return pa.Table.from_pylist(rows)


VERBS: list[Stage] = [
    *(put, put_file, put_many, put_folder, copy_many, copy, move, stage, import_objects)
]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("table", "kind"), [("t", "Delta"), ("u", "Iceberg")])
def test_a_file_in_a_table_is_a_warning(
    repo: Repository,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    verb: Stage,
    table: str,
    kind: str,
) -> None:
    main = repo.branch("main")
    verb(main, tmp_path, ["plain/day=1/b.parquet"])
    assert caplog.messages == []
    if verb is not import_objects:
        main.reset()
    verb(main, tmp_path, [f"{table}/day=1/b.parquet"])
    (message,) = caplog.messages
    assert f"staged in '{table}/day=1/' are inside the {kind} table {table!r} of 'main'" in message
    assert f"with the format {kind.lower()!r}" in message
    put(main, tmp_path, [f"{table}/day=1/c.parquet"])
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("verb", [put_many, put_folder, copy_many, stage, import_objects])
@pytest.mark.parametrize(
    "paths",
    [
        ["t/day=1/b.parquet", f"t/{DELTA}1.json"],
        ["u/day=1/b.parquet", f"u/{ICEBERG}2.metadata.json"],
        ["t/_SUCCESS", "t/day=2/.crc", f"t/{DELTA}1.json"],
        ["u/_SUCCESS", "u/day=2/.crc"],
    ],
)
def test_the_files_of_a_table_are_none(
    repo: Repository,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    verb: Stage,
    paths: list[str],
) -> None:
    verb(repo.branch("main"), tmp_path, paths)
    assert caplog.messages == []


def test_a_restore(repo: Repository, caplog: pytest.LogCaptureFixture) -> None:
    main = repo.branch("main")
    repo.create_branch("dev", "main")
    dev = repo.branch("dev")
    dev.put_many({"t/day=1/b.parquet": b"1", f"t/{DELTA}1.json": b"{}"})
    dev.commit("append")
    main.restore("dev", ["t/"])
    assert caplog.messages == []
    main.restore("dev", ["t/day=1/"])
    assert "inside the Delta table 't' of 'main'" in caplog.messages[0]
    main.restore("main@", ["t/"])
    assert len(caplog.messages) == 1
