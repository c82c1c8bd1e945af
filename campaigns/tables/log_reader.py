"""A small reader of Delta tables in a tree, independent of sparklake and Spark.

It also checks what readers rely on: files that exist, row counts, and row ids.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import pairwise
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import pyarrow.parquet as pq

from campaigns.tables.operations import PART, Contents, in_order

Read = Callable[[str], bytes]
"""A function that returns the bytes of a file by its path in the table."""

_MAGIC = 1681511377
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = str.maketrans(_Z85, _B85)


class WrongTableError(AssertionError):
    """An unreadable or wrong table."""


@dataclass(slots=True)
class Log:
    """The table state after all commits of its log."""

    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    schema: list[dict[str, Any]] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    domains: dict[str, Any] = field(default_factory=dict)
    features: set[str] = field(default_factory=set)
    timestamps: list[int] = field(default_factory=list)

    @staticmethod
    def of(commits: Mapping[int, bytes]) -> Log:
        _require(sorted(commits) == list(range(len(commits))), "the log has gaps")
        log = Log()
        for version in sorted(commits):
            actions = [json.loads(line) for line in commits[version].splitlines()]
            for each in sorted(actions, key=lambda action: "remove" not in action):
                log._take(each, version)
        return log

    def _take(self, action: dict[str, Any], version: int) -> None:
        if fields := action.get("remove"):
            removed = self.files.pop(unquote(fields["path"]), None)
            _require(removed is not None, f"version {version} removes a file that is not there")
            same = removed and removed.get("deletionVector") == fields.get("deletionVector")
            _require(same, f"version {version} removes a file with a different vector")
        if fields := action.get("add"):
            path = unquote(fields["path"])
            old = self.files.get(path)
            same = old is None or old.get("deletionVector") == fields.get("deletionVector")
            _require(same, f"version {version} adds a file twice")
            _require(
                (fields.get("defaultRowCommitVersion") or 0) <= version,
                f"version {version} has rows of a later one",
            )
            self.files[path] = fields
        if fields := action.get("metaData"):
            self.schema = json.loads(fields["schemaString"])["fields"]
            self.settings = fields.get("configuration") or {}
        if fields := action.get("protocol"):
            self.features = {*(fields.get("writerFeatures") or ())}
        if fields := action.get("domainMetadata"):
            self.domains[fields["domain"]] = json.loads(fields["configuration"])
        if "inCommitTimestamp" in (fields := action.get("commitInfo") or {}):
            self.timestamps.append(fields["inCommitTimestamp"])

    def check(self) -> None:
        """Check row ids and times of commits."""
        _require(
            all(one < other for one, other in pairwise(self.timestamps)),
            "the times of commits do not grow",
        )
        if self.settings.get("delta.enableRowTracking") != "true":
            return
        spans = []
        for path, fields in self.files.items():
            _require("baseRowId" in fields, f"{path} has no row ids")
            spans.append((fields["baseRowId"], json.loads(fields["stats"])["numRecords"]))
        spans.sort()
        for (first, rows), (after, _) in pairwise(spans):
            _require(first + rows <= after, "two files have the same row ids")
        mark = self.domains["delta.rowTracking"]["rowIdHighWaterMark"]
        _require(not spans or sum(spans[-1]) - 1 <= mark, "row ids exceed the high-water mark")


def contents_of(log: Log, read: Read) -> Contents:
    """Return the rows of a table, in order."""
    return in_order(
        {name: _cell(row, physical) for name, physical in _columns(log.schema).items()}
        for path, fields in log.files.items()
        for row in _rows(path, fields, _physical(log.schema), read)
    )


def _columns(fields: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the physical names of columns and struct fields."""
    columns: dict[str, list[str]] = {}
    for name, physical in _physical(fields).items():
        (kind,) = (each["type"] for each in fields if each["name"] == name)
        if isinstance(kind, dict):
            inner = _physical(kind["fields"])
            columns |= {f"{name}.{at}": [physical, each] for at, each in inner.items()}
        else:
            columns[name] = [physical]
    return columns


def _physical(fields: Sequence[dict[str, Any]]) -> dict[str, str]:
    return {
        each["name"]: (each["metadata"] or {}).get("delta.columnMapping.physicalName", each["name"])
        for each in fields
    }


def _cell(row: Mapping[str, Any], path: Sequence[str]) -> Any:
    value: Any = row
    for name in path:
        value = value and value.get(name)
    return value


def _rows(
    path: str, fields: Mapping[str, Any], columns: Mapping[str, str], read: Read
) -> Iterator[dict[str, Any]]:
    table = pq.ParquetFile(BytesIO(read(path))).read()
    count = json.loads(fields["stats"])["numRecords"]
    _require(table.num_rows == count, f"the statistics of {path} have {count} rows")
    parts = {
        name: int(value) if name == columns[PART] and value is not None else value
        for name, value in fields["partitionValues"].items()
    }
    vector = fields.get("deletionVector")
    deletions = set(_positions(vector, read)) if vector else set()
    _require(all(each < count for each in deletions), f"the vector of {path} exceeds its rows")
    for at, row in enumerate(table.to_pylist()):
        if at not in deletions:
            yield {**row, **parts}


def _positions(vector: Mapping[str, Any], read: Read) -> list[int]:
    kind, text, size = (vector[each] for each in ("storageType", "pathOrInlineDv", "sizeInBytes"))
    if kind == "i":
        body = base64.b85decode(text.translate(_TO_B85))[:size]
    else:
        _require(kind == "u", f"a vector has the storage type {kind!r}")
        name = UUID(bytes=base64.b85decode(text[-20:].translate(_TO_B85)))
        folder = f"{text[:-20]}/" if text[:-20] else ""
        file, offset = read(f"{folder}deletion_vector_{name}.bin"), vector.get("offset", 1)
        (length,) = struct.unpack_from(">i", file, offset)
        _require(length == size, "the size of a vector is wrong")
        body = file[offset + 4 : offset + 4 + size]
    _require(struct.unpack_from("<i", body) == (_MAGIC,), "a vector has the wrong magic number")
    positions = list(_roaring(body[4:]))
    _require(len(positions) == vector["cardinality"], "the cardinality of a vector is wrong")
    return positions


def _roaring(body: bytes) -> Iterator[int]:
    """Yield the numbers of a 64-bit Roaring bitmap in its portable form."""
    (count,) = struct.unpack_from("<Q", body)
    at = 8
    for _ in range(count):
        (high,) = struct.unpack_from("<I", body, at)
        at += 4
        (cookie,) = struct.unpack_from("<I", body, at)
        has_runs = cookie & 0xFFFF == 12347
        _require(has_runs or cookie == 12346, "a bitmap has an unknown form")
        size = (cookie >> 16) + 1 if has_runs else struct.unpack_from("<I", body, at + 4)[0]
        runs = int.from_bytes(body[at + 4 :][: (size + 7) // 8], "little") if has_runs else 0
        at += 4 + (size + 7) // 8 if has_runs else 8
        containers = list(struct.iter_unpack("<HH", body[at : at + 4 * size]))
        at += 4 * size
        at += 4 * size if not has_runs or size >= 4 else 0
        for place, (key, last) in enumerate(containers):
            start = (high << 32) | (key << 16)
            if runs >> place & 1:
                (number,) = struct.unpack_from("<H", body, at)
                for first, more in struct.iter_unpack("<HH", body[at + 2 : at + 2 + 4 * number]):
                    yield from range(start + first, start + first + more + 1)
                at += 2 + 4 * number
            else:
                _require(last < 4096, "a bitmap is larger than the tables of a campaign")
                yield from (start + low for low in struct.unpack_from(f"<{last + 1}H", body, at))
                at += 2 * (last + 1)
    _require(at == len(body), "a bitmap is longer than its numbers")


def _require(condition: object, otherwise: str) -> None:
    if not condition:
        raise WrongTableError(otherwise)
