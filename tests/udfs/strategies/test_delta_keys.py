"""Which keys belong to a Delta table, and which to its log."""

from __future__ import annotations

import pytest

from sparklake.udfs.strategies.choosing import parse_resolution
from sparklake.udfs.strategies.delta.files import file_keys, vector_path
from sparklake.udfs.strategies.delta.keys import commit_key, commit_version, log_folder, table_name


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
def test_the_folder_of_a_log(key: bytes, folder: bytes | None) -> None:
    assert log_folder(key) == folder


def test_names() -> None:
    assert (table_name(b"a/b/_delta_log/"), table_name(b"_delta_log/")) == ("a/b", "/")
    folder = b"t/_delta_log/"
    assert commit_version(folder, commit_key(folder, 12)) == 12
    assert commit_version(folder, folder + b"00000000000000000012.crc") is None


def test_the_files_of_an_add() -> None:
    # The example of Delta's protocol.
    packed = "ab^-aqEH.-t@S}K{vb[*k^"
    path = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert vector_path(packed) == path
    vector = {"storageType": "u", "pathOrInlineDv": packed}
    said = {"path": "p=a%20b/x.parquet", "deletionVector": vector}
    folder = b"t/_delta_log/"
    assert list(file_keys(folder, said)) == [b"t/p=a b/x.parquet", b"t/" + path.encode()]
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
def test_only_a_rule_for_logs_is_for_logs(rules: dict[str, str], delta: bool, unites: bool) -> None:
    assert parse_resolution("dest-wins", rules, delta).unites(b"a/t/_delta_log/") is unites
