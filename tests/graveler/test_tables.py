"""Ranges and metaranges as files: readable by other programs, and verified on reading."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from rocksdict import DBCompressionType, Options, Rdict, SstFileWriter

from benchmarks.counting import recorded_reads
from benchmarks.peer import PROGRAM
from sparklake.errors import CorruptFileError, MissingFileError
from sparklake.graveler.entries import Entry, encode_entry, entry_identity
from sparklake.graveler.ids import EMPTY_META_RANGE, MetaRangeId, file_id, record_id
from sparklake.graveler.keys import EVERYTHING, Interval, successor
from sparklake.graveler.ranges import RangeInfo
from sparklake.graveler.records import Record, encode_record, tombstone
from sparklake.graveler.sstable.layout import FOOTER_BYTES
from sparklake.graveler.sstable.range_files import (
    NO_TREE,
    read_meta_range,
    read_ranges,
    verify_table,
    write_ranges,
)
from tests.support import oracle
from tests.support.blocks import flat, in_blocks
from tests.support.peer import needs_peer
from tests.support.trees import Trees, open_trees, records_of, write_meta_range

RANGE_RECORDS = 8


def numbered(count: int) -> dict[bytes, bytes]:
    return {b"k%04d" % number: b"identity-%d" % (number % 3) for number in range(count)}


@pytest.fixture
def trees() -> Iterator[Trees]:
    with open_trees(RANGE_RECORDS) as opened:
        yield opened


def table(trees: Trees, name: str) -> Path:
    return Path(trees.workspace.storage_namespace.removeprefix("file://")) / "_lakefs" / name


# --- the formula, from the bytes ------------------------------------------------------------------


def raw_items(path: Path, scratch: Path) -> list[tuple[bytes, bytes]]:
    """Read an SSTable through RocksDB alone."""
    database = Rdict(str(scratch / "raw"), Options(raw_mode=True))
    try:
        database.ingest_external_file([str(path)])
        return list(database.items())
    finally:
        database.close()
        shutil.rmtree(scratch / "raw")


def fields(value: bytes) -> list[bytes]:
    """Return the fields of a stored value, each prefixed with its length as a zigzag varint."""
    result = []
    for _ in range(2):
        number = shift = 0
        while True:
            byte, value = value[0], value[1:]
            number |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
        assert number % 2 == 0, "a length is not negative"
        size = number // 2
        result.append(value[:size])
        value = value[size:]
    return [*result, value]


def digest(content: bytes) -> bytes:
    return sha256(content).digest()


def test_a_range_id_hashes_keys_and_identities(trees: Trees) -> None:
    tree = trees.write(numbered(100), b"data")
    assert len(tree.ranges) > 5
    for each in tree.ranges:
        hashed = b""
        items = raw_items(table(trees, each.id), trees.scratch)
        for key, value in items:
            identity, data, trailer = fields(value)
            assert data == b"data"
            assert trailer == digest(digest(key) + digest(identity))
            hashed += trailer
        assert sha256(hashed).hexdigest() == each.id
        assert [key for key, _ in items] == sorted(key for key, _ in items)
        assert (items[0][0], items[-1][0], len(items)) == (each.min_key, each.max_key, each.count)
        assert each.size == sum(len(key) + len(value) for key, value in items)


def test_a_metarange_id_hashes_its_ranges(trees: Trees) -> None:
    tree = trees.write(numbered(100))
    hashed = b""
    items = raw_items(table(trees, tree.id), trees.scratch)
    for (key, value), each in zip(items, tree.ranges, strict=True):
        identity, data, trailer = fields(value)
        assert (key, identity) == (each.max_key, each.id.encode())
        assert data == range_data(each)
        assert trailer == digest(digest(key) + digest(identity))
        hashed += trailer
    assert sha256(hashed).hexdigest() == tree.id


def range_data(each: RangeInfo) -> bytes:
    """Return the protobuf RangeData, put together by hand."""

    def varint(number: int) -> bytes:
        low, high = number & 0x7F, number >> 7
        return bytes([low | 0x80]) + varint(high) if high else bytes([low])

    sized = [varint(len(key)) + key for key in (each.min_key, each.max_key)]
    return b"".join(
        (b"\x0a", sized[0], b"\x12", sized[1], b"\x18", varint(each.size), b"\x20")
    ) + varint(each.count)


def test_ids_follow_the_formulas_of_the_data_model_page() -> None:
    assert record_id(b"key", b"identity") == digest(digest(b"key") + digest(b"identity"))
    assert file_id(b"1" * 32 + b"2" * 32) == sha256(b"1" * 32 + b"2" * 32).hexdigest()
    assert record_id(b"a", b"bc") != record_id(b"ab", b"c")


def test_data_does_not_affect_an_id(trees: Trees) -> None:
    assert trees.write(numbered(50), b"one").id == trees.write(numbered(50), b"other").id


# --- lakeFS's own reader --------------------------------------------------------------------------


def inspected(*arguments: str | Path) -> list[dict[str, Any]]:
    """Return the peer's report of tables as a list of JSON objects."""
    done = subprocess.run(
        [PROGRAM, "inspect", *arguments], capture_output=True, text=True, check=True
    )
    decoder, text, reports = json.JSONDecoder(), done.stdout.strip(), []
    while text:
        each, end = decoder.raw_decode(text)
        reports.append(each)
        text = text[end:].lstrip()
    return reports


@needs_peer
def test_lakefs_reads_our_ranges(trees: Trees) -> None:
    entries = {
        b"k%04d" % number: Entry(f"data/{number}", number, f"sum-{number}", 10**18 + number)
        for number in range(300)
    }
    tree = trees.write_records(
        [
            encode_record(key, entry_identity(entry), encode_entry(entry))
            for key, entry in entries.items()
        ]
    )
    output = inspected("-entries", *(table(trees, each.id) for each in tree.ranges))
    reports = [each for each in output if "file" in each]
    rows = [each for each in output if "entry" in each]
    assert [each["file"] for each in reports] == [each.id for each in tree.ranges]
    assert [each["num_entries"] for each in reports] == [each.count for each in tree.ranges]
    assert {each["table_format"] for each in reports} == {"(RocksDB,v2)"}
    assert {each["compression"] for each in reports} == {"Snappy"}
    assert [row["key"].encode() for row in rows] == [*entries]
    for row, (key, entry) in zip(rows, entries.items(), strict=True):
        stored = encode_record(key, entry_identity(entry), encode_entry(entry))[1]
        assert bytes.fromhex(row["value_hex"]) == stored
        assert bytes.fromhex(row["identity_hex"]) == entry_identity(entry)
        assert row["entry"]["address"] == entry.address
        assert row["entry"]["size"] == entry.size
        assert row["entry"]["e_tag"] == entry.checksum


@needs_peer
def test_lakefs_opens_our_metaranges(trees: Trees) -> None:
    tree = trees.write(numbered(300))
    (report,) = inspected(table(trees, tree.id))
    assert report["num_entries"] == len(tree.ranges)
    assert report["table_format"] == "(RocksDB,v2)"


# --- reading --------------------------------------------------------------------------------------


def test_a_tree_round_trips(trees: Trees) -> None:
    tree = trees.write(numbered(200), b"data")
    assert trees.read_back(tree) == tree
    assert trees.records(tree.ranges) == records_of(numbered(200), b"data")
    assert tree.count == 200


def test_the_empty_tree_has_no_file(trees: Trees) -> None:
    assert trees.write({}).id == EMPTY_META_RANGE == ""
    assert write_meta_range(trees.store, []).id == EMPTY_META_RANGE
    with recorded_reads() as reads:
        assert read_meta_range(trees.store, EMPTY_META_RANGE) == NO_TREE
    assert reads == []


@pytest.mark.parametrize(
    "within",
    [
        EVERYTHING,
        Interval(b"k0050", b"k0051"),
        Interval(b"k0050", b"k0120"),
        Interval(b"", b"k0003"),
        Interval(b"k0199", None),
        Interval(b"a", b"b"),
        Interval(b"z", None),
        Interval(b"k0050", b"k0050"),
        Interval(b"k0050\0", b"k0051"),
    ],
    ids=str,
)
def test_only_ranges_within_an_interval_are_read(trees: Trees, within: Interval) -> None:
    pairs = numbered(200)
    tree = trees.write(pairs)
    with recorded_reads() as reads:
        records = flat(read_ranges(trees.store, tree.ranges, within))
    assert [key for key, _ in records] == [key for key in pairs if key in within]
    assert reads == [
        each.id
        for each in tree.ranges
        if each.max_key >= within.start and (within.stop is None or each.min_key < within.stop)
    ]


def test_many_ranges_are_opened_in_batches(trees: Trees) -> None:
    single = trees.with_range_records(1)
    tree = single.write(numbered(200))
    assert len(tree.ranges) == 200
    stream = read_ranges(trees.store, tree.ranges)
    with recorded_reads() as reads:
        first = next(stream)
        assert len(reads) < 100
    assert flat([first, *stream]) == records_of(numbered(200))


@pytest.mark.parametrize("read_count", [0, 1, 20, 1000])
def test_a_closed_stream_leaves_no_files(trees: Trees, read_count: int) -> None:
    tree = trees.write(numbered(100))
    stream = read_ranges(trees.store, tree.ranges)
    for _ in zip(range(read_count), stream, strict=False):
        pass
    stream.close()
    assert list(trees.scratch.iterdir()) == []


def test_reading_does_not_change_files(trees: Trees) -> None:
    tree = trees.write(numbered(100))
    files = [table(trees, name) for name in trees.names()]
    before = [(path.read_bytes(), path.stat().st_mtime_ns) for path in files]
    trees.records(trees.read_back(tree).ranges)
    assert [(path.read_bytes(), path.stat().st_mtime_ns) for path in files] == before


def test_records_at_their_limits_round_trip(trees: Trees) -> None:
    records = sorted(
        [
            encode_record(b"\0", b"i", b""),
            encode_record(b"\xff" * 1024, b"i" * 255, bytes(65536)),
            encode_record(b"k" * 1024, b"\0", os.urandom(65536)),
            tombstone(b"deleted"),
        ]
    )
    assert trees.records(trees.write_records(records).ranges) == records


# --- bad files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["range", "metarange"])
def test_a_missing_file_is_reported(trees: Trees, which: str) -> None:
    tree = trees.write(numbered(100))
    name = tree.ranges[3].id if which == "range" else tree.id
    table(trees, name).unlink()
    with pytest.raises(MissingFileError, match=name):
        trees.contents(tree)


def put(trees: Trees, name: str, records: list[Record]) -> None:
    """Put other records in the place of a table."""
    table(trees, name).unlink()
    write_as_rocksdb_does(table(trees, name), records)


def write_as_rocksdb_does(path: Path, records: list[Record]) -> None:
    """Write a table of a different layout but the same format."""
    options = Options(raw_mode=True)
    options.set_compression_type(DBCompressionType.snappy())
    writer = SstFileWriter(options)
    writer.open(str(path))
    for key, stored in records:
        writer[key] = stored
    writer.finish()


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(lambda true: true[:-1], id="the last one lost"),
        pytest.param(lambda true: true[1:], id="the first one lost"),
        pytest.param(lambda true: [(b"0", true[0][1]), *true[1:]], id="another first key"),
        pytest.param(
            lambda true: [(key, stored[:-32]) for key, stored in true], id="without record ids"
        ),
        pytest.param(
            lambda true: [encode_record(true[0][0], b"other", b""), *true[1:]],
            id="another identity",
        ),
        pytest.param(
            lambda true: [
                (true[0][0], encode_record(true[0][0], b"other", b"")[1][:-32] + true[0][1][-32:]),
                *true[1:],
            ],
            id="another identity under the old record id",
        ),
        pytest.param(lambda true: [(b"k", b"no record")], id="no record"),
    ],
)
def test_a_range_with_wrong_records_is_reported(trees: Trees, records: Any) -> None:
    pairs = numbered(100)
    tree = trees.write(pairs)
    each = next(each for each in tree.ranges if each.count > 3)
    true = [row for row in records_of(pairs) if each.min_key <= row[0] <= each.max_key]
    put(trees, each.id, records(true))
    with pytest.raises(CorruptFileError, match=each.id):
        trees.records([each])


def test_only_the_corrupt_range_is_reported(trees: Trees) -> None:
    tree = trees.write(numbered(200))
    bad = tree.ranges[5]
    body = bytearray(table(trees, bad.id).read_bytes())
    body[10] ^= 0xFF
    table(trees, bad.id).unlink()
    table(trees, bad.id).write_bytes(body)
    with pytest.raises(CorruptFileError, match=bad.id) as raised:
        trees.records(tree.ranges)
    reported = [each.id for each in tree.ranges if each.id in str(raised.value)]
    assert reported == [bad.id]


def is_refused(name: str, body: bytes) -> bool:
    try:
        verify_table(name, body)
    except CorruptFileError as error:
        return name in str(error)
    return False


def flipped(body: bytes, at: int) -> bytes:
    changed = bytearray(body)
    changed[at] ^= 0xFF
    return bytes(changed)


def test_a_flipped_byte_is_detected(trees: Trees) -> None:
    """Except for the unused zeros of the footer."""
    tree = trees.write(numbered(20), os.urandom(40))
    for name in (tree.ranges[0].id, tree.id):
        body = table(trees, name).read_bytes()
        flipped = (body[:at] + bytes([body[at] ^ 0xFF]) + body[at + 1 :] for at in range(len(body)))
        unnoticed = [
            at for at, each in enumerate(flipped, -len(body)) if not is_refused(name, each)
        ]
        assert unnoticed == [*range(min(unnoticed), -12)]
        assert min(unnoticed) > -FOOTER_BYTES


def test_a_metarange_of_different_ranges_is_reported(trees: Trees) -> None:
    tree, other = trees.write(numbered(100)), trees.write(numbered(50))
    body = table(trees, other.id).read_bytes()
    table(trees, tree.id).unlink()
    table(trees, tree.id).write_bytes(body)
    with pytest.raises(CorruptFileError, match=tree.id):
        trees.read_back(tree)


def test_a_range_in_place_of_a_metarange_is_reported(trees: Trees) -> None:
    tree = trees.write(numbered(100))
    name = MetaRangeId(tree.ranges[0].id)
    with pytest.raises(CorruptFileError, match=name):
        read_meta_range(trees.store, name)


# --- writing --------------------------------------------------------------------------------------


def test_writing_splits_records_into_ranges() -> None:
    pairs = numbered(300)
    ranges = [each for each, _ in write_ranges(in_blocks(records_of(pairs)), RANGE_RECORDS)]
    assert [each.info.id for each in ranges] == oracle.range_ids(pairs, RANGE_RECORDS)
    assert all(each.closed for each in ranges[:-1])


@pytest.mark.parametrize("position", [0, 150, 298])
def test_records_out_of_order_are_rejected(position: int) -> None:
    records = records_of(numbered(300))
    records[position], records[position + 1] = records[position + 1], records[position]
    with pytest.raises(Exception, match=r"(?i)order"):
        list(write_ranges(in_blocks(records), RANGE_RECORDS))


@pytest.mark.parametrize("position", [0, 150, 298])
def test_a_duplicate_key_is_rejected(position: int) -> None:
    records = records_of(numbered(300))
    records[position + 1] = records[position]
    with pytest.raises(Exception, match=r"(?i)order"):
        list(write_ranges(in_blocks(records), RANGE_RECORDS))


def test_an_existing_file_is_kept(trees: Trees) -> None:
    """What is there stands, whatever its addresses: equal ids, equal contents."""
    tree = trees.write(numbered(100), b"first")
    names, inode = trees.names(), table(trees, tree.ranges[0].id).stat().st_ino
    assert trees.write(numbered(100), b"second").id == tree.id
    assert trees.names() == names
    assert table(trees, tree.ranges[0].id).stat().st_ino == inode
    assert trees.records(tree.ranges) == records_of(numbered(100), b"first")


def test_adjacent_keys_are_distinguished(trees: Trees) -> None:
    keys = [b"k", successor(b"k"), b"k\0\0", b"k\1"]
    tree = trees.write(dict.fromkeys(keys, b"A"))
    assert [*trees.contents(tree)] == keys
