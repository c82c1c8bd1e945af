"""The task body that maps faulty objects to paths, commits and branches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from sparklake.errors import SparklakeError
from sparklake.graveler.ranges import RangeInfo
from sparklake.graveler.sstable.range_files import read_ranges
from sparklake.rows.findings import Finding, FindingKind
from sparklake.udfs.checks.compared import FAULT_SCHEMA, MAX_SAMPLED, write_findings
from sparklake.udfs.checks.exchange import CheckPlace, Step, decode_bucket, read_bucket
from sparklake.udfs.checks.lookups import Found, Problem, find_sizes
from sparklake.udfs.checks.named import NamedObjects, range_tag


@dataclass(frozen=True, slots=True)
class AffectedTable:
    """A range or a layer of staged rows with faulty objects, and its commits and branches."""

    tag: int
    info: RangeInfo | None
    commits: tuple[str, ...]
    commit_count: int
    branches: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FaultShare:
    """One bucket of faults, its files, and the affected trees. Other rows are ignored."""

    bucket: int
    files: tuple[str, ...]
    tables: tuple[AffectedTable, ...]


@dataclass(slots=True)
class FaultsResult:
    """The number of findings by kind, with examples for each."""

    kinds: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


_CONFIRMED = (FindingKind.OBJECT_MISSING, FindingKind.OBJECT_SIZE_DIFFERS)
"""The kinds that a lookup confirms. The object may have been written after the listing."""


def resolve_faults(place: CheckPlace, name: str, share: FaultShare) -> FaultsResult:
    """Write the findings of one bucket."""
    result = FaultsResult()
    streams = read_bucket(place.open_folder(), share.files, share.bucket)
    rows = decode_bucket(streams, FAULT_SCHEMA)
    tags = rows.column("table").to_numpy()
    findings = [
        each
        for table in share.tables
        for each in _findings(place, rows.filter(pa.array(tags == np.uint64(table.tag))), table)
    ]
    if findings:
        write_findings(place.open_report(), f"findings/objects-{name}", findings)
    for each in findings:
        count = result.kinds[each.kind.value] = result.kinds.get(each.kind.value, 0) + 1
        if count <= MAX_SAMPLED:
            result.findings.append(each)
    return result


RESOLVE = Step("resolved", resolve_faults, FaultShare, FaultsResult)


def _findings(place: CheckPlace, rows: pa.Table, table: AffectedTable) -> Iterator[Finding]:
    faults = _confirmed(rows.to_pylist())
    paths = _paths(place, table, {(each["address"], each["size"]) for each in faults})
    for each in faults:
        place_of = each["address"], each["size"]
        for path in [each["path"]] if table.info is None else paths.get(place_of, []):
            yield Finding(
                kind=FindingKind(each["kind"]),
                subject=each["address"],
                detail=each["detail"],
                tree_file="" if table.info is None else table.info.id,
                first_path=path,
                last_path=path,
                size=each["size"],
                checksum=each["checksum"],
                commits=table.commits,
                commit_count=table.commit_count,
                branches=table.branches,
            )


def _confirmed(faults: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Look up doubtful objects again; return the remaining faults, each once."""
    doubtful = {each["address"] for each in faults if FindingKind(each["kind"]) in _CONFIRMED}
    sizes = find_sizes(sorted(doubtful))
    confirmed: dict[tuple[str, str, str], dict[str, Any]] = {}
    for each in faults:
        row = each
        if FindingKind(each["kind"]) in _CONFIRMED:
            size = sizes[each["address"]]
            if size == each["size"]:
                continue
            row = {**each, **_looked_up(size)}
        confirmed[row["kind"], row["address"], row["path"]] = row
    return list(confirmed.values())


def _looked_up(size: Found) -> dict[str, str]:
    if isinstance(size, Problem):
        return {"kind": size.kind.value, "detail": size.detail}
    if isinstance(size, int):
        detail = f"it has {size:,} bytes"
        return {"kind": FindingKind.OBJECT_SIZE_DIFFERS.value, "detail": detail}
    return {"kind": FindingKind.OBJECT_MISSING.value, "detail": ""}


def _paths(
    place: CheckPlace, table: AffectedTable, objects: set[tuple[str, int]]
) -> dict[tuple[str, int], list[str]]:
    """Return the paths in a range by address and size."""
    paths: dict[tuple[str, int], list[str]] = {}
    if table.info is None or not objects:
        return paths
    referenced = NamedObjects(place.workspace.storage_namespace, 1)
    try:
        for block in read_ranges(place.workspace.open_store(), [table.info]):
            referenced.add(block, range_tag(table.info.id), with_paths=True)
    except SparklakeError:
        return {each: [""] for each in objects}  # The range has a finding of its own.
    rows = referenced.table()
    columns = (rows.column(each).to_pylist() for each in ("path", "address", "size"))
    for path, address, size in zip(*columns, strict=True):
        if (address, size) in objects:
            paths.setdefault((address, size), []).append(path)
    return paths
