"""Exports and purges in several threads do what one thread does."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparklake import Engine, Lake
from sparklake.engine import choice
from sparklake.engine.choice import Runners
from sparklake.errors import CorruptFileError, PurgedError
from sparklake.testing.lakes import commit_all, contents
from sparklake.testing.memory import MemoryRefStore
from tests.verbs.exports.test_export import tree_of


@pytest.mark.system
def test_threads_export_and_purge(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "THREAD_RECORDS", 1)
    tree = {f"{part}/{number:02}": b"%d" % number for part in "ab" for number in range(20)}
    with Lake(MemoryRefStore(), Runners(Engine.LOCAL, workers=2), "tester") as lake:
        repo = lake.create_repository("lake", str(folder / "namespace"), range_records=4)
        main = repo.branch("main")
        commit_all(main, dict(tree), "first")
        repo.export("main", str(folder / "out"))
        assert tree_of(folder / "out") == tree
        made = repo.purge(["a/*"], commit=True)
        assert made.counts.addresses == 20
        assert len(list((folder / "namespace" / "data").iterdir())) == 20
        with pytest.raises(PurgedError):
            repo.read_bytes("main~1", "a/07")
        repo.export("main", str(folder / "out"), incremental=True)
        assert tree_of(folder / "out") == contents(repo, "main")
        path = Path(repo.stat("main", "b/03").address.removeprefix("file://"))
        path.unlink()
        path.write_bytes(b"9")
        with pytest.raises(CorruptFileError, match="b/03"):
            repo.export("main", str(folder / "other"))
