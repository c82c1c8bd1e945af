"""A restore of lakeFS's dump names addresses that sparklake cannot read."""

from __future__ import annotations

from hashlib import md5
from pathlib import Path

import pytest

from sparklake import Lake, Repository
from sparklake.graveler.entries import AddressType, Entry
from sparklake.layout import DUMP_SETTINGS_KEY
from sparklake.testing.lakes import memory_lake
from tests.support.foreign import foreign_record, restored_tree


@pytest.fixture
def lake() -> Lake:
    return memory_lake()


def foreign_addresses(lake: Lake, folder: Path) -> Repository:
    def entry(address: str) -> Entry:
        return Entry(address, 1, md5(b"1").hexdigest(), 10**9, address_type=AddressType.FULL)

    addresses = {
        "a": "local:///x/y",
        "b": "hdfs://name/b",
        "c": "s3://bucket/c:/d",
        "d": "https://host/container/d",
        "e": "s3a://bucket/e",
    }
    records = [foreign_record(path, entry(each)) for path, each in addresses.items()]
    return restored_tree(lake, folder / "ns", records, cuts=[2])


def test_addresses_in_stores_without_support_are_named(lake: Lake, folder: Path) -> None:
    foreign_addresses(lake, folder)
    (folder / "ns" / DUMP_SETTINGS_KEY).unlink()
    noted: dict[bool, list[str]] = {True: [], False: []}
    for checks, notes in noted.items():
        memory_lake().restore_repository(
            "lake", str(folder / "ns"), on_note=notes.append, check_addresses=checks
        )
        (folder / "ns" / DUMP_SETTINGS_KEY).unlink()
    (note,) = set(noted[True]) - set(noted[False])
    assert note.startswith("2 objects are in stores that sparklake cannot read")
    assert "the first is 'b' at hdfs://name/b." in note


def test_ranges_that_cannot_be_read_are_no_obstacle(lake: Lake, folder: Path) -> None:
    repo = foreign_addresses(lake, folder)
    (first, _) = repo._context.tree(repo.resolve("main")).ranges
    (folder / "ns" / "_lakefs" / first.id).unlink()
    (folder / "ns" / DUMP_SETTINGS_KEY).unlink()
    notes: list[str] = []
    memory_lake().restore_repository(
        "lake", str(folder / "ns"), on_note=notes.append, incomplete=True
    )
    assert any("the addresses of objects could not be read" in each for each in notes)
