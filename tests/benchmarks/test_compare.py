"""The comparison with lakeFS's engine: equal data, checked contents, and its rows."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from benchmarks import compare, contents, data, peer
from sparklake import connect
from sparklake.graveler.ids import MetaRangeId
from tests.support.peer import needs_peer

COUNT = 2000
OPERATIONS = [
    ("build", "all", 2000),
    ("list", "all", 2000),
    ("lookup", "random", 2000),
    ("stat", "random", 2000),
    *(
        (op, mode, d)
        for mode, d in compare.sizes(compare.COMMITS, COUNT)
        for op in ("commit", "diff")
    ),
    *(("merge", mode, d) for mode, d in compare.sizes(compare.MERGES, COUNT)),
]


@needs_peer
@pytest.mark.system
def test_a_comparison_has_a_row_for_every_operation(tmp_path: Path) -> None:
    rows_file, table = tmp_path / "rows.json", tmp_path / "table.md"
    options = ["-n", COUNT, "--reps", 1, "--engine", "local", "--folder", tmp_path]
    files = ["--json", rows_file, "--table", table]
    compare.main([str(each) for each in (*options, *files)])
    rows = [json.loads(line) for line in rows_file.read_text().splitlines()]
    assert [(row["op"], row["mode"], row["d"]) for row in rows] == OPERATIONS
    assert list(rows[0])[:9] == [
        "op", "mode", "d", "n", "ours_wall", "ours_cpu", "peer_wall", "peer_cpu", "ratio_wall",
    ]  # fmt: skip
    for row in rows:
        assert row["ratio_wall"] == pytest.approx(row["peer_wall"] / row["ours_wall"], rel=0.1)
        nothing_counted = row["op"] in ("lookup", "stat") or (row["op"], row["mode"]) == (
            "merge", "cluster",
        )  # fmt: skip
        assert row["ours_ranges_read"] > 0 or nothing_counted
        assert (row["ours_ranges_written"] > 0) == (row["op"] in ("build", "commit", "merge"))
        assert row["ours_driver_mb"] > 10
    assert table.read_text().count("\n| ") == len(OPERATIONS) + 2


@needs_peer
@pytest.mark.parametrize("mode", ["random", "cluster"])
@pytest.mark.parametrize("seed", [1, 2, 7])
def test_change_sets_equal_those_of_the_peer(mode: str, seed: int) -> None:
    options = ["-n", str(COUNT), "-d", "500", "-seed", str(seed), "-mode", mode]
    done = subprocess.run(
        [peer.PROGRAM, "changes", *options], capture_output=True, text=True, check=True
    )
    kinds = {data.Kind.DELETE: "del", data.Kind.ADD: "add", data.Kind.PUT: "put"}
    changes = data.changes(COUNT, 500, mode, seed)
    lines = [
        f"{index} {kinds[data.Kind(kind)]} {path}"
        for index, kind, path in zip(changes.index, changes.kind, changes.paths, strict=True)
    ]
    assert lines == done.stdout.splitlines()


@pytest.mark.parametrize("mode", ["random", "cluster"])
def test_merge_sides_have_no_common_entry(mode: str) -> None:
    source, dest = data.merge_sides(COUNT, 600, mode)
    assert len(source) == len(dest) == 600
    assert not set(source.index) & set(dest.index)


def test_different_contents_are_detected(tmp_path: Path) -> None:
    base = data.write_base(tmp_path / "base.arrow", COUNT)
    changes = data.changes(COUNT, 300, "random")
    with connect(tmp_path / "home", engine="local") as lake:
        repo = lake.create_repository("bench", str(tmp_path / "lake"))
        main = repo.branch("main")
        main.stage(base)
        main.commit("base")
        main.stage(changes.rows())
        tree = main.commit("changes").meta_range_id

    def digest(*sets: data.Changes) -> str:
        return contents.digest_of_data(base, *sets)

    digest_after = contents.digest_of_tree(str(tmp_path / "lake"), MetaRangeId(tree))
    assert digest_after == digest(changes)
    assert digest_after != digest()
    others = data.Changes(changes.index, changes.kind, version=2)
    fewer = data.Changes(changes.index[1:], changes.kind[1:], changes.version)
    assert digest_after not in (digest(others), digest(fewer))
