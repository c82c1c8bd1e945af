"""Task bodies of a purge: scan addresses, list their objects, delete them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.errors import CorruptFileError, InvalidKeyError
from sparklake.graveler.arrow_batches import required_schema
from sparklake.graveler.blocks.block import Blocks, block_of_records
from sparklake.graveler.parquet_files import decode_parquet, encode_parquet
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ports.registers import PurgeCounts
from sparklake.graveler.ranges import RangeInfo
from sparklake.graveler.records import Record
from sparklake.graveler.sstable.range_files import read_ranges
from sparklake.graveler.sums import bounded
from sparklake.interrupts import Threads
from sparklake.layout import DATA_FOLDER, purge_list_folder, purge_receipt_folder
from sparklake.namespace.addresses import OwnNamespace
from sparklake.namespace.nesting import NamespaceMarks, nested_error
from sparklake.rows.objects import object_batch
from sparklake.rows.records import RECORD_SCHEMA
from sparklake.rows.settings import Workspace
from sparklake.stores.objects import open_object
from sparklake.stores.objects.key_checks import check_key
from sparklake.strategies.path_globs import glob_pattern
from sparklake.udfs.tasks import Batches, BatchStream, decode_tasks, report_batch

PART_ROWS = 20_000
"""The approximate rows of a receipt part. One task deletes one part."""

DELETE_THREADS = 16

MAX_SHOWN = 10
"""The maximum number of paths reported by a task for each obstacle."""

FOUND_SCHEMA = required_schema(
    path=pa.string(),
    address=pa.string(),
    checksum=pa.string(),
    size=pa.int64(),
    commit=pa.string(),
    external=pa.bool_(),
    shared=pa.bool_(),
)
"""`commit` is the first commit with the address at the path, or ""."""

RECEIPT_SCHEMA = FOUND_SCHEMA.append(pa.field("deleted_at", pa.timestamp("us", tz="UTC")))
"""`deleted_at` is null for a remaining object, to delete at its source."""

_NAMESPACE_FIELD = b"sparklake.storage_namespace"
"""The file metadata with the namespace of a list's own addresses."""


@dataclass(frozen=True, slots=True)
class Scan:
    """Ranges or rows of the `order`-th commit, or staged on a branch.

    `branch` is "" unless its head or staging contains them.
    """

    ranges: tuple[RangeInfo, ...]
    rows: tuple[Record, ...]
    order: int
    commit: str
    branch: str


@dataclass(frozen=True, slots=True)
class AddressUse:
    """A reference to an address by a path to purge."""

    path: str
    order: int
    commit: str
    branch: str
    checksum: str
    size: int


@dataclass(frozen=True)
class Patterns:
    """Globs of the paths to purge. A glob with a trailing '/' covers everything below it."""

    globs: tuple[str, ...]

    @cached_property
    def _compiled(self) -> list[re.Pattern[str]]:
        return [glob_pattern(f"{each}**" if each.endswith("/") else each) for each in self.globs]

    def __contains__(self, path: str) -> bool:
        return any(each.fullmatch(path) for each in self._compiled)


@dataclass(slots=True)
class FoundReport:
    """The listed parts and the obstacles found by one task."""

    parts: list[str] = field(default_factory=list)
    counts: PurgeCounts = field(default_factory=PurgeCounts)
    live_count: int = 0
    live: list[tuple[str, str]] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)
    foreign_count: int = 0
    foreign: list[tuple[str, str]] = field(default_factory=list)


_decode_use = msgspec.msgpack.Decoder(AddressUse).decode
_encode = msgspec.msgpack.Encoder().encode


def scan_body(workspace: Workspace, patterns: Patterns, batches: Batches) -> BatchStream:
    """Yield RECORD_SCHEMA: addresses, each with an AddressUse or an empty value."""
    store, own = workspace.open_store(), OwnNamespace(workspace.storage_namespace)
    for scan in decode_tasks(batches, Scan):
        for block in _blocks(store, scan):
            live = block.take(np.flatnonzero(~block.tombstones))
            yield _addresses(object_batch(live, workspace.storage_namespace), own, patterns, scan)


def _blocks(store: ObjectStore, scan: Scan) -> Blocks:
    if scan.rows:
        yield block_of_records(list(scan.rows))
    yield from read_ranges(store, scan.ranges)


def _addresses(
    objects: pa.RecordBatch, own: OwnNamespace, patterns: Patterns, scan: Scan
) -> pa.RecordBatch:
    names = ("path", "checksum", "size")
    rows = zip(*(objects.column(name).to_pylist() for name in names), strict=True)
    origin = (scan.order, scan.commit, scan.branch)
    stored = [
        _encode(AddressUse(path, *origin, checksum, size)) if path in patterns else b""
        for path, checksum, size in rows
    ]
    keys = own.canonical(objects.column("address")).cast(pa.binary())
    return pa.record_batch([keys, pa.array(stored, pa.binary())], schema=RECORD_SCHEMA)


def found_body(
    workspace: Workspace, purge_id: str, include_external: bool, batches: Batches
) -> BatchStream:
    """Write parts of FOUND_SCHEMA from sorted addresses; yield a FoundReport."""
    places = _Places(workspace, workspace.open_store(), include_external)
    listing = _PurgeList(places, purge_list_folder(purge_id))
    for address, uses in groupby(_pairs(batches), itemgetter(0)):
        listing.add(address.decode(), (stored for _, stored in uses))
    listing.write()
    yield report_batch(listing.report)


def _pairs(batches: Batches) -> Iterator[tuple[bytes, bytes]]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


@dataclass(slots=True)
class _PurgeList:
    places: _Places
    folder: str
    report: FoundReport = field(default_factory=FoundReport)
    _rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, address: str, uses: Iterable[bytes]) -> None:
        """List an address with a path to purge. Uses by other paths are empty."""
        is_shared, by_path = False, dict[str, AddressUse]()
        for stored in uses:
            if not stored:
                is_shared = True
                continue
            use = _decode_use(stored)
            if use.branch:
                self.report.live_count += 1
                if len(self.report.live) < MAX_SHOWN:
                    self.report.live.append((use.branch, use.path))
            earlier = by_path.get(use.path)
            if earlier is None or use.order < earlier.order:
                by_path[use.path] = use
        if by_path:
            self._list(address, list(by_path.values()), is_shared=is_shared)

    def _list(self, address: str, uses: Sequence[AddressUse], *, is_shared: bool) -> None:
        external = own_key(self.places.workspace, address) is None
        if (owner := self.places.find_owner(address)) is not None:
            self.report.foreign_count += len(uses)
            if len(self.report.foreign) < MAX_SHOWN:
                self.report.foreign.append((uses[0].path, owner))
        for each in sorted(uses, key=attrgetter("path")):
            row = {name: getattr(each, name) for name in ("path", "checksum", "size", "commit")}
            row |= {"address": address, "external": external, "shared": is_shared}
            self._rows.append(row)
        counts = self.report.counts
        self.report.counts = PurgeCounts(
            paths=counts.paths + len(uses),
            addresses=counts.addresses + (not external),
            size=counts.size if external else bounded(counts.size + uses[0].size),
            external=counts.external + external,
            shared=counts.shared + is_shared,
        )
        if is_shared and len(self.report.shared) < MAX_SHOWN:
            self.report.shared.append(uses[0].path)
        # An address is never in two parts, so one task deletes it.
        if len(self._rows) >= PART_ROWS:
            self.write()

    def write(self) -> None:
        """Write the collected rows as a part, named by its hash."""
        if not self._rows:
            return
        namespace = self.places.workspace.storage_namespace
        schema = FOUND_SCHEMA.with_metadata({_NAMESPACE_FIELD: namespace})
        body = encode_parquet(pa.Table.from_pylist(self._rows, schema=schema))
        name = sha256(body).hexdigest()[:32]
        self.places.store.put_if_absent(f"{self.folder}{name}.parquet", body)
        self.report.parts.append(name)
        self._rows = []


def own_key(workspace: Workspace, address: str) -> str | None:
    """Return the key of an object below `data/` of the repository, or None."""
    root = f"{workspace.storage_namespace}/"
    key = address.removeprefix(root)
    if not address.startswith(root) or not key.startswith(DATA_FOLDER):
        return None
    try:
        check_key(key)
    except InvalidKeyError:
        return None
    return key


@dataclass(frozen=True, slots=True)
class _Places:
    """The stores of the objects to purge, and their deletion."""

    workspace: Workspace
    store: ObjectStore
    include_external: bool
    _marks: dict[str, NamespaceMarks] = field(default_factory=dict)

    def find_owner(self, address: str) -> str | None:
        """Return the nested namespace that contains an object to delete, or None."""
        place = self._place(address)
        return None if place is None else place[0].find(place[2])

    def delete(self, address: str) -> int | None:
        """Delete an object; return the time in unix microseconds, or None if it is kept."""
        place = self._place(address)
        if place is None:
            return None
        marks, store, key = place
        if (owner := marks.find(key)) is not None:
            raise nested_error(owner)
        store.delete(key)
        return time.time_ns() // 1000

    def _place(self, address: str) -> tuple[NamespaceMarks, ObjectStore, str] | None:
        key = own_key(self.workspace, address)
        if key is not None:
            return self._find_marks("", self.store), self.store, key
        if not self.include_external or address.startswith(f"{self.workspace.storage_namespace}/"):
            return None
        store, there = open_object(address)
        return self._find_marks(store.uri, store), store, there

    def _find_marks(self, name: str, store: ObjectStore) -> NamespaceMarks:
        # Once per store: creation resolves the root's links. Threads may create it concurrently.
        if name not in self._marks:
            self._marks.setdefault(name, NamespaceMarks(store, own_root=bool(name)))
        return self._marks[name]


def delete_body(
    workspace: Workspace, purge_id: str, include_external: bool, batches: Batches
) -> BatchStream:
    """Delete the objects of parts, then write receipts. Yields the names of the parts."""
    store = workspace.open_store()
    places = _Places(workspace, store, include_external)
    for name in decode_tasks(batches, str):
        key = f"{purge_list_folder(purge_id)}{name}.parquet"
        rows = decode_parquet(store.get(key), f"{key} in {store.uri}")
        moments = _deleted(places, rows)
        receipt = rows.append_column(RECEIPT_SCHEMA.field("deleted_at"), moments)
        # An existing receipt is kept: it has the time of the first deletion.
        receipt_key = f"{purge_receipt_folder(purge_id)}{name}.parquet"
        store.put_if_absent(receipt_key, encode_parquet(receipt))
        yield report_batch(name)


def _deleted(places: _Places, rows: pa.Table) -> pa.Array:
    """Delete objects; return the times, null for objects to keep."""
    addresses = rows.column("address").to_pylist()
    names = list(dict.fromkeys(addresses))
    with Threads(DELETE_THREADS, "sparklake-purge") as pool:
        moments = dict(zip(names, pool.map(places.delete, names), strict=True))
    kind = RECEIPT_SCHEMA.field("deleted_at").type
    return pa.array([moments[each] for each in addresses], pa.int64()).cast(kind)


def deleted_addresses(rows: pa.Table, namespace: str) -> pa.Array:
    """Return the addresses in a receipt or a list. A missing column raises KeyError.

    The file may be a copy from another namespace, whose objects are also missing here.
    """
    if "deleted_at" in rows.schema.names:
        rows = rows.filter(pc.is_valid(rows.column("deleted_at")))
    addresses = rows.column("address").combine_chunks()
    if not pa.types.is_string(addresses.type) or addresses.null_count:
        raise CorruptFileError("an address in it is not a text: restore the file from a backup")
    recorded = (rows.schema.metadata or {}).get(_NAMESPACE_FIELD, b"").decode(errors="replace")
    if recorded in ("", namespace):
        return addresses
    root = f"{recorded}/"
    own = addresses.filter(pc.starts_with(addresses, root))
    keys = pc.utf8_slice_codeunits(own, len(root))
    return pa.concat_arrays([addresses, pc.binary_join_element_wise(f"{namespace}/", keys, "")])
