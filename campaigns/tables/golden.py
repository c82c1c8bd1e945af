"""Delta tables of other writers, read at a ref and merged, and compared with Spark.

    python -m campaigns.tables.golden FOLDER --table figures.md

FOLDER contains tables, such as delta-kernel-rs's `kernel/tests/golden_data`, unpacked. Each is read
by Spark at its place, imported, and read at a ref: the rows must be equal. Then two branches append
the rows of the first one, and are merged: each appended row must be there.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from campaigns.tables.session import small_session
from sparklake import Branch, Repository
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import memory_lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SHOWN = 120


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--table", type=Path, help="write the figures to this file")
    parser.add_argument("--reads", action="store_true", help="merge nothing")
    options = parser.parse_args()
    logs = sorted(options.folder.resolve().rglob("_delta_log"))
    figures = Counter[str]()
    with memory_folder() as folder, small_session(folder / "spark") as spark, memory_lake() as lake:
        repo = lake.create_repository("golden", str(folder / "namespace"))
        for number, log in enumerate(logs):
            name = str(log.parent.relative_to(options.folder.resolve()))
            for outcome in _outcomes(
                spark, repo, log.parent, f"t{number}", merges=not options.reads
            ):
                figures[outcome.partition(":")[0]] += 1
                print(f"{name}: {outcome}", flush=True)
    table = "".join(f"| {each} | {figures[each]} |\n" for each in sorted(figures))
    table = f"| outcome | tables |\n|---|---|\n{table}"
    print(table)
    if options.table:
        options.table.write_text(table)
    sys.exit(any(each.endswith("wrong") for each in figures))


def _outcomes(
    spark: SparkSession, repo: Repository, place: Path, path: str, *, merges: bool
) -> list[str]:
    def imported() -> DataFrame:
        repo.branch("main").import_objects(place.as_uri(), f"{path}/")
        return repo.read("main", path)

    expected = _rows_or_error(lambda: spark.read.format("delta").load(str(place)))
    actual = _rows_or_error(imported)
    if isinstance(actual, str) and isinstance(expected, str):
        return [f"read fails in both: {actual} / {expected}"]
    if isinstance(actual, str) or isinstance(expected, str) or actual != expected:
        return [f"read wrong: {actual!s:.{_SHOWN}} / {expected!s:.{_SHOWN}}"]
    return ["read equal", *([_merged(repo, path, expected)] if merges and expected else [])]


def _merged(repo: Repository, path: str, rows: Counter[str]) -> str:
    """Append the table to itself on two branches, merge them, and compare."""
    source, dest = (repo.create_branch(f"{path}-{side}", source="main") for side in "ab")

    def appended(branch: Branch) -> DataFrame:
        branch.write(repo.read("main", path), path, format="delta", mode="append")
        branch.commit("append")
        return repo.read(branch.name, path)

    def merged() -> DataFrame:
        repo.merge(source.name, dest.name)
        return repo.read(dest.name, path)

    for branch in (source, dest):
        if isinstance(error := _rows_or_error(partial(appended, branch)), str):
            return f"append fails: {error}"
    actual = _rows_or_error(merged)
    if isinstance(actual, str):
        return f"merge refused: {actual}"
    expected = Counter({row: 3 * count for row, count in rows.items()})
    return "merge right" if actual == expected else f"merge wrong: {actual - expected}"


def _rows_or_error(read: Callable[[], DataFrame]) -> Counter[str] | str:
    """Return the rows as texts, or the first line of an error."""
    try:
        return Counter(map(repr, read().collect()))
    except Exception as error:  # noqa: BLE001  (any error is an outcome)
        return f"{type(error).__name__} {str(error).strip().splitlines()[0]:.{_SHOWN}}"


if __name__ == "__main__":
    main()
