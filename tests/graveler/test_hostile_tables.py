"""Tables of any layout and any damage: read right, or refused, whatever their checksums say."""

from __future__ import annotations

import struct
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from campaigns.faults.damaged_tables import Damage, block_handles, damaged, with_block
from sparklake.errors import CorruptFileError
from sparklake.graveler import kernel_choice
from sparklake.graveler.blocks.block import Block, block_of_records
from sparklake.graveler.blocks.entry_columns import decode_entries
from sparklake.graveler.entries import Entry, entry_record
from sparklake.graveler.ids import file_id
from sparklake.graveler.records import Record, encode_record, plain_value
from sparklake.graveler.sstable.directory import DIRECTORY, BlockColumn
from sparklake.graveler.sstable.foreign import read_foreign
from sparklake.graveler.sstable.layout import Handle, meta_blocks
from sparklake.graveler.sstable.range_files import lakefs_id, read_range_file, verify_table
from sparklake.graveler.sstable.reader import DataBlocks, read_sstable
from sparklake.graveler.sstable.writer import make_table
from tests.golden.test_lakefs_tables import NAMESPACE
from tests.support.cases import for_each
from tests.support.damage import Layout, damages, layouts, rocksdb_table

HOSTILE = Path(__file__).parent.parent / "golden" / "hostile" / "range-segfault.bin"
NAME = "0" * 64
RECORDS = [
    (
        b"a/%03d" % (number // 7) + b"/%03d" % number,
        plain_value(b"i%d" % number, b"d" * (number * 3)),
    )
    for number in range(100)
]
OURS = [
    entry_record(f"t/{number:04d}", Entry(f"data/{number}", number, f"sum-{number}", 10**18))
    for number in range(300)
]
OUR_ID = file_id(b"".join(stored[-32:] for _, stored in OURS))

keys = st.binary(min_size=1, max_size=40) | st.text("ab/", min_size=1, max_size=20).map(str.encode)
values_by_key = st.dictionaries(keys, st.binary(max_size=300), min_size=1, max_size=40)


def table_of(records: list[Record], form: Layout) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return rocksdb_table(Path(folder) / "table", records, form)


# --- readable tables ------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(values_by_key, layouts)
def test_tables_of_rocksdb_are_read(values: dict[bytes, bytes], form: Layout) -> None:
    records = sorted(values.items())
    assert read_foreign("table", table_of(records, form)) == records


@pytest.mark.parametrize(
    "form",
    [
        Layout(format_version=0),
        Layout(format_version=5),
        Layout(format_version=6),
        Layout(checksum="xxh3"),
        Layout(checksum="no_checksum"),
        Layout(compression="lz4"),
        Layout(data_index="binary_and_hash"),
    ],
    ids=str,
)
def test_a_foreign_layout_is_rejected(form: Layout) -> None:
    with pytest.raises(CorruptFileError, match="some-table"):
        read_foreign("some-table", table_of(RECORDS, form))


def test_tables_are_read_without_rocksdict() -> None:
    code = (
        "import sys; sys.modules['rocksdict'] = None\n"
        "from pathlib import Path\n"
        "from sparklake.graveler.sstable.range_files import verify_table\n"
        "files = sorted(Path(sys.argv[1]).glob('?' * 64))\n"
        "for each in files: verify_table(each.name, each.read_bytes())\n"
        "print(len(files))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(NAMESPACE / "_lakefs")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) == len(list((NAMESPACE / "_lakefs").glob("?" * 64)))


# --- rejected tables ------------------------------------------------------------------------------


def test_a_table_that_crashed_rocksdb_is_rejected() -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from sparklake.errors import CorruptFileError\n"
        "from sparklake.graveler.sstable.range_files import verify_table\n"
        "try: verify_table(sys.argv[1], Path(sys.argv[2]).read_bytes())\n"
        "except CorruptFileError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, NAME, str(HOSTILE)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"_lakefs/{NAME} does not contain the records")


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(
        [
            Layout("none", restart_interval=4, block_bytes=512),
            Layout("none", "two_level_index_search", 64, 3, 1),
            Layout("snappy", block_bytes=512),
            Layout("zstd", block_bytes=512, bloom_filter=True),
        ]
    ),
    damages,
)
def test_a_damaged_foreign_table_is_rejected_or_read_right(
    form: Layout, damage: list[Damage]
) -> None:
    sound, handles = _sound(form)
    body = damaged(sound, handles, damage)
    try:
        assert all(len(record) == 2 for record in read_foreign("table", body))
        block = read_range_file(body, lakefs_id(RECORDS, {"type": "ranges"}))
    except CorruptFileError:
        return
    assert [(key, stored[:-32]) for key, stored in block.records()] == RECORDS


_FILES: dict[Layout, tuple[bytes, list[Handle]]] = {}


def _sound(form: Layout) -> tuple[bytes, list[Handle]]:
    if form not in _FILES:
        file = table_of(RECORDS, form)
        _FILES[form] = file, block_handles(file)
    return _FILES[form]


def looked_at(block: Block) -> None:
    """Read records in every way that verbs read them."""
    for key in (OURS[0][0], OURS[150][0], b"t/0100x", OURS[-1][0]):
        block.stored(key)
        block.position(key)
    block.slice(3, 200).records()
    _ = block.record(77), block.first_key, block.last_key
    block.find(block_of_records(OURS[20:40]).keys)
    _ = block.keys.array(), block.tombstones
    decode_entries(block)
    block.records()


OUR_FILES = {
    name: make_table(block_of_records(OURS), compress=name == "snappy").file
    for name in ("none", "snappy")
}


@settings(max_examples=400, deadline=None)
@given(st.sampled_from([*OUR_FILES]), damages)
def test_a_damaged_table_is_rejected_or_read(name: str, damage: list[Damage]) -> None:
    sound = OUR_FILES[name]
    body = damaged(sound, block_handles(sound), damage)
    try:
        verify_table(OUR_ID, body)
        block = read_sstable("table", body)
        if block is not None:  # Else the name of its directory was damaged, and all was read.
            looked_at(block)
            make_table(block)
    except CorruptFileError:
        return


@for_each("number", [1 << 31, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
@for_each("at", [0, 8, *(16 + 8 * each for each in range(len(BlockColumn) * 2))])
def test_an_impossible_number_in_a_directory_is_rejected(at: int, number: int) -> None:
    sound = OUR_FILES["none"]
    handle = meta_blocks(sound)[DIRECTORY]
    block = bytearray(sound[handle.offset : handle.offset + handle.size + 1])
    struct.pack_into("<Q", block, at, number)
    with pytest.raises(CorruptFileError, match="some-table"):
        read_sstable("some-table", with_block(sound, handle, bytes(block)))


@pytest.mark.parametrize("way", [nullcontext, kernel_choice.only_definitions])
@pytest.mark.parametrize("part", [DIRECTORY, b""])
def test_a_directory_that_contradicts_its_index_is_rejected(part: bytes, way: Any) -> None:
    sound = OUR_FILES["none"]
    table = read_sstable("some-table", sound)
    assert table is not None
    (blocks,) = table.units
    assert isinstance(blocks, DataBlocks)
    first, last = blocks.first_keys[0], blocks.last_keys[0]
    assert first < last
    handle = meta_blocks(sound)[part]
    block = sound[handle.offset : handle.offset + handle.size + 1]
    at = block.rindex(last)
    damaged = with_block(sound, handle, block[:at] + first + block[at + len(last) :])
    with way(), pytest.raises(CorruptFileError, match="some-table"):
        read_sstable("some-table", damaged)


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0x7FFFFFFF, 100_000_000])
def test_a_false_length_of_snappy_allocates_no_memory(size: int) -> None:
    sound, handles = _sound(Layout("snappy", block_bytes=512))
    declared = bytearray()
    while size > 0x7F:
        declared.append(size & 0x7F | 0x80)
        size >>= 7
    declared.append(size)
    handle = handles[0]
    block = bytearray(sound[handle.offset : handle.offset + handle.size + 1])
    block[: len(declared)] = declared
    with pytest.raises(CorruptFileError):
        read_foreign("table", with_block(sound, handle, bytes(block)))


def test_offsets_with_overflowing_sums_are_rejected() -> None:
    """Arrow takes the places of entries as they are, and looks at no bounds."""
    records = [encode_record(b"k%03d" % number, b"i", b"") for number in range(40)]
    sound = make_table(block_of_records(records), compress=False).file
    handle = block_handles(sound)[0]
    block = bytearray(sound[handle.offset : handle.offset + handle.size + 1])
    (count,) = struct.unpack_from("<I", block, handle.size - 4)
    for entry, place in ((1, 2_000_000_000), (2, 3_500_000_000)):
        struct.pack_into("<I", block, handle.size - 4 * (count + 1) + 4 * entry, place)
    damaged = read_sstable("some-table", with_block(sound, handle, bytes(block)))
    assert damaged is not None
    with pytest.raises(CorruptFileError, match="some-table"):
        damaged.take(damaged.leaves_at(damaged.starts[:1])).records()
