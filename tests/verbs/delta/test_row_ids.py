"""Row ids of a merged table whose highest row id is in a checkpoint."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from tests.support.table_pairs import repository
from tests.support.written_tables import WrittenTable, add, created

DOMAIN = "delta.rowTracking"


def new(path: str, base: int, version: int) -> dict[str, Any]:
    ids = {"baseRowId": base, "defaultRowCommitVersion": version}
    return add(path, stats=json.dumps({"numRecords": 5}), **ids)


def domain(highest: int) -> dict[str, Any]:
    text = json.dumps({"rowIdHighWaterMark": highest})
    return {"domainMetadata": {"domain": DOMAIN, "configuration": text, "removed": False}}


def test_the_highest_row_id_is_found_in_a_checkpoint(folder: Path) -> None:
    repo = repository(folder, 100)
    main, dev = WrittenTable(repo, "main"), WrittenTable(repo, "dev")
    features = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["rowTracking"]}
    table = [{"protocol": features}, *created("t")[1:]]
    main.change(*table)
    main.change(new("f1", 0, 1), domain(4))
    rows = [*table, add("f1", baseRowId=0, defaultRowCommitVersion=1), domain(4)]
    rows[1]["metaData"].pop("configuration")
    for row in rows:
        row.get("metaData", {}).pop("format", None)
        row.get("add", {}).pop("partitionValues", None)
    body = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows, _schema(rows)), body)
    main.repository.branch("main").put(f"{main.log}{1:020}.checkpoint.parquet", body.getvalue())
    main.repository.branch("main").delete(f"{main.log}{0:020}.json")
    main.commit()
    repo.create_branch("dev", "main")
    main.change({"remove": {"path": "f1", "dataChange": True}})
    main.commit()
    dev.change(new("s", 5, 2), domain(9))
    dev.commit()
    repo.merge("dev", "main")
    ids = [main.last("s")[name] for name in ("baseRowId", "defaultRowCommitVersion")]
    assert ids == [5, 3]
    last = [json.loads(line) for line in main.bodies()[-1].splitlines()][-1]
    assert json.loads(last["domainMetadata"]["configuration"])["rowIdHighWaterMark"] == 9


def _schema(rows: list[dict[str, Any]]) -> pa.Schema:
    kinds = {kind: [row[kind] for row in rows if kind in row] for row in rows for kind in row}
    return pa.schema({kind: pa.array(each).type for kind, each in kinds.items()})
