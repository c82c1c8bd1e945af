"""What lakeFS wrote is read, and its identities and ids come out exactly."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from sparklake.errors import CorruptFileError
from sparklake.graveler.algebra.compare import diff
from sparklake.graveler.commits import commit_id, first_commit, new_commit
from sparklake.graveler.entries import (
    AddressType,
    Entry,
    decode_entry,
    encode_entry,
    entry_identity,
    record_entry,
)
from sparklake.graveler.ids import MetaRangeId, RangeId
from sparklake.graveler.keys import key_path
from sparklake.graveler.ranges import MetaRange, RangeInfo
from sparklake.graveler.records import Record, decode_record, has_trailer, with_trailer
from sparklake.graveler.sstable.range_files import read_meta_range, read_ranges
from sparklake.stores.objects import open_store
from sparklake.testing.folders import memory_folder
from tests.support.blocks import flat, in_blocks
from tests.support.cases import for_each
from tests.support.oracle import value_record_id

HERE = Path(__file__).parent
NAMESPACE = HERE / "namespace"
LISTING = json.loads((HERE / "listing.json").read_text())
RANGES: dict[str, list[dict[str, Any]]] = json.loads((HERE / "ranges.json").read_text())
COMMITS = LISTING["commits"]
WITH_TREE = [each for each in COMMITS if each["meta_range_id"]]
BY_ID = {each["id"]: each for each in COMMITS}

commits = for_each("commit", COMMITS)
trees = for_each("commit", WITH_TREE)
range_records = for_each("row", [row for rows in RANGES.values() for row in rows])


@pytest.fixture
def scratch() -> Iterator[Path]:
    with memory_folder() as folder:
        yield folder


def read_tree(meta_range_id: str, root: Path = NAMESPACE) -> MetaRange:
    return read_meta_range(open_store(str(root)), MetaRangeId(meta_range_id))


def read_records(meta_range_id: str, root: Path = NAMESPACE) -> list[Record]:
    tree = read_tree(meta_range_id, root)
    return flat(read_ranges(open_store(str(root)), tree.ranges))


def range_infos(commit: dict[str, Any]) -> list[RangeInfo]:
    return [
        RangeInfo(
            id=RangeId(each["id"]),
            min_key=each["min_key"].encode(),
            max_key=each["max_key"].encode(),
            count=each["count"],
            size=each["estimated_size"],
        )
        for each in commit["ranges"]
    ]


# --- commits --------------------------------------------------------------------------------------


@commits
def test_every_commit_id_is_reproduced(commit: dict[str, Any]) -> None:
    made = commit_id(
        commit["parents"],
        commit["committer"],
        commit["message"],
        commit["creation_date"],
        commit["meta_range_id"],
        commit["metadata"],
    )
    assert made == commit["id"]


def test_a_history_is_rebuilt_from_its_first_commit() -> None:
    built = {}
    for commit in sorted(COMMITS, key=lambda each: each["generation"]):
        if commit["parents"]:
            built[commit["id"]] = new_commit(
                parents=[built[parent] for parent in commit["parents"]],
                committer=commit["committer"],
                message=commit["message"],
                creation_date=commit["creation_date"],
                meta_range_id=commit["meta_range_id"],
                metadata=dict(reversed(commit["metadata"].items())),
            )
        else:
            built[commit["id"]] = first_commit(commit["creation_date"])
    assert {made.id: made.generation for made in built.values()} == {
        commit["id"]: commit["generation"] for commit in COMMITS
    }


# --- records and entries --------------------------------------------------------------------------


def nanoseconds(text: str) -> int:
    """Read a time of nine decimals, which datetime cannot."""
    seconds, _, decimals = text.removesuffix("Z").partition(".")
    moment = datetime.fromisoformat(seconds).replace(tzinfo=timezone.utc)
    return int(moment.timestamp()) * 1_000_000_000 + int(decimals.ljust(9, "0") or 0)


def golden_entry(row: dict[str, Any]) -> Entry:
    entry = row["entry"]
    return Entry(
        address=entry["address"],
        size=entry["size"],
        checksum=entry["e_tag"],
        mtime=nanoseconds(entry["last_modified"]),
        metadata=entry["metadata"] or {},
        content_type=entry["content_type"],
        address_type=AddressType(entry["address_type"]),
    )


@range_records
def test_every_entry_identity_is_reproduced(row: dict[str, Any]) -> None:
    assert entry_identity(golden_entry(row)).hex() == row["identity_hex"]


@range_records
def test_every_value_is_taken_apart(row: dict[str, Any]) -> None:
    key, stored = row["key"].encode(), bytes.fromhex(row["value_hex"])
    assert not has_trailer(key, stored)
    record = decode_record(key, stored)
    assert record.identity.hex() == row["identity_hex"]
    assert decode_entry(record.data) == golden_entry(row)
    kept = stored + value_record_id(key, record.identity)
    assert with_trailer(key, stored) == with_trailer(key, kept) == (key, kept)
    assert has_trailer(key, kept)


@range_records
def test_every_entry_is_encoded_to_the_same_bytes(row: dict[str, Any]) -> None:
    entry = golden_entry(row)
    theirs = decode_record(row["key"].encode(), bytes.fromhex(row["value_hex"])).data
    ours = encode_entry(entry)
    if len(entry.metadata) < 2:
        assert ours == theirs
    else:
        # Go writes maps in a random order: equal but for that.
        assert sorted(ours) == sorted(theirs)
        assert decode_entry(ours) == decode_entry(theirs)


# --- trees ----------------------------------------------------------------------------------------


@trees
def test_the_listing_of_every_commit_is_lakefs_own(commit: dict[str, Any]) -> None:
    listing = [
        {
            "path": key_path(record[0]),
            "path_type": "object",
            "physical_address": f"<storage namespace>/{entry.address}",
            "checksum": entry.checksum,
            "size_bytes": entry.size,
            "mtime": entry.mtime // 1_000_000_000,
            "content_type": entry.content_type,
            **({"metadata": entry.metadata} if entry.metadata else {}),
        }
        for record in read_records(commit["meta_range_id"])
        for entry in [record_entry(record)]
    ]
    assert listing == commit["entries"]


@trees
def test_the_ranges_of_every_commit_are_described(commit: dict[str, Any]) -> None:
    assert list(read_tree(commit["meta_range_id"]).ranges) == range_infos(commit)


@trees
def test_lakefs_records_get_their_record_ids(commit: dict[str, Any]) -> None:
    for key, stored in read_records(commit["meta_range_id"]):
        assert stored[-32:] == value_record_id(key, decode_record(key, stored).identity)


@trees
def test_the_diff_to_the_first_parent_is_lakefs_own(commit: dict[str, Any]) -> None:
    parent = BY_ID[commit["parents"][0]]
    changes = diff(
        in_blocks(read_records(parent["meta_range_id"])),
        in_blocks(read_records(commit["meta_range_id"])),
    )
    assert [
        {
            "path": key_path(each.key),
            "path_type": "object",
            "size_bytes": record_entry((each.key, each.right or each.left or b"")).size,
            "type": each.type.value,
        }
        for columns in changes
        for each in columns
    ] == commit["diff_to_first_parent"]


# --- bad bytes ------------------------------------------------------------------------------------

TABLES = sorted(path.name for path in (NAMESPACE / "_lakefs").iterdir())
INFOS = {each.id: each for commit in WITH_TREE for each in range_infos(commit)}
STRIDE = 101
# RocksDB's footer: a checksum type, two handles, zeros up to byte 41, version, magic. The zeros are
# the only bytes that nobody reads.
FOOTER_BYTES = 53
PADDING = range(-46, -12)

tables = for_each("name", TABLES)


def read_table(name: str, root: Path) -> object:
    """Read one table, whichever kind it is."""
    if name in INFOS:
        return flat(read_ranges(open_store(str(root)), [INFOS[RangeId(name)]]))
    return read_tree(name, root)


def tried(name: str, body: bytes, scratch: Path) -> object:
    """Read a table whose file holds other bytes; return CorruptFileError if that names it."""
    root = scratch / "namespace"
    file = root / "_lakefs" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    file.write_bytes(body)
    try:
        return read_table(name, root)
    except CorruptFileError as error:
        return CorruptFileError if name in str(error) else error


def flipped(body: bytes, at: int) -> bytes:
    changed = bytearray(body)
    changed[at] ^= 0xFF
    return bytes(changed)


def unnoticed(name: str, body: bytes, places: Iterable[int], scratch: Path) -> set[int]:
    return {at for at in places if tried(name, flipped(body, at), scratch) is not CorruptFileError}


@tables
def test_a_flipped_byte_is_found(name: str, scratch: Path) -> None:
    body = (NAMESPACE / "_lakefs" / name).read_bytes()
    places = range(int(name[:4], 16) % STRIDE, len(body) - FOOTER_BYTES, STRIDE)
    assert unnoticed(name, body, places, scratch) == set()


@pytest.mark.parametrize("name", [TABLES[0], min(INFOS)], ids=["metarange", "range"])
def test_a_flipped_byte_of_a_footer_is_found_or_changes_nothing(name: str, scratch: Path) -> None:
    body = (NAMESPACE / "_lakefs" / name).read_bytes()
    assert unnoticed(name, body, range(-FOOTER_BYTES, 0), scratch) == set(PADDING)
    truth = read_table(name, NAMESPACE)
    assert all(tried(name, flipped(body, at), scratch) == truth for at in PADDING)


@tables
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda body: b"", id="emptied"),
        pytest.param(lambda body: body[:-1], id="last byte lost"),
        pytest.param(lambda body: body[: len(body) // 2], id="half lost"),
        pytest.param(lambda body: body + b"\0", id="a byte appended"),
        pytest.param(lambda body: bytes(len(body)), id="zeroed"),
    ],
)
def test_a_torn_file_is_found(name: str, damage: Callable[[bytes], bytes], scratch: Path) -> None:
    body = (NAMESPACE / "_lakefs" / name).read_bytes()
    assert tried(name, damage(body), scratch) is CorruptFileError


@tables
def test_another_table_under_the_name_is_found(name: str, scratch: Path) -> None:
    other = TABLES[TABLES.index(name) - 1]
    body = (NAMESPACE / "_lakefs" / other).read_bytes()
    assert tried(name, body, scratch) is CorruptFileError


def test_reading_leaves_the_files_as_they_are(scratch: Path) -> None:
    root = scratch / "namespace"
    shutil.copytree(NAMESPACE, root)
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in root.glob("*/*")}
    for name in TABLES:
        read_table(name, root)
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in root.glob("*/*")} == (
        before
    )
    assert list(scratch.iterdir()) == [root]
