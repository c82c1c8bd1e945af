"""A Delta table as a plain dictionary, and the actions of its writers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from sparklake.metadata.delta.actions import Action, FileKey
from sparklake.metadata.delta.delta_commits import DeltaCommit
from sparklake.metadata.delta.union.log_sides import LogSide

PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}


def column(name: str, kind: str = "long", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}, **more}


def metadata(*columns: Mapping[str, Any], **settings: str) -> dict[str, Any]:
    fields = [column("id"), column("p"), *columns]
    return {
        "id": "one table",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": ["p"],
        "configuration": settings,
        "createdTime": 1,
    }


@dataclass
class Table:
    """A table: its commits, and the partition of each live file."""

    name: str
    commits: list[DeltaCommit] = field(default_factory=list)
    live: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=metadata)
    applications: dict[str, int] = field(default_factory=dict)
    restated: set[str] = field(default_factory=set)

    def branch(self, name: str) -> Table:
        copy = deepcopy(self)
        copy.name = name
        return copy

    def fresh(self, partition: str) -> str:
        return f"p={partition}/{self.name}-{len(self.commits)}-{len(self.live)}.parquet"

    def commit(self, *actions: Action) -> None:
        """Apply a commit. Removed files must be live. Added files must not, unless re-added."""
        fields = {"timestamp": f"{self.name} {len(self.commits)}", "operation": "WRITE"}
        info = {"commitInfo": fields}
        self.take(DeltaCommit(len(self.commits), (info, *actions)))

    def take(self, commit: DeltaCommit) -> None:
        assert commit.version == len(self.commits)
        for fields in commit.fields("remove"):
            del self.live[fields["path"]]
        for fields in commit.fields("add"):
            assert fields["path"] not in self.live or not fields["dataChange"]
            self.restated.update(self.live.keys() & {fields["path"]})
            self.live[fields["path"]] = fields["partitionValues"]["p"]
        self.metadata = dict(commit.last("metaData") or self.metadata)
        for fields in commit.fields("txn"):
            self.applications[fields["appId"]] = fields["version"]
        self.commits.append(commit)

    def side(self, since: int) -> LogSide:
        commits = tuple(self.commits[since:])
        (first,) = self.commits[0].fields("metaData")
        start = {"metaData": first}
        parent = self.commits[since - 1]
        return LogSide(
            commits,
            self.metadata,
            PROTOCOL,
            find_adds=self.adds,
            start=lambda: start if since == 1 else {},
            parent=lambda: parent,
        )

    def adds(self, paths: Set[str]) -> dict[FileKey, Mapping[str, Any]]:
        adds_by_key = {
            FileKey.of(each): each for commit in self.commits for each in commit.fields("add")
        }
        return {key: adds_by_key[key] for key in map(FileKey, paths) if key.path in self.live}

    def description(self, path: str) -> Mapping[str, Any]:
        """Return the log's description of a live file, without `dataChange`."""
        fields = self.adds({path})[FileKey(path)]
        return {name: each for name, each in fields.items() if name != "dataChange"}


def add(path: str, partition: str, changes: bool = True) -> Action:
    values = {"p": partition}
    return {"add": {"path": path, "partitionValues": values, "size": 1, "dataChange": changes}}


def by_writer(actions: Sequence[Action]) -> tuple[Action, ...]:
    """Return the actions of a commit, with the operation but without its parameters."""
    has_info = any("commitInfo" in each for each in actions)
    return (*([] if has_info else [{"commitInfo": {"operation": "WRITE"}}]), *actions)


def remove(path: str, changes: bool = True) -> Action:
    return {"remove": {"path": path, "dataChange": changes}}


# --- what writers do ------------------------------------------------------------------------------

Write = Callable[[Table], None]


def nothing(table: Table) -> None:
    """Leave the table alone."""


def append(table: Table) -> None:
    table.commit(add(table.fresh("0"), "0"))


def delete(number: int) -> Write:
    def write(table: Table) -> None:
        path = _file(table, number)
        table.commit(*([remove(path)] if path else []))

    return write


def update(number: int) -> Write:
    def write(table: Table) -> None:
        path = _file(table, number)
        if path:
            table.commit(remove(path), add(table.fresh(table.live[path]), table.live[path]))

    return write


def restate(number: int) -> Write:
    """Write statistics of a file: it is added again."""

    def write(table: Table) -> None:
        path = _file(table, number)
        if path:
            fields = add(path, table.live[path], changes=False)["add"]
            stats = f"{table.name} {len(table.commits)}"
            table.commit({"add": {**fields, "stats": stats}})

    return write


def restate_and_update(number: int) -> Write:
    def write(table: Table) -> None:
        restate(number)(table)
        update(number)(table)

    return write


def overwrite(table: Table) -> None:
    table.commit(*map(remove, sorted(table.live)), add(table.fresh("1"), "1"))


def optimize(table: Table) -> None:
    small = sorted(path for path, partition in table.live.items() if partition == "0")
    if len(small) > 1:
        removes = (remove(path, changes=False) for path in small)
        table.commit(*removes, add(table.fresh("0"), "0", changes=False))


def add_column(table: Table) -> None:
    wider = metadata(column("more", "string"))["schemaString"]
    table.commit({"metaData": {**table.metadata, "schemaString": wider}})


def set_property(value: str) -> Write:
    def write(table: Table) -> None:
        table.commit({"metaData": {**table.metadata, "configuration": {"some.property": value}}})

    return write


def stream(table: Table) -> None:
    version = table.applications.get("stream", 0) + 1
    table.commit({"txn": {"appId": "stream", "version": version}}, add(table.fresh("1"), "1"))


WRITES: dict[str, Write] = {
    "nothing": nothing,
    "append": append,
    "delete 0": delete(0),
    "delete 1": delete(1),
    "update 0": update(0),
    "update 2": update(2),
    "restate 0": restate(0),
    "restate 2": restate(2),
    "restate and update 0": restate_and_update(0),
    "overwrite": overwrite,
    "optimize": optimize,
    "add column": add_column,
    "property a": set_property("a"),
    "property b": set_property("b"),
    "stream": stream,
}


def _file(table: Table, number: int) -> str | None:
    """Return one of the first files, if it is still live."""
    matches = [path for path in table.live if path.endswith(f"first-{number}.parquet")]
    return matches[0] if matches else None


def first_table() -> Table:
    """Return a table of four files in two partitions."""
    table = Table("base")
    files = (add(f"p={number % 2}/first-{number}.parquet", str(number % 2)) for number in range(4))
    table.commit({"protocol": PROTOCOL}, {"metaData": metadata()}, *files)
    return table


def after_writes(table: Table, name: str, writes: Iterable[str]) -> Table:
    """Return a copy of a table after some writes."""
    branch = table.branch(name)
    for each in writes:
        WRITES[each](branch)
    return branch
