"""JSON files of a lake with invalid UTF-8, invalid JSON or deep nesting."""

from __future__ import annotations

from pathlib import Path

import pytest

from campaigns.postgres import SYSTEM_FOLDER
from sparklake.errors import CorruptFileError, InvalidInputError, RefStoreUnavailableError
from sparklake.graveler.dumps.dump import read_dump_manifest
from sparklake.graveler.json_errors import decode_json
from sparklake.graveler.parquet_files import decode_parquet
from sparklake.layout import REFS_MANIFEST_KEY, SWEEP_MARKER_KEY, sweep_marker_key
from sparklake.metadata.delta.actions import decode_actions
from sparklake.metadata.delta.checkpoints import checkpoint_parts, rewritten_checkpoint
from sparklake.metadata.delta.union.predicates import parse_predicate
from sparklake.metadata.delta.union.schemas import same_metadata
from sparklake.metadata.union.conflicts import UnmergeableTableError
from sparklake.settings_file import read_settings_file
from sparklake.stores.embedded.accounts import owner_account
from sparklake.stores.embedded.home import _read_note, _sound_note, _system_base, _write_note
from sparklake.stores.objects import open_store
from sparklake.testing.folders import memory_folder
from sparklake.verbs.gc.runs import open_sweeps

BODIES = [b'{"add": "\xff"}', b"[" * 100_000, b"\xff", b"{", b'{"branches_meta_range_id": "\xff"}']


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_a_delta_commit_with_invalid_json_is_corrupt(body: bytes) -> None:
    with pytest.raises(CorruptFileError, match=r"0\.json"):
        decode_actions(body, "0.json")


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_a_manifest_with_invalid_json_is_corrupt(body: bytes) -> None:
    with memory_folder() as folder:
        store = open_store(str(folder))
        store.replace(REFS_MANIFEST_KEY, body)
        with pytest.raises(CorruptFileError, match="refs_manifest"):
            read_dump_manifest(store)


@pytest.mark.parametrize("body", [b"", b"PAR1", b"PAR1" + b"x" * 60 + b"PAR1"])
def test_a_checkpoint_that_is_not_parquet_is_corrupt(body: bytes, tmp_path: Path) -> None:
    names, read = ["0.checkpoint.parquet"], {"0.checkpoint.parquet": body}.__getitem__
    with pytest.raises(CorruptFileError, match=r"0\.checkpoint\.parquet in it is not"):
        rewritten_checkpoint(names, read, tmp_path, lambda files: None, "it")
    with pytest.raises(CorruptFileError, match=r"0\.checkpoint\.parquet is not Parquet"):
        list(checkpoint_parts(names, read, "add"))


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_our_own_file_with_invalid_json_is_corrupt(body: bytes) -> None:
    with pytest.raises(CorruptFileError, match=r"^plan\.json in s3://b is damaged"):
        decode_json(body, list[str], "plan.json in s3://b")


@pytest.mark.parametrize("body", [b"", b"PAR1", b"PAR1" + b"x" * 60 + b"PAR1"])
def test_a_receipt_that_is_not_parquet_is_corrupt(body: bytes) -> None:
    with pytest.raises(CorruptFileError, match=r"^a receipt is not a Parquet file"):
        decode_parquet(body, "a receipt", ["address"])


@pytest.mark.parametrize("key", [SWEEP_MARKER_KEY, sweep_marker_key("sweep")])
@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"../elsewhere"])
def test_an_invalid_collection_marker_is_corrupt(body: bytes, key: str) -> None:
    with memory_folder() as folder:
        store = open_store(str(folder))
        store.replace(key, body)
        with pytest.raises(CorruptFileError, match=key):
            open_sweeps(store)


@pytest.mark.parametrize("schema", ["{", "[" * 100_000, "[]", '{"fields": [{}]}', 7])
def test_a_delta_table_with_a_damaged_schema_is_not_merged(schema: object) -> None:
    metadata = {"schemaString": schema}
    with pytest.raises(UnmergeableTableError, match="the table's schema"):
        parse_predicate("a = 1", metadata)
    if schema != '{"fields": [{}]}':
        with pytest.raises(UnmergeableTableError, match="the table's schema"):
            same_metadata(metadata, {})


def test_a_predicate_ignores_nested_columns() -> None:
    schema = (
        '{"fields": [{"name": "s", "type": {"type": "struct"}}, {"name": "a", "type": "long"}]}'
    )
    predicate = parse_predicate("a = 1", {"schemaString": schema})
    assert predicate is not None
    assert predicate.types == {"a": ("a", "long")}


@pytest.mark.parametrize("body", [b"\xff", b"a = " + b"[" * 100_000, b"a ="])
def test_a_damaged_settings_file_is_reported(tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "sparklake.toml"
    path.write_bytes(body)
    with pytest.raises(InvalidInputError, match=r"sparklake\.toml is invalid"):
        read_settings_file(path)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[]", b"{}"])
def test_a_damaged_home_note_is_rewritten_unless_refs_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    monkeypatch.setenv(SYSTEM_FOLDER, str(tmp_path / "system"))
    folder = tmp_path / "home" / "postgres"
    folder.mkdir(parents=True, mode=0o700)
    base = _system_base(folder, owner_account(folder))
    assert _system_base(folder, owner_account(folder)) == base
    (base / "data").mkdir()
    (folder / "place.json").write_bytes(body)
    with pytest.raises(RefStoreUnavailableError, match=str(base)) as raised:
        _system_base(folder, owner_account(folder))
    assert str(folder / "place.json") in str(raised.value)
    assert _sound_note(folder) == {}
    _write_note(folder, {"sockets": "/run/x"})
    assert _read_note(folder) == {"sockets": "/run/x", "home": str(folder.parent)}
