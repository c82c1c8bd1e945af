"""The stores of a purge's tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparklake.namespace.nesting import NamespaceMarks
from sparklake.rows.settings import Workspace
from sparklake.udfs import purges
from sparklake.udfs.purges import _Places

if TYPE_CHECKING:
    import pytest


def test_the_markers_of_a_store_are_created_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = []

    def new_marks(store: Any, *, own_root: bool = False) -> NamespaceMarks:
        roots.append((store.uri, own_root))
        return NamespaceMarks(store, own_root=own_root)

    monkeypatch.setattr(purges, "NamespaceMarks", new_marks)
    own, other = tmp_path / "own", tmp_path / "other"
    for each in (own / "data", other):
        each.mkdir(parents=True)
        for name in "abc":
            (each / name).write_bytes(b"bytes")
    workspace = Workspace(own.as_uri(), 100)
    places = _Places(workspace, workspace.open_store(), True)
    addresses = [f"{each.as_uri()}/{name}" for each in (own / "data", other) for name in "abc"]
    assert [places.find_owner(each) for each in addresses] == [None] * 6
    assert all(places.delete(each) for each in addresses)
    assert [own_root for _, own_root in roots] == [False, True]
    assert not [*(own / "data").iterdir(), *other.iterdir()]
