"""A driver that dies when Spark has written a table, and before a file of it is staged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.spark import spark_environment
from sparklake import Lake, Repository
from sparklake.graveler.ports import WriteState

ROOT = Path(__file__).parents[2]
ROWS = 20


def submit(
    module: str, dsn: str, repo: Repository, source: Path
) -> subprocess.CompletedProcess[str]:
    target = f"lakefs://{repo.name}/main/t/"
    options = ["--dsn", dsn, "--partition-by", "part"]
    environment = {**os.environ, **spark_environment()}
    command = [sys.executable, "-m", module, "write", target, "--from", source.as_uri(), *options]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.spark
@pytest.mark.system
def test_a_write_whose_driver_dies_stages_nothing(
    local_lake: Lake, lake_dsn: str, names: Iterator[str], namespace: Path, tmp_path: Path
) -> None:
    repo = local_lake.create_repository(next(names), str(namespace), range_records=8)
    source = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": range(ROWS), "part": ["a", "b"] * (ROWS // 2)}), source)

    died = submit("tests.support.dying_writer", lake_dsn, repo, source)
    assert died.returncode == -signal.SIGKILL, died.stderr[-5000:]
    assert not repo.branch("main").is_dirty
    (left,) = repo.writes()
    assert left.state is WriteState.OPEN
    orphans = set((namespace / left.place).rglob("part-*"))
    assert len(orphans) >= 2

    # Nobody knows that it is dead: its files are spared until it is abandoned.
    assert repo.collect_garbage(grace=timedelta()).run.objects == 0
    repo.abandon_write(left.id)

    done = submit("sparklake.jobs.run", lake_dsn, repo, source)
    assert done.returncode == 0, done.stderr[-5000:]
    assert json.loads(done.stdout)["files"] == len(staged(repo)) > 2
    repo.collect_garbage(grace=timedelta())
    assert not any(each.exists() for each in orphans)
    assert rows(repo) == list(range(ROWS))


def staged(repo: Repository) -> list[str]:
    return [each.path for each in repo.objects("main")]


def rows(repo: Repository) -> list[int]:
    """Return the ids of all rows, read without Spark."""
    found: list[int] = []
    for path in staged(repo):
        if path.endswith(".parquet"):
            with repo.open("main", path) as file:
                found += pq.read_table(file)["id"].to_pylist()
    return sorted(found)
