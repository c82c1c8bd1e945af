"""An application for spark-submit: writes of tables, and what befalls their tasks.

Prints one JSON object. Arguments: a folder for everything it makes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

import sparklake
from sparklake import Repository
from sparklake.session import spark_session

ROWS = 400
PARTITIONS = 4
WAIT_SECONDS = 60

Batches = Iterable[pa.RecordBatch]


def executor() -> int:
    """Return the process of the executor, a JVM: it has a daemon, and that one has us."""
    stat = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def first_time(marks: str, name: str) -> bool:
    try:
        Path(marks, name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def attempt() -> tuple[int, int]:
    context = TaskContext.get()
    assert context is not None
    return context.partitionId(), context.attemptNumber()


# --- each lets a task write some of its rows, and then strikes ------------------------------------


def fail_first(marks: str, batches: Batches) -> Iterator[pa.RecordBatch]:
    yield from batches
    partition, number = attempt()
    if number == 0:
        Path(marks, f"failed-{partition}").touch()
        raise RuntimeError("this attempt fails")


def kill_executor(marks: str, batches: Batches) -> Iterator[pa.RecordBatch]:
    yield from batches
    if attempt()[0] == PARTITIONS - 1 and first_time(marks, "killed"):
        os.kill(executor(), signal.SIGKILL)
        time.sleep(WAIT_SECONDS)


def straggle(marks: str, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Hold one task back until Spark runs it a second time; then both write at once."""
    partition, number = attempt()
    yield from batches
    if partition == 0:
        here, there = ("first", "second") if number == 0 else ("second", "first")
        Path(marks, here).touch()
        end = time.monotonic() + WAIT_SECONDS
        while not Path(marks, there).exists() and time.monotonic() < end:
            time.sleep(0.01)


def fail_always(marks: str, batches: Batches) -> Iterator[pa.RecordBatch]:
    yield from batches
    if attempt()[0] == PARTITIONS - 1:
        raise RuntimeError("every attempt fails")


def written(repo: Repository, folder: Path, fault: Callable[..., Any]) -> dict[str, Any]:
    """Write a table twice under a fault, and read it."""
    spark = spark_session()
    marks = folder / "marks" / fault.__name__
    marks.mkdir(parents=True)
    rows = spark.range(0, ROWS, 1, PARTITIONS).selectExpr("id", "concat('p ', id % 3) as part")
    struck = rows.mapInArrow(partial(fault, str(marks)), "id bigint, part string")
    branch = repo.create_branch(fault.__name__.replace("_", "-"), "main")
    error = ""
    try:
        branch.write(struck, "t", partition_by=["part"])
    except Exception as raised:  # noqa: BLE001
        error = str(raised)
    count = total = 0
    if not error:
        back = repo.read(branch.name, "t")
        count, total = back.count(), back.selectExpr("sum(id)").first()[0]
    (place,) = {each.address.split("/data/")[1][:32] for each in repo.objects(branch.name)} or {""}
    root = folder / "lake" / "data" / place
    on_disk = {str(path.relative_to(root)) for path in root.rglob("part-*")}
    staged = {each.path.removeprefix("t/") for each in repo.objects(branch.name)} - {"_SUCCESS"}
    return {
        "rows": [count, total],
        "failed": "every attempt fails" in error,
        "marks": sorted(each.name for each in marks.iterdir()),
        "staged": len(staged),
        "staged is all": not place or staged == on_disk,
        "writes": [each.state.value for each in repo.writes()],
    }


def main(folder: Path) -> dict[str, Any]:
    spark = spark_session("sparklake-write-test")
    # What a user's session may say, and a write must not follow.
    spark.conf.set("mapreduce.fileoutputcommitter.algorithm.version", "2")
    with sparklake.connect(home=folder / "home", spark=spark) as lake:
        repo = lake.create_repository("lake", str(folder / "lake"))
        faults = (fail_first, kill_executor, straggle, fail_always)
        return {each.__name__: written(repo, folder, each) for each in faults}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]))))
