"""Keys of a Delta table and of its log."""

from __future__ import annotations

import pytest

from sparklake.metadata.delta.file_names import DELTA, commit_name, commit_version, log_listing
from sparklake.metadata.delta.paths import file_keys
from sparklake.metadata.formats import table_of
from sparklake.strategies.choosing import parse_resolution


@pytest.mark.parametrize(
    ("key", "folder"),
    [
        (b"a/b/_delta_log/00000000000000000001.json", b"a/b/_delta_log/"),
        (b"_delta_log/_last_checkpoint", b"_delta_log/"),
        (b"a/_delta_log/b/_delta_log/x", b"a/_delta_log/"),
        (b"a\n\xff/_delta_log/x", b"a\n\xff/_delta_log/"),
        (b"a/x_delta_log/y", None),
        (b"a/_delta_log", None),
    ],
)
def test_the_log_folder_of_a_key_is_found(key: bytes, folder: bytes | None) -> None:
    assert DELTA.find_folder(key) == folder


def test_table_folders_and_versions_are_derived() -> None:
    assert (table_of(b"a/b/_delta_log/"), table_of(b"_delta_log/")) == (b"a/b/", b"")
    assert commit_version(commit_name(12)) == 12
    assert commit_version("00000000000000000012.crc") is None


def test_a_listing_contains_only_complete_checkpoints() -> None:
    one, two = f"{1:020}.checkpoint", f"{2:020}.checkpoint"
    parts = [f"{two}.000000000{each}.0000000002.parquet" for each in (1, 2)]
    uuid = "0b1e2bf2-5e25-4d0a-8a6c-bd5ad1ee1bcd"
    second = f"{3:020}.checkpoint.{uuid}.parquet"
    compacted = f"{1:020}.{2:020}.compacted.json"
    names = [
        compacted,
        commit_name(2),
        f"{one}.parquet",
        *parts,
        second,
        "_last_checkpoint",
        "2.json",
    ]

    def listed(names: list[str]) -> tuple[dict[int, str], dict[int, list[str]]]:
        listing = log_listing(zip(names, names, strict=True))
        return dict(listing.commits), {each: list(of) for each, of in listing.checkpoints.items()}

    commits, classic = {2: commit_name(2)}, {1: [f"{one}.parquet"], 2: parts}
    assert listed(names) == (commits, {**classic, 3: [second]})
    # Several writers may write a checkpoint of one version: one of them is enough.
    again = f"{1:020}.checkpoint.{uuid}.json", second.replace("0b", "0c")
    assert listed([*again, *names]) == (commits, {**classic, 3: [second]})
    names.remove(parts[0])
    assert listed(names) == (commits, {1: [f"{one}.parquet"], 3: [second]})


def test_an_add_references_its_data_file_and_deletion_vector() -> None:
    # The example of Delta's protocol, whose short name another test reads.
    packed = "ab^-aqEH.-t@S}K{vb[*k^"
    path = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    vector = {"storageType": "u", "pathOrInlineDv": packed}
    fields = {"path": "p=a%20b/x.parquet", "deletionVector": vector}
    folder = b"t/_delta_log/"
    assert list(file_keys(folder, fields)) == [b"t/p=a b/x.parquet", b"t/" + path.encode()]
    for path in ("s3://elsewhere/x", "/elsewhere/x", "file:/x"):
        assert not list(file_keys(folder, {"path": path}))


@pytest.mark.parametrize(
    ("rules", "delta", "unites"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"**": "source-wins"}, True, True),
        ({"**/_delta_log/**": "source-wins"}, True, False),
        ({"other/_delta_log/**": "source-wins"}, True, True),
    ],
)
def test_only_a_rule_for_logs_applies_to_logs(
    rules: dict[str, str], delta: bool, unites: bool
) -> None:
    assert parse_resolution("dest-wins", rules, delta).unites(b"a/t/_delta_log/") is unites
