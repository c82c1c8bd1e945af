"""Task bodies listing stored and purged objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.errors import SparklakeError
from sparklake.graveler.arrow_batches import required_schema
from sparklake.graveler.chunks import sliced
from sparklake.graveler.parquet_files import decode_parquet
from sparklake.graveler.ports import ObjectStore
from sparklake.rows.findings import Finding, FindingKind
from sparklake.stores.objects.listings import ListingPart, column_lister, list_chunks
from sparklake.stores.objects.local.columns import FileColumns, file_columns
from sparklake.udfs.checks.exchange import CheckPlace, Step, rows_key, write_buckets
from sparklake.udfs.checks.named import address_hashes, bucket_numbers
from sparklake.udfs.purges import deleted_addresses
from sparklake.udfs.tasks import BatchStream

LISTED_SCHEMA = required_schema(
    high=pa.uint64(), low=pa.uint64(), size=pa.int64(), mtime=pa.int64(), address=pa.string()
)
"""`size` is in bytes, `mtime` in unix nanoseconds."""

PURGED_SCHEMA = required_schema(high=pa.uint64(), low=pa.uint64())

_BATCH_ROWS = 16_384


@dataclass(slots=True)
class ListedResult:
    """The findings about purge files."""

    findings: list[Finding] = field(default_factory=list)


def list_objects(place: CheckPlace, name: str, share: tuple[ListingPart, ...]) -> ListedResult:
    """Write the objects in parts of the namespace."""
    store = place.workspace.open_store()
    root = f"{store.uri}/"
    columns = chain.from_iterable(_columns(store, each) for each in share)
    rows = pa.Table.from_batches(_batches(root, columns), LISTED_SCHEMA)
    _write(place, rows_key(LIST_OBJECTS.name, name), rows)
    return ListedResult()


def list_purged(place: CheckPlace, name: str, share: tuple[str, ...]) -> ListedResult:
    """Write the addresses from the Parquet files of purges, given by key in the namespace."""
    store, findings = place.workspace.open_store(), list[Finding]()
    tables = [PURGED_SCHEMA.empty_table()]
    for key in share:
        try:
            rows = decode_parquet(store.get(key), f"{key} in {store.uri}")
            hashes = address_hashes(deleted_addresses(rows, store.uri))
        except (SparklakeError, KeyError, pa.ArrowException) as error:
            findings.append(Finding(FindingKind.RECEIPT_DAMAGED, key, str(error)))
            continue
        tables.append(pa.table(hashes, schema=PURGED_SCHEMA))
    rows = pa.concat_tables(tables).combine_chunks()
    _write(place, rows_key(LIST_PURGED.name, name), rows)
    return ListedResult(findings)


LIST_OBJECTS = Step("listed", list_objects, tuple[ListingPart, ...], ListedResult)
LIST_PURGED = Step("purged", list_purged, tuple[str, ...], ListedResult)


def _columns(store: ObjectStore, part: ListingPart) -> Iterator[FileColumns]:
    lister = column_lister(store)
    if lister is not None:
        yield from lister.scan_columns(part.prefix, level=part.level)
        return
    for chunk in list_chunks(store, part, _BATCH_ROWS):
        yield file_columns([(each.key, each.size, each.mtime) for each in chunk])


def _batches(root: str, files: Iterable[FileColumns]) -> BatchStream:
    """Return LISTED_SCHEMA in batches of at least `_BATCH_ROWS`, except for the last one."""
    filled = (each for each in files if len(each.keys))
    groups = sliced(filled, _BATCH_ROWS, lambda each: len(each.keys))
    return (_batch(root, group) for group in groups)


def _batch(root: str, files: Sequence[FileColumns]) -> pa.RecordBatch:
    keys = pa.concat_arrays([each.keys for each in files])
    addresses = pc.binary_join_element_wise(root, keys, "")
    sizes, mtimes = (
        pa.array(np.concatenate([getattr(each, name) for each in files]))
        for name in ("sizes", "mtimes")
    )
    columns = [*map(pa.array, address_hashes(addresses)), sizes, mtimes, addresses]
    return pa.record_batch(columns, schema=LISTED_SCHEMA)


def _write(place: CheckPlace, key: str, rows: pa.Table) -> None:
    numbers = bucket_numbers(rows.column("high").to_numpy(), place.buckets)
    write_buckets(place.open_folder(), key, rows, np.asarray(numbers), place.buckets)
