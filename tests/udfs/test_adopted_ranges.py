"""When an existing range replaces ours: every pair of addresses, existing or missing."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import mkdtemp

import pytest

from sparklake.errors import AddressConflictError
from sparklake.graveler.blocks.block import block_of_records
from sparklake.graveler.blocks.entry_columns import decode_entries
from sparklake.graveler.entries import AddressType, Entry, entry_record
from sparklake.graveler.ids import next_generation
from sparklake.graveler.ranges import MetaRange, RangeInfo
from sparklake.graveler.sstable.range_files import as_put, make_range, read_ranges, tree_file_key
from sparklake.rows.settings import Workspace
from sparklake.stores.objects.local.store import LocalStore
from sparklake.udfs.range_sink import RangeSink, open_sink
from tests.support.cases import for_each
from tests.support.trees import write_meta_range

BODY = b"body"
PATH = "k"


@dataclass(frozen=True)
class Place:
    """An address in an entry; `name` sets apart ours and theirs."""

    kind: str
    there: bool

    def entry(self, root: Path, name: str) -> Entry:
        """Return the entry, and write its object if it exists."""
        address = {
            "own": f"data/{name}",
            "spelled": f"file://localhost{root}/ns/data/{name}",
            "inside": f"raw/{name}",
            "outside": f"file://{root}/{name}",
        }[self.kind]
        full = "://" in address
        if self.there:
            path = Path(address.removeprefix("file://localhost").removeprefix("file://"))
            path = path if full else root / "ns" / path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(BODY)
        kind = AddressType.FULL if full else AddressType.RELATIVE
        return Entry(address, len(BODY), "checksum", 1 + len(name), address_type=kind)

    @property
    def is_own(self) -> bool:
        return self.kind in ("own", "spelled")


PLACES = [
    Place(kind, there)
    for kind, there in product(("own", "spelled", "inside", "outside"), (True, False))
]


def expected(ours: Place, theirs: Place, *, referenced: bool) -> str:
    """Return the fate of our range when theirs exists."""
    if not theirs.is_own:
        return "kept" if theirs.there and referenced else "refused"
    if theirs.there:
        return "kept"
    return "replaced" if ours.there or not ours.is_own else "kept"


def new_store(folder: Path) -> LocalStore:
    """Return the store of an existing namespace."""
    store = LocalStore(folder / "ns")
    store.root.mkdir()
    return store


def put(sink: RangeSink, entry: Entry) -> MetaRange:
    """Write the range of one object."""
    info = sink.write_one(block_of_records([entry_record(PATH, entry)]))
    sink.put()
    return write_meta_range(sink.store, [as_put(info, sink.replaced)])


@for_each("referenced", [False, True])
@for_each("theirs", PLACES)
@for_each("ours", PLACES)
def test_every_pair_of_addresses_has_the_expected_result(
    ours: Place, theirs: Place, referenced: bool, tmp_path: Path
) -> None:
    tmp_path = Path(mkdtemp(dir=tmp_path))
    store = new_store(tmp_path)
    theirs_entry = theirs.entry(tmp_path, "theirs")
    tree = put(RangeSink(store, 2, compress=False), theirs_entry)
    key = tree_file_key(tree.ranges[0].id)
    before = store.get(key)
    versions = (tree.id,) if referenced else ()
    sink = open_sink(Workspace(store.uri, 2, versions=versions), store)
    entry, outcome = ours.entry(tmp_path, "our"), expected(ours, theirs, referenced=referenced)
    if outcome == "refused":
        with pytest.raises(AddressConflictError) as raised:
            put(sink, entry)
        assert raised.value.path == PATH
        assert raised.value.address.endswith("/theirs")
        again = pickle.loads(pickle.dumps(raised.value))
        assert (str(again), again.path, again.address) == (
            *(str(raised.value), raised.value.path, raised.value.address),
        )
    else:
        result = put(sink, entry)
        assert (result.id == tree.id) == (outcome == "kept")
        if outcome == "replaced":
            assert result.ranges[0].id == next_generation(tree.ranges[0].id)
            assert put(open_sink(Workspace(store.uri, 2), store), entry).id == result.id
        there = store.find("data/theirs") if theirs.is_own else store.find("raw/theirs")
        if theirs.kind != "outside":
            assert (there is not None) == theirs.there, "nothing is restored at an old address"
    assert store.get(key) == before, "a range never changes"


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_equal_addresses_with_different_times_do_not_conflict(place: Place, tmp_path: Path) -> None:
    store = new_store(tmp_path)
    entry = place.entry(tmp_path, "theirs")
    again = Entry(entry.address, entry.size, "checksum", 99, address_type=entry.address_type)
    sink = RangeSink(store, 2, compress=False)
    assert put(sink, entry).id == put(sink, again).id


def test_a_generation_is_reused_until_its_objects_are_deleted(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    ids = []
    for name in ("one", "two", "three"):
        for writer in (name, name, f"beside {name}"):
            entry = Place("own", there=True).entry(tmp_path, writer)
            ids.append(put(RangeSink(store, 2, compress=False), entry).ranges[0].id)
        store.delete(f"data/{name}")
    first = ids[0]
    second = next_generation(first)
    assert ids == [first] * 3 + [second] * 3 + [next_generation(second)] * 3


def test_only_the_dead_range_is_replaced(tmp_path: Path) -> None:
    """Each range keeps its place, and readers verify the ids of all generations."""
    store = new_store(tmp_path)

    def write(name: str) -> list[RangeInfo]:
        sink = RangeSink(store, 2, compress=False)
        infos = []
        for path in ("a", "b", "c"):
            entry = Place("own", there=True).entry(tmp_path, f"{name}-{path}")
            infos.append(sink.write_one(block_of_records([entry_record(path, entry)])))
        sink.put()
        return [as_put(each, sink.replaced) for each in infos]

    first = write("one")
    store.delete("data/one-b")
    second = write("two")
    assert [each.id for each in second] == [first[0].id, next_generation(first[1].id), first[2].id]
    (block,) = read_ranges(store, second)
    addresses = decode_entries(block).address.to_pylist()
    assert addresses == ["data/one-a", "data/two-b", "data/one-c"]


def test_every_object_of_a_range_is_checked(tmp_path: Path) -> None:
    """A version that references one of two objects does not protect the other one."""
    store = new_store(tmp_path)

    def write(names: dict[str, str], *versions: MetaRange) -> MetaRange:
        entries = {
            path: Place("outside", there=True).entry(tmp_path, name) for path, name in names.items()
        }
        records = [entry_record(path, entry) for path, entry in entries.items()]
        info, file = make_range(block_of_records(records))
        ids = tuple(each.id for each in versions)
        sink = open_sink(Workspace(store.uri, 2, versions=ids), store)
        sink._files[info.id] = file
        sink.put()
        return write_meta_range(store, [info])

    both = {"a": "one", "b": "two"}
    write(both)
    version, other = write({"a": "one"}), write({"b": "two"})
    ours = {"a": "three", "b": "four"}
    for versions in ((), (version,), (other,)):
        with pytest.raises(AddressConflictError):
            write(ours, *versions)
    assert write(ours, version, other) == write(both)
