"""The task body that compares a bucket of named objects with the stored ones."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.sums import bounded_sum
from sparklake.udfs.checks.content import content_problems
from sparklake.udfs.checks.exchange import CheckPlace, read_bucket, rows_key, write_buckets
from sparklake.udfs.checks.findings import Finding, FindingKind, finding_table
from sparklake.udfs.checks.listed import LISTED_SCHEMA, PURGED_SCHEMA
from sparklake.udfs.checks.lookups import StoredSizes, stored_sizes
from sparklake.udfs.checks.named import NAMED_SCHEMA

COMPARED_STEP = "compared"

MOST_SAMPLED = 100
"""The maximum number of findings of one kind that a task returns. All are written."""

FAULT_SCHEMA = pa.schema(
    [
        *(
            NAMED_SCHEMA.field(each)
            for each in ("high", "low", "size", "table", "address", "checksum", "path")
        ),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("detail", pa.string(), nullable=False),
    ]
)
"""An object with a fault, as one range or staged row names it. `size` is the expected one."""


@dataclass(frozen=True, slots=True)
class BucketShare:
    """One bucket to compare, and the files that have it.

    Unnamed objects older than `before`, in unix nanoseconds, are garbage. Without `shows_unnamed`
    they are not reported: ranges that cannot be read may name them. With a `sample` above 0,
    this share of the objects is read. `salt` decides which. `fault_buckets` is the number of
    buckets of the rows with faults, by the tag of their range.
    """

    bucket: int
    named: tuple[str, ...]
    listed: tuple[str, ...]
    purged: tuple[str, ...]
    before: int
    shows_unnamed: bool
    sample: float
    salt: int
    fault_buckets: int


@dataclass(slots=True)
class BucketResult:
    """The counts of a bucket, and the tags of the ranges that name objects with faults.

    `kinds` counts unreferenced objects, and `bytes` is their size. `findings` are the first ones.
    """

    objects: int = 0
    contents: int = 0
    purged: int = 0
    tables: list[int] = field(default_factory=list)
    kinds: dict[str, int] = field(default_factory=dict)
    bytes: int = 0
    findings: list[Finding] = field(default_factory=list)


_encode = msgspec.msgpack.Encoder().encode
encode_bucket_share = _encode
_decode_share = msgspec.msgpack.Decoder(BucketShare).decode
decode_bucket_result = msgspec.msgpack.Decoder(BucketResult).decode


def compare_bucket(place: CheckPlace, name: str, encoded: bytes) -> bytes:
    """Compare named with stored objects, and read a sample of them; return a BucketResult."""
    share, folder, result = _decode_share(encoded), place.open_folder(), BucketResult()
    named = read_bucket(folder, share.named, share.bucket, NAMED_SCHEMA)
    listed = read_bucket(folder, share.listed, share.bucket, LISTED_SCHEMA)
    purged = read_bucket(folder, share.purged, share.bucket, PURGED_SCHEMA)
    faults = _Faults(named)
    stored, hit = _stored(named, listed)
    gone = ~stored.found & _within(_hashes(named), _hashes(purged))
    result.objects, result.purged = _distinct(named), _distinct(named.filter(pa.array(gone)))
    unknown = _problems(faults, stored)
    faults.add(FindingKind.OBJECT_MISSING, ~stored.found & ~gone & ~unknown, "")
    sizes = named.column("size").to_numpy()
    differs = stored.found & (stored.size != sizes)
    faults.add(FindingKind.OBJECT_SIZE_DIFFERS, differs, "")
    if share.sample > 0:
        chosen = stored.found & ~differs & _sampled(named, share.sample, share.salt)
        rows = named.filter(pa.array(chosen))
        problems = content_problems(rows)
        result.contents = problems.read
        for kind, texts in problems.by_kind.items():
            details = np.full(named.num_rows, "", object)
            details[chosen] = texts
            faults.add_details(kind, details)
    rows = faults.table()
    tags = rows.column("table").to_numpy()
    result.tables = np.unique(tags).tolist()
    buckets = (tags % np.uint64(share.fault_buckets)).astype(np.int64)
    write_buckets(folder, rows_key(COMPARED_STEP, name), rows, buckets, share.fault_buckets)
    if share.shows_unnamed:
        unnamed = listed.filter(pa.array(~hit))
        _report_unnamed(place.open_report(), name, unnamed, share.before, result)
    return _encode(result)


@dataclass(slots=True)
class _Faults:
    """The rows with faults of one bucket."""

    named: pa.Table
    tables: list[pa.Table] = field(default_factory=lambda: [FAULT_SCHEMA.empty_table()])

    def add(self, kind: FindingKind, mask: Any, detail: str) -> None:
        """Add the rows in a mask."""
        details = np.where(mask, detail or " ", "")
        self.add_details(kind, details)

    def add_details(self, kind: FindingKind, details: Any) -> None:
        """Add the rows with details that are not empty."""
        mask = details != ""
        if not mask.any():
            return
        rows = self.named.filter(pa.array(mask)).select(FAULT_SCHEMA.names[:-2])
        kinds = pa.repeat(pa.scalar(kind.value), rows.num_rows)
        texts = pa.array([str(each).strip() for each in details[mask]], pa.string())
        columns = [*rows.columns, kinds, texts]
        self.tables.append(pa.table(columns, schema=FAULT_SCHEMA))

    def table(self) -> pa.Table:
        """Return all rows."""
        return pa.concat_tables(self.tables).combine_chunks()


def _problems(faults: _Faults, stored: StoredSizes) -> Any:
    """Add the objects that cannot be looked up; return which ones."""
    has_one = np.array([each is not None for each in stored.problem], bool)
    for kind in {each.kind for each in stored.problem[has_one]}:
        details = [each.detail if each and each.kind is kind else "" for each in stored.problem]
        faults.add_details(kind, np.array(details, object))
    return has_one


def _stored(named: pa.Table, listed: pa.Table) -> tuple[StoredSizes, Any]:
    """Return the stored sizes of named objects, and which listed objects are named."""
    places = np.argsort(listed.column("high").to_numpy(), kind="stable")
    high = listed.column("high").to_numpy()[places]
    wanted = named.column("high").to_numpy()
    at = np.minimum(np.searchsorted(high, wanted), max(len(high) - 1, 0))
    found = np.zeros(named.num_rows, bool)
    size = np.zeros(named.num_rows, np.int64)
    hit = np.zeros(listed.num_rows, bool)
    if len(high):
        at = places[at]
        # Equal first halves of two different hashes look missing here, and are looked up later.
        found = (listed.column("high").to_numpy()[at] == wanted) & (
            listed.column("low").to_numpy()[at] == named.column("low").to_numpy()
        )
        size = np.where(found, listed.column("size").to_numpy()[at], 0)
        hit[at[found]] = True
    stored = StoredSizes(found, size, np.full(named.num_rows, None, object))
    external = named.column("external").to_numpy()
    if external.any():
        stored.update(external, stored_sizes(named.filter(pa.array(external))))
    return stored, hit


def _report_unnamed(
    report: ObjectStore, name: str, rows: pa.Table, before: int, result: BucketResult
) -> None:
    """Write the objects that nothing names, and count them."""
    if not rows.num_rows:
        return
    result.bytes = bounded_sum(rows.column("size").to_pylist())
    is_old = pc.less(rows.column("mtime"), before).to_pylist()
    kinds = [FindingKind.OBJECT_UNREFERENCED if old else FindingKind.OBJECT_YOUNG for old in is_old]
    columns = (kinds, rows.column("address").to_pylist(), rows.column("size").to_pylist())
    found = [
        Finding(kind, address, size=size) for kind, address, size in zip(*columns, strict=True)
    ]
    write_findings(report, f"findings/unnamed-{name}", found)
    for kind in set(kinds):
        some = [each for each in found if each.kind is kind]
        result.kinds[kind.value] = len(some)
        result.findings += some[:MOST_SAMPLED]


def write_findings(report: ObjectStore, stem: str, findings: list[Finding]) -> None:
    """Write findings as a Parquet file of the report."""
    body = io.BytesIO()
    parquet.write_table(finding_table(findings), body)
    report.replace(f"{stem}.parquet", body.getvalue())


def _hashes(rows: pa.Table) -> Any:
    return rows.column("high").to_numpy() ^ rows.column("low").to_numpy()


def _within(values: Any, others: Any) -> Any:
    return np.isin(values, others) if len(others) else np.zeros(len(values), bool)


def _distinct(named: pa.Table) -> int:
    return len(np.unique(named.column("high").to_numpy()))


def _sampled(named: pa.Table, sample: float, salt: int) -> Any:
    """Return which objects are in the sample. All rows of one object are, or none."""
    if sample >= 1:
        return np.ones(named.num_rows, bool)
    mixed = (named.column("low").to_numpy() ^ np.uint64(salt)) >> np.uint64(32)
    return mixed < np.uint64(int(sample * 2**32))
