"""Files read by row merges, and partial tables with them, compared with dictionaries."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sparklake.metadata.iceberg.entries import Entry
from sparklake.metadata.iceberg.union.rows import RowFiles, RowTables
from sparklake.metadata.iceberg.union.snapshots import Table
from sparklake.metadata.union.conflicts import UnmergeableTableError
from sparklake.metadata.union.file_sets import SIDES
from tests.metadata.iceberg.test_unions import Model, Side, change, data, live
from tests.support.iceberg import HandTable

pytestmark = pytest.mark.parametrize("version", [1, 2, 3])


def fork(side: Side, name: str, model: Model) -> tuple[Side, Model]:
    return side.fork(name), {key: {*rows} for key, rows in model.items()}


def name_of(path: str) -> str:
    return path.rpartition("/")[2]


def rows_in(
    tables: RowTables, side: Side, at: int, files: dict[str, Entry]
) -> dict[str, list[int]]:
    """Return the rows deleted in the files of a partial table."""
    document, bodies = tables.partial(at, files.values(), lambda name: f"part/{name}", "p")

    def read(path: str) -> bytes:
        return bodies[path.removeprefix("part/")] if path.startswith("part/") else side.read(path)

    table = Table(document, read)
    # A reader of the partial table opens the manifests of its deletes and of nothing else.
    assert table.document["last-sequence-number"] >= len(side.snapshots)
    return live(table)


@pytest.mark.parametrize("seed", range(15))
def test_random_histories_have_the_expected_changed_files(
    version: int, seed: int, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    root, model = Side(HandTable(tmp_path / "t", version), version, "r", {}), Model()
    for at in range(4):
        change(root, model, rng, at)
    histories = [fork(root, name, model) for name in ("b", "d")]
    base, dest = histories
    for at in range(rng.choice([0, 0, 2])):
        change(*base, rng, at)
    source = fork(base[0], "s", base[1])
    for at in range(rng.randint(1, 4)):
        change(*source, rng, at)
        change(*dest, rng, at)
    sides = [base, source, dest]
    tables = [each.table() for each, _ in sides]
    files = RowFiles.of(tables)
    for at in (1, 2):
        paths = files.differing[0, at]
        names = {name_of(each) for each in paths}
        models = base[1], sides[at][1]
        every = models[0].keys() | models[1].keys()
        differing = {each for each in every if models[0].get(each) != models[1].get(each)}
        assert differing <= names
        for each, entries in zip(models, (files.sides[0], files.sides[at]), strict=True):
            assert {name_of(path) for path in entries} & names == each.keys() & names
    partial = RowTables.of(tables)
    for holders, entries in files.sets.items():
        names = {name_of(each) for each in entries}
        states = {side: model for side, (_, model) in zip(SIDES, sides, strict=True)}
        for holder in SIDES:
            # A file has the same deleted rows on the sides that have it, and others elsewhere.
            same = {each for each in names if states[holder].get(each) == states[holders[0]][each]}
            assert same == (names if holder in holders else set()), (holders, holder)
        if entries:
            at = SIDES.index(holders[0])
            deleted = {name: sorted(states[holders[0]][name]) for name in names}
            assert rows_in(partial, sides[at][0], at, dict(entries)) == deleted
    editable = {name_of(each) for each in files.editable}
    assert all(name in dest[1] for name in editable)


def test_different_partition_specs_are_rejected(version: int, tmp_path: Path) -> None:
    base = Side(HandTable(tmp_path / "t", version), version, "b", {})
    base.commit(data(base, "a"))
    source, dest = base.fork("s"), base.fork("d")
    source.commit(data(source, "c"), ["a"], "overwrite")
    dest.commit(data(dest, "e"), ["a"], "overwrite")
    source.more["partition-specs"] = [
        {
            "spec-id": 0,
            "fields": [{"field-id": 1000, "source-id": 1, "transform": "void", "name": "x"}],
        }
    ]
    tables = [each.table() for each in (base, source, dest)]
    with pytest.raises(UnmergeableTableError, match="partition spec"):
        RowTables.of(tables)
