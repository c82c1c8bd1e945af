"""Jobs through the real spark-submit, on a real cluster, with the package as a zip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from benchmarks.cluster import PACKAGE, Cluster
from tests.cli.running import Scene, ok, run, said

pytestmark = [pytest.mark.spark, pytest.mark.system]

SPARK, LOCAL = ("--engine", "spark"), ("--engine", "local")


def submit(cluster: Cluster, name: str, *arguments: str) -> tuple[int, Any]:
    """Submit a job; return its exit code and its result.

    spark-submit prints Python's stderr on its own stdout, between the lines of stdout.
    """
    ran = cluster.submit(PACKAGE / "jobs" / "run.py", name, *arguments, *SPARK)
    assert "Traceback" not in ran.stderr, ran.stderr
    first, result, last = ran.stdout.splitlines()
    assert first.endswith(": started")
    assert last.endswith(f"exit code {ran.returncode}")
    return ran.returncode, json.loads(result)


def diverge(scene: Scene) -> tuple[str, str]:
    """Change main, and stage changes on dev; both change `00`."""
    dev = scene.branch("dev")
    scene.commit("main", {"00": "main", "31": None})
    scene.put("dev", {"00": "dev!", "17": None, "new": "1"})
    return scene.uri("main"), dev


def without_times(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of a three-way diff in order, without what differs between two lakes."""
    sides, kept = ("base", "source", "dest"), ("type", "path", "size")
    return [
        {
            **{name: row[name] for name in kept},
            **{side: row[side] and (row[side]["size"], row[side]["checksum"]) for side in sides},
        }
        for row in sorted(rows, key=lambda row: row["path"])
    ]


def test_a_cluster_makes_of_the_verbs_what_this_process_makes(
    cluster: Cluster, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(40):
        (source / f"{number:02d}").write_text(f"content {number}")
    there, here = (Scene(tmp_path / each, "--range-records", "4") for each in ("there", "here"))
    for scene in (there, here):
        ok("import", scene.uri("main", ""), "--from", str(source), "-m", "load", *LOCAL)
    (main, dev), (our_main, our_dev) = diverge(there), diverge(here)
    code, made = submit(cluster, "commit", dev, "-m", "from dev", "--meta", "k=v")
    assert (code, made) == (0, said("log", dev)[0])
    expected = said("commit", our_dev, "-m", "from dev", *LOCAL)
    assert made["meta_range_id"] == expected["meta_range_id"]

    rows = str(tmp_path / "rows")
    code, counts = submit(cluster, "diff", main, dev, "--three-way", "--to", rows)
    assert (code, counts) == (0, {"added": 1, "removed": 1, "changed": 0, "conflict": 1})
    expected = said("diff", our_main, our_dev, "--three-way", *LOCAL)
    assert without_times(pq.read_table(rows).to_pylist()) == without_times(expected)

    code, failure = submit(cluster, "merge", dev, main)
    assert (code, failure["kind"], failure["count"]) == (3, "merge_conflict", 1)
    assert said("log", main)[0]["message"] == "change"
    ours = run("merge", our_dev, our_main, *LOCAL, "--output", "json")
    assert ours.code == 3
    assert without_times(ours.json["conflicts"]) == without_times(failure["conflicts"])
    assert failure["conflicts"][0]["dest_commit"]["id"] == said("log", main)[0]["id"]

    settled = ("--strategy", "source-wins")
    code, made = submit(cluster, "merge", dev, main, *settled)
    assert (code, made) == (0, said("log", main)[0])
    expected = said("merge", our_dev, our_main, *settled, *LOCAL)
    assert made["meta_range_id"] == expected["meta_range_id"]
