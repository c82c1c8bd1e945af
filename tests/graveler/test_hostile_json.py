"""JSON files of a lake that are none: text that is not UTF-8, and lists too deep."""

from __future__ import annotations

import pytest

from sparklake.delta_log.actions import decode_actions
from sparklake.delta_log.copy import copied_checkpoint
from sparklake.errors import CorruptFileError
from sparklake.graveler.refs.dump import MANIFEST_KEY, read_manifest
from sparklake.stores.objects import open_store
from tests.support.folders import memory_folder

BODIES = [b'{"add": "\xff"}', b"[" * 100_000, b"\xff", b"{", b'{"branches_meta_range_id": "\xff"}']


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_a_delta_commit_that_is_no_json_is_corrupt(body: bytes) -> None:
    with pytest.raises(CorruptFileError, match=r"0\.json"):
        decode_actions(body, "0.json")


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_a_manifest_that_is_no_json_is_corrupt(body: bytes) -> None:
    with memory_folder() as folder:
        store = open_store(str(folder))
        store.replace(MANIFEST_KEY, body)
        with pytest.raises(CorruptFileError, match="refs_manifest"):
            read_manifest(store)


@pytest.mark.parametrize("body", [b"", b"PAR1", b"PAR1" + b"x" * 60 + b"PAR1"])
def test_a_checkpoint_that_is_no_parquet_is_corrupt(body: bytes) -> None:
    with pytest.raises(CorruptFileError, match="checkpoint"):
        copied_checkpoint(body, lambda files: None)
