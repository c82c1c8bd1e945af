"""Where plans run when nobody says: here while they are small, by Spark when it is worth a job."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from sparklake import Lake
from sparklake.config import Engine
from sparklake.engine import choice
from sparklake.engine.choice import Runners
from sparklake.engine.spark import SparkRunner
from sparklake.testing.memory import MemoryRefStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL_WORK = """
import json, sys
from pathlib import Path
import pyarrow as pa
import sparklake

dsn, folder = sys.argv[1], Path(sys.argv[2])
(folder / "source").mkdir()
(folder / "source" / "a.csv").write_text("a")
with sparklake.connect(dsn=dsn, home=folder) as lake:
    repo = lake.create_repository("no-spark", str(folder / "namespace"))
    main = repo.branch("main")
    main.import_objects(str(folder / "source"), "raw")
    main.put("x", b"1")
    main.stage(pa.table({"path": ["y"], "size": [1], "address": ["data/y"], "checksum": ["c"]}))
    main.commit("staged")
    dev = repo.create_branch("dev", "main")
    dev.put("x", b"2")
    list(dev.diff())
    dev.commit("changed")
    assert len(list(repo.diff("main", "dev"))) == 1
    repo.merge("dev", "main")
    assert repo.objects("main").to_arrow().num_rows == 3
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""


def test_small_work_loads_no_spark(lake_dsn: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", SMALL_WORK, lake_dsn, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {"pyspark", "py4j"} & set(json.loads(done.stdout)) == set()


@pytest.fixture
def small_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "SPARK_RECORDS", 10)


@pytest.mark.spark
def test_spark_at_hand_takes_what_is_large(spark: SparkSession, small_threshold: None) -> None:
    for runners in (Runners(Engine.AUTO, spark), Runners()):
        assert [runners.choose(records).name for records in (0, 9, 10)] == [
            "local",
            "local",
            "spark",
        ]


def test_a_choice_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def why(records: int, runners: Runners) -> tuple[str, str]:
        choice = runners.choice(records)
        return choice.engine, choice.reason

    monkeypatch.setattr(choice, "active_session", lambda: None)
    two = Runners(workers=2)
    below = f"12,345 records to read, below {choice.THREAD_RECORDS:,}"
    assert why(12_345, two) == ("local", below)
    least = f"{choice.THREAD_RECORDS:,}"
    enough = f"{least} records to read, {least} or more, with 2 threads"
    assert why(choice.THREAD_RECORDS, two) == ("threads", enough)
    assert why(10**9, Runners(workers=1))[0] == "local"
    assert why(0, Runners(Engine.SPARK)) == ("spark", "the engine is set by the user")
    for session, engine in ((None, "threads"), (object(), "spark")):
        monkeypatch.setattr(choice, "active_session", lambda session=session: session)
        assert why(10**9, two)[0] == engine
        assert why(10**9, Runners(Engine.LOCAL, workers=2))[0] == "threads"


@pytest.mark.spark
def test_a_fixed_engine_takes_all(spark: SparkSession, small_threshold: None) -> None:
    assert {Runners(Engine.LOCAL, spark).choose(each).name for each in (0, 100)} == {"local"}
    assert {Runners(Engine.SPARK, spark).choose(each).name for each in (0, 100)} == {"spark"}


@pytest.mark.spark
def test_a_commit_runs_on_spark_from_its_size_on(
    spark: SparkSession, small_threshold: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []
    collect = SparkRunner.collect

    def noting(runner: SparkRunner, body: object, work: pa.Table) -> list[pa.RecordBatch]:
        ran.append(work.num_rows)
        return collect(runner, body, work)

    monkeypatch.setattr(SparkRunner, "collect", noting)
    lake = Lake(MemoryRefStore(), Runners(Engine.AUTO, spark), "tester")
    repo = lake.create_repository("lake", str(tmp_path / "namespace"), range_records=4)
    main = repo.branch("main")
    paths = [f"x/{number:03d}" for number in range(100)]

    def stage(size: int) -> None:
        columns = {"path": paths, "size": [size] * 100, "address": paths, "checksum": paths}
        main.stage(pa.table(columns))

    stage(1)
    main.commit("what is taken over by id")
    main.put("x/050", b"one")
    main.commit("small")
    assert ran == []
    stage(2)
    main.commit("large")
    assert ran == [1]
    assert {each.size for each in repo.objects("main")} == {2}
