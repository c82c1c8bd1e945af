"""A Delta table with deletion vectors as sets of rows, and its random writers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass, field
from random import Random
from typing import Any

from sparklake.metadata.delta import vectors
from sparklake.metadata.delta.actions import Action, FileKey
from sparklake.metadata.delta.delta_commits import DeltaCommit
from sparklake.metadata.delta.paths import encoded_z85
from sparklake.metadata.delta.union.log_sides import LogSide
from sparklake.metadata.vectors.bitmaps import Positions, positions
from sparklake.metadata.vectors.frames import encode_vector, framed
from tests.support.delta_model import PROTOCOL, metadata

FILES = dict[str, bytes]()
"""The files of vectors of all tables."""


@dataclass(frozen=True)
class Marked:
    """A live file: the `add`, and the positions of its deleted rows."""

    fields: Mapping[str, Any]
    deleted: frozenset[int] = frozenset()


def deleted_rows(fields: Mapping[str, Any]) -> Positions:
    descriptor = fields.get("deletionVector")
    place = vectors.vector_place(descriptor) if descriptor else None
    if descriptor is None or place is None:
        return vectors.inline_rows(fields)
    return vectors.decode_vector(descriptor, FILES[place.path])


@dataclass
class MarkedTable:
    """A table. `contents` are the rows of files, which all copies of the table share."""

    name: str
    contents: dict[str, list[str]]
    commits: list[DeltaCommit] = field(default_factory=list)
    live: dict[str, Marked] = field(default_factory=dict)

    @staticmethod
    def of_files(count: int, rows: int) -> MarkedTable:
        table = MarkedTable("base", {})
        names = [f"first-{number}" for number in range(count)]
        adds = [table.new_file([f"{name}/{at}" for at in range(rows)], name) for name in names]
        table.commit({"protocol": PROTOCOL}, {"metaData": metadata()}, *adds)
        return table

    def branch(self, name: str) -> MarkedTable:
        return MarkedTable(name, self.contents, copy(self.commits), copy(self.live))

    def at(self, version: int) -> MarkedTable:
        """Return the table after its first commits."""
        table = MarkedTable(self.name, self.contents)
        for each in self.commits[: version + 1]:
            table.take(each)
        return table

    @property
    def rows(self) -> set[str]:
        return {
            row
            for path, file in self.live.items()
            for at, row in enumerate(self.contents[path])
            if at not in file.deleted
        }

    def side(self, since: int) -> LogSide:
        commits = tuple(self.commits[since:])
        return LogSide(
            commits, metadata(), PROTOCOL, find_adds=self.adds, deleted_rows=deleted_rows
        )

    def adds(self, paths: Set[str]) -> dict[FileKey, Mapping[str, Any]]:
        files = (self.live[path].fields for path in paths if path in self.live)
        return {FileKey.of(each): each for each in files}

    def take(self, commit: DeltaCommit) -> None:
        """Apply a commit that removes live files with their vectors and adds new ones."""
        assert commit.version == len(self.commits)
        for fields in commit.fields("remove"):
            assert FileKey.of(fields) == FileKey.of(self.live.pop(fields["path"]).fields)
        for fields in commit.fields("add"):
            path = fields["path"]
            assert path not in self.live
            rows = frozenset(deleted_rows(fields).tolist())
            stats = json.loads(fields["stats"])
            assert stats["numRecords"] == len(self.contents[path])
            live = {*range(stats["numRecords"])} - rows
            assert live <= {*stats.get("bounds", live)}
            if stats["tightBounds"]:
                assert live == {*stats["bounds"]}
            self.live[path] = Marked(fields, rows)
        self.commits.append(commit)

    # --- writers ----------------------------------------------------------------------------------

    def commit(self, *actions: Action, operation: str = "UPDATE") -> None:
        timestamp = f"{self.name} {len(self.commits)}"
        info = {"commitInfo": {"timestamp": timestamp, "operation": operation}}
        self.take(DeltaCommit(len(self.commits), (info, *actions)))

    def new_file(self, rows: Sequence[str], name: str = "") -> Action:
        path = name or f"{self.name}-{len(self.commits)}-{len(self.contents)}"
        self.contents[path] = list(rows)
        stats = _stats(len(rows), set())
        fields = {"path": path, "partitionValues": {"p": "0"}, "size": 1, "stats": stats}
        return {"add": {**fields, "dataChange": True}}

    def remark(self, path: str, deleted: Set[int], tight: bool = False) -> tuple[Action, Action]:
        """Return the actions of a new vector, in a file as Delta writes it.

        With `tight`, the statistics are computed again, from the remaining rows.
        """
        file = self.live[path]
        stats = _stats(len(self.contents[path]), deleted) if tight else _loose(file.fields)
        fields = {**file.fields, "stats": stats, "dataChange": True}
        fields.pop("deletionVector", None)
        if deleted:
            fields["deletionVector"] = _written(positions(*deleted))
        return removed(file.fields), {"add": fields}

    def mark(self, random: Random, updates: bool) -> None:
        """Delete rows of one or two files. An update adds a file with their new images."""
        choices = [path for path, file in self.live.items() if self._alive(path, file)]
        actions, images = list[Action](), list[str]()
        for path in random.sample(sorted(choices), min(len(choices), random.choice([1, 1, 2]))):
            alive = self._alive(path, self.live[path])
            rows = random.sample(alive, random.randint(1, max(1, len(alive) // 2)))
            deleted = self.live[path].deleted | set(rows)
            actions += self.remark(path, deleted, tight=random.random() < 0.3)
            images += [f"{self.contents[path][at]}'{self.name}" for at in rows]
        if updates and images:
            actions.append(self.new_file(images))
        self.commit(*actions)

    def _alive(self, path: str, file: Marked) -> list[int]:
        return [at for at in range(len(self.contents[path])) if at not in file.deleted]

    def append(self) -> None:
        count = len(self.contents)
        self.commit(self.new_file([f"{self.name}-new-{count}/{at}" for at in range(3)]))

    def rewrite(self, random: Random) -> None:
        """Copy the live rows of one or two files into a new one: a compaction, or a purge."""
        paths = random.sample(sorted(self.live), min(len(self.live), random.choice([1, 2])))
        rows = [
            self.contents[path][at] for path in paths for at in self._alive(path, self.live[path])
        ]
        removes = [removed(self.live[path].fields) for path in paths]
        self.commit(*removes, self.new_file(rows), operation="OPTIMIZE")

    def drop_file(self, random: Random) -> None:
        if self.live:
            self.commit(removed(self.live[random.choice(sorted(self.live))].fields))

    def bring_back(self, random: Random) -> None:
        """Restore rows, as RESTORE does."""
        marked = sorted(path for path, file in self.live.items() if file.deleted)
        if marked:
            path = random.choice(marked)
            deleted = self.live[path].deleted
            self.commit(*self.remark(path, deleted - {min(deleted)}, tight=True))


def removed(fields: Mapping[str, Any]) -> Action:
    names = ("path", "partitionValues", "size", "deletionVector")
    return {"remove": {name: fields[name] for name in names if name in fields}}


def _stats(count: int, deleted: Set[int]) -> str:
    """Return exact statistics. The positions of the rows stand for their bounds."""
    live = [at for at in range(count) if at not in deleted]
    return json.dumps({"numRecords": count, "bounds": live, "tightBounds": True})


def _loose(fields: Mapping[str, Any]) -> str:
    return json.dumps({**json.loads(fields["stats"]), "tightBounds": False})


def _written(rows: Positions) -> dict[str, Any]:
    """Write a vector into a file with a unique name, as Delta does."""
    name = encoded_z85(len(FILES).to_bytes(16, "big"))
    body = encode_vector(rows)
    FILES[vectors.vector_path(name)] = vectors._FORMAT + framed(body)
    place = {"storageType": "u", "pathOrInlineDv": name, "offset": 1}
    return {**place, "sizeInBytes": len(body), "cardinality": len(rows)}


def after_writes(
    table: MarkedTable, name: str, random: Random, writes: Iterable[str]
) -> MarkedTable:
    branch = table.branch(name)
    for each in writes:
        write(branch, random, each)
    return branch


def write(table: MarkedTable, random: Random, name: str) -> None:
    if name == "delete":
        table.mark(random, updates=False)
    elif name == "update":
        table.mark(random, updates=True)
    elif name == "append":
        table.append()
    else:
        {"rewrite": table.rewrite, "drop file": table.drop_file, "bring back": table.bring_back}[
            name
        ](random)
