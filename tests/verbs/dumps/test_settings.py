"""The settings beside a dump: what a restore records, and files of earlier versions."""

from __future__ import annotations

import json
from pathlib import Path

from sparklake.layout import DUMP_SETTINGS_KEY
from sparklake.stores.objects import open_store
from sparklake.testing.lakes import memory_lake
from sparklake.verbs.dumps.settings import dump_settings, read_settings, renames_of, write_settings


def test_renames_are_kept_and_older_files_have_none(folder: Path) -> None:
    repo = memory_lake().create_repository("lake", str(folder / "ns"))
    manifest = repo.dump_refs().manifest
    store, settings = open_store(str(folder / "ns")), repo._context.refs.settings.get()
    assert renames_of(read_settings(store), manifest) == {}
    write_settings(store, dump_settings("main", 7, settings, (manifest,), {"heads/main": "trunk"}))
    kept = read_settings(store)
    assert kept is not None
    assert renames_of(kept, manifest) == {"heads/main": "trunk"}
    assert kept.manifests == (manifest,)
    stored = json.loads((folder / "ns" / DUMP_SETTINGS_KEY).read_text())
    del stored["renames"]
    (folder / "ns" / DUMP_SETTINGS_KEY).write_text(json.dumps(stored))
    assert renames_of(read_settings(store), manifest) == renames_of(None, manifest) == {}
