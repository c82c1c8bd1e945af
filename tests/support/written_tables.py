"""Delta tables with hand-written logs and known contents."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from sparklake import Repository
from sparklake.testing.lakes import contents

Action = dict[str, Any]

_TIMES = count()
_SCHEMA = {"type": "struct", "fields": []}
_CHECKPOINT = pa.schema(
    {
        "protocol": pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}),
        "metaData": pa.struct({"id": pa.string(), "schemaString": pa.string()}),
        "add": pa.struct({"path": pa.string(), "size": pa.int64(), "dataChange": pa.bool_()}),
    }
)


def created(name: str) -> list[Action]:
    """Return the actions that create a table."""
    described = {"id": name, "format": {"provider": "parquet", "options": {}}}
    rest = {"schemaString": json.dumps(_SCHEMA), "partitionColumns": [], "configuration": {}}
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    return [{"protocol": protocol}, {"metaData": {**described, **rest}}]


def add(path: str, **more: Any) -> Action:
    fields = {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1}
    return {"add": {**fields, "dataChange": True, **more}}


def remove(path: str, **more: Any) -> Action:
    return {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True, **more}}


def marked(name: str) -> dict[str, Any]:
    """Return the action fields of an inline deletion vector."""
    vector = {"storageType": "i", "pathOrInlineDv": name, "sizeInBytes": 1, "cardinality": 1}
    return {"deletionVector": vector}


def label(fields: Action) -> str:
    """Return the path of a file, then `#` and the name of its deletion vector."""
    vector = fields.get("deletionVector")
    return f"{fields['path']}#{vector['pathOrInlineDv']}" if vector else str(fields["path"])


@dataclass(frozen=True)
class Table:
    """The state of a table by its log. `files` are live, `hole` is a missing version.

    A label identifies a file: its path, and its deletion vector if there is one.

    `lost` are live files that are missing, or that belong to another branch.
    """

    latest: int
    hole: int | None
    created: list[Action]
    files: frozenset[str]
    lost: frozenset[str]


@dataclass(frozen=True)
class WrittenTable:
    """A writer of a table's log on a branch. A data file contains its name, or the given bytes."""

    repository: Repository
    branch: str
    folder: str = "tables/t/"

    @property
    def log(self) -> str:
        return f"{self.folder}_delta_log/"

    def change(self, *actions: Action, body: bytes | None = None) -> None:
        """Stage the next commit and its added files."""
        branch = self.repository.branch(self.branch)
        info = {"commitInfo": {"timestamp": next(_TIMES), "operation": "WRITE"}}
        lines = "".join(f"{json.dumps(each)}\n" for each in (info, *actions))
        branch.put(f"{self.log}{self.state().latest + 1:020}.json", lines.encode())
        for each in actions:
            if "add" in each:
                name = each["add"]["path"]
                branch.put(f"{self.folder}{name}", body or name.encode())

    def vacuum(self, *, logged: bool = True) -> None:
        """Delete all files except live ones."""
        files = self.state().files
        for each in self.repository.objects(self.branch, self.folder):
            name = each.path.removeprefix(self.folder)
            if "/" not in name and name not in {file.partition("#")[0] for file in files}:
                self.repository.branch(self.branch).delete(each.path)
        if logged:
            self.change()

    def checkpoint(self, *, clean: bool = False) -> None:
        """Write a checkpoint of the latest version, and delete the commits before it."""
        branch, state = self.repository.branch(self.branch), self.state()
        rows = [*state.created, *(add(each) for each in sorted(state.files))]
        body = io.BytesIO()
        parquet.write_table(pa.Table.from_pylist(rows, _CHECKPOINT), body)
        branch.put(f"{self.log}{state.latest:020}.checkpoint.parquet", body.getvalue())
        for each in self.repository.objects(self.branch, self.log) if clean else ():
            if each.path < f"{self.log}{state.latest:020}":
                branch.delete(each.path)

    def commit(self) -> str:
        """Commit the staged changes; return the commit's id."""
        return self.repository.branch(self.branch).commit("changed the table").id

    def state(self, ref: str | None = None) -> Table:
        """Return the state by the log at a ref, or on the branch with staged changes."""
        there = contents(self.repository, ref or self.branch)
        log_paths = sorted(name for name in there if name.startswith(self.log))
        checkpoints = [name for name in log_paths if name.endswith(".checkpoint.parquet")]
        versions = [int(name[-25:-5]) for name in log_paths if name.endswith(".json")]
        actions: list[Action] = []
        start = 0
        if checkpoints:
            start = int(checkpoints[-1].removeprefix(self.log)[:20])
            rows = parquet.read_table(io.BytesIO(there[checkpoints[-1]])).to_pylist()
            actions += [{kind: value for kind, value in row.items() if value} for row in rows]
            start += 1
        latest = max(versions, default=-1)
        hole = next((each for each in range(start, latest + 1) if each not in versions), None)
        for version in range(start, latest + 1):
            body = there.get(f"{self.log}{version:020}.json", b"")
            entries = [json.loads(line) for line in body.splitlines()]
            actions += sorted(entries, key=lambda each: "add" in each)
        files: dict[str, None] = {}
        for each in actions:
            if "add" in each:
                files[label(each["add"])] = None
            elif "remove" in each:
                files.pop(label(each["remove"]), None)
        lost = {each for each in files if not self._holds(there, each)}
        table = [each for each in actions if each.keys() & {"protocol", "metaData"}]
        return Table(latest, hole, table, frozenset(files), frozenset(lost))

    def bodies(self) -> list[bytes]:
        """Return the commits of the log, in order."""
        there = contents(self.repository, self.branch)
        names = sorted(each for each in there if each.startswith(self.log))
        return [there[each] for each in names if each.endswith(".json")]

    def last(self, path: str) -> Action:
        """Return the last `add` action of a file."""
        actions = [json.loads(line) for body in self.bodies() for line in body.splitlines()]
        return [each["add"] for each in actions if each.get("add", {}).get("path") == path][-1]

    def _holds(self, there: Mapping[str, bytes], file: str) -> bool:
        """Return whether the file of a label exists and has its own content."""
        path = file.partition("#")[0]
        return there.get(f"{self.folder}{path}") == path.encode()
