"""The comparison of named with stored objects, against plain dicts."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from sparklake.rows.findings import FindingKind
from sparklake.udfs.checks.compared import (
    COMPARE,
    FAULT_SCHEMA,
    BucketResult,
    BucketShare,
    compare_bucket,
)
from sparklake.udfs.checks.exchange import (
    CheckPlace,
    decode_bucket,
    read_bucket,
    rows_key,
    write_buckets,
)
from sparklake.udfs.checks.listed import LISTED_SCHEMA, PURGED_SCHEMA
from sparklake.udfs.checks.named import NAMED_SCHEMA, address_hashes, bucket_numbers

BUCKETS = 3
BEFORE = 50
"""Unnamed objects with earlier times are garbage."""


def hashes(address: str) -> tuple[int, int]:
    high, low = address_hashes(pa.array([address]))
    return int(high[0]), int(low[0])


def write(place: CheckPlace, name: str, rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> str:
    """Write rows, with equal hashes in one bucket."""
    table = pa.Table.from_pylist(
        [dict(zip(schema.names, each, strict=True)) for each in rows], schema
    )
    numbers = bucket_numbers(table.column("high").to_numpy(), BUCKETS)
    write_buckets(place.open_folder(), name, table, numbers, BUCKETS)
    return name


def compared(
    place: CheckPlace,
    referenced: Sequence[tuple[str, int, int]],
    listed: Mapping[str, tuple[int, int]],
    purged: Sequence[str],
) -> tuple[list[BucketResult], set[tuple[str, str, int, int]]]:
    """Compare all buckets; return the results, and kind, address, size and range of each fault."""
    half = len(referenced) // 2
    names = [
        write(
            place,
            f"named-{number}",
            [
                (*hashes(address), size, table, False, address, f"checksum of {address}", "")
                for address, size, table in part
            ],
            NAMED_SCHEMA,
        )
        for number, part in enumerate((referenced[:half], referenced[half:]))
    ]
    rows = [(*hashes(each), size, mtime, each) for each, (size, mtime) in listed.items()]
    lists = [
        write(place, f"listed-{number}", rows[number::2], LISTED_SCHEMA) for number in range(2)
    ]
    purge_lists = [write(place, "purged", [hashes(each) for each in purged], PURGED_SCHEMA)]
    results, faults = [], set()
    for bucket in range(BUCKETS):
        files = (tuple(names), tuple(lists), tuple(purge_lists))
        share = BucketShare(bucket, *files, BEFORE, True, 0.0, 0, 2)
        results.append(compare_bucket(place, f"{bucket}", share))
        for fault_bucket in range(2):
            key = rows_key(COMPARE.name, f"{bucket}")
            streams = read_bucket(place.open_folder(), [key], fault_bucket)
            rows_of_bucket = decode_bucket(streams, FAULT_SCHEMA)
            for each in rows_of_bucket.to_pylist():
                assert each["checksum"] == f"checksum of {each['address']}"
                assert each["table"] % 2 == fault_bucket
                faults.add((each["kind"], each["address"], each["size"], each["table"]))
    return results, faults


@pytest.mark.parametrize("seed", range(20))
def test_the_comparison_agrees_with_dicts(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    for name in ("folder", "report"):
        (tmp_path / name).mkdir()
    place = CheckPlace(
        cast("Any", None), f"file://{tmp_path}/folder", f"file://{tmp_path}/report", BUCKETS
    )
    addresses = [f"s3://bucket/lake/data/{number}" for number in range(chance.choice((1, 9, 60)))]
    listed = {
        each: (chance.randrange(3), chance.randrange(100))
        for each in addresses
        if chance.random() < 0.8
    }
    # Several ranges may name an object, and with several sizes.
    referenced = [
        (each, listed[each][0] if each in listed and chance.random() < 0.9 else 7, table)
        for table in range(chance.choice((0, 1, 3)))
        for each in addresses
        if chance.random() < 0.7
    ]
    purged = [each for each in addresses if chance.random() < 0.2]
    results, faults = compared(place, referenced, listed, purged)
    expected = set()
    for address, size, table in referenced:
        if address not in listed:
            if address not in purged:
                expected.add((FindingKind.OBJECT_MISSING.value, address, size, table))
        elif listed[address][0] != size:
            expected.add((FindingKind.OBJECT_SIZE_DIFFERS.value, address, size, table))
    assert faults == expected
    assert {tag for each in results for tag in each.tables} == {each[3] for each in expected}
    names = {each for each, _, _ in referenced}
    assert sum(each.objects for each in results) == len(names)
    assert sum(each.purged for each in results) == len((names & set(purged)) - set(listed))
    unnamed = {
        (FindingKind.OBJECT_UNREFERENCED if mtime < BEFORE else FindingKind.OBJECT_YOUNG, each)
        for each, (_, mtime) in listed.items()
        if each not in names
    }
    assert {(each.kind, each.subject) for result in results for each in result.findings} == unnamed
    sizes = sum(size for each, (size, _) in listed.items() if each not in names)
    assert sum(each.size for result in results for each in result.findings) == sizes
