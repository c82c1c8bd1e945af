"""Folders of odd shapes and names: a lake reads them as Spark reads a directory, or refuses."""

from __future__ import annotations

import io
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812

from sparklake import Lake, Repository
from sparklake.errors import InvalidInputError, ObjectNotFoundError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ENGINE = "auto"

THREADS, JOB = 4, 25
"""The threads of one session, and the reads whose rows one job of Spark compares."""

Files = Mapping[str, bytes]

VALUES = (
    *("1", "-2", "+3", "007", "-0", "2147483648", "9223372036854775808", "1e5", "1.5e1", "5."),
    *("1.5", ".5", "1.0E300", "1e37", "1e38", "0e0", "0e50", "NaN", "nan", "Infinity", "inf"),
    *("1d", "7D", "1L", "0x10", "1_000", "2024-02-29", "2024-02-30", "2024-1-1", "2024-01"),
    *("2024", "20240229", "2024-02-29T", "2024-02-29 23%3A59%3A59", "2024-02-29 23:59:59.1"),
    *("2024-02-29 23:59:59.123456", "2024-02-29 25:00:00", "12%3A00%3A00", "12:00", "true"),
    *("__HIVE_DEFAULT_PARTITION__", "a", "a b", "a%20b", "%31", "a=b", "%zz", "100%", "null"),
    *("9" * 38, "9" * 39, " 1", "1.5 ", "[x]{y}*?", "é", "-", "1e", "0.0", "1.00", "x" * 100),
)
"""Names of partition folders behind `p=`."""

KINDS = (
    *(("1", "-2", "007"), ("1", "NaN"), ("1e5", "2"), ("1.0E300", "1"), ("1.5", "2147483648")),
    *(("2024-02-29", "2024-02-29 23%3A59%3A59"), ("12%3A00%3A00", "23:59:59"), ("1", "a")),
    *(("1", "9223372036854775808"), ("1.5", "1e5"), ("2024-02-29", "1"), ("9" * 38, "1")),
    ("12%3A00%3A00", "2024-02-29"),
)
"""Values of one column, of several types."""

JUNK = (
    *("_SUCCESS", ".part-0.parquet.crc", "_x.parquet", "a.parquet._COPYING_", "zz-empty.parquet"),
    *("_temporary/0/a.parquet", ".staging/a.parquet", "_tmp/p=1/a.parquet"),
)
STRAYS = ("backup/a.parquet", "archive/2023/a.parquet", "a=._COPYING_/a.parquet", "x/_y/a.parquet")
ROOTS = ("a.parquet", "part-0.snappy.parquet", "noext", "x=1.parquet", "b.PARQUET", "_metadata")
BROKEN = (
    *(("p=1/a", "q=1/a"), ("p=1/a", "a"), ("p=1/a", "p=2/q=1/a"), ("p=1/a", "backup/a")),
    *(("p=/a",), ("=1/a",), ("p=1/p=2/a",), ("sub/p=1/a", "sub/p=2/a"), ("x/p=1/a", "y/p=2/a")),
    *(("p=1/sub/a", "p=2/a"), ("p=1/sub/q=2/a",), ("p=1/_q=2/a",), ("_p=1/a", "_p=2/a")),
    *(("backup/a",), ("p=1/a", "P=2/a"), ("p=1/x/y/a", "p=1/a"), ("sub/p=1/a", "a")),
)

FOUND = (
    ("sub/p=1/a.parquet", "sub/p=2/a.parquet", "zz-empty.parquet"),
    ("p=1/sub/q=2/a.parquet", "zz-empty.parquet"),
    ("sub/p=1/a.parquet", "a-empty.parquet"),
)
"""Folders that Spark cannot read, because of an empty file above the root of partitions."""


class Folders:
    """Random folders. The rows of all files differ."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rows = 0

    def folder(self) -> Files:
        names = self._names()
        names += self.random.sample(JUNK, self.random.randint(0, 3))
        return self.files(names, self.random.choice(["v", "v", "v", "p", "P"]))

    def files(self, names: Sequence[str], column: str = "v") -> Files:
        return {name: self._file(name, column) for name in names}

    def _names(self) -> list[str]:
        shape = self.random.choices(["flat", "values", "kinds", "two", "broken"], [3, 4, 4, 3, 3])
        if shape == ["flat"]:
            names = self.random.sample(ROOTS, self.random.randint(1, 4))
            return [*names, "c.parquet", *self.random.sample(STRAYS, self.random.randint(0, 2))]
        if shape == ["broken"]:
            return [f"{each}.parquet" for each in self.random.choice(BROKEN)]
        if shape == ["values"]:
            values = self.random.sample(VALUES, self.random.randint(1, 3))
        else:
            values = [*self.random.choice(KINDS)]
        if shape == ["two"]:
            other = self.random.choice(VALUES)
            return [f"p={each}/q={other}/a.parquet" for each in values]
        extra = self.random.choice(["", "", "", "sub/", "_p=3/"])
        return [f"p={each}/{extra}a.parquet" for each in values]

    def _file(self, name: str, column: str) -> bytes:
        if "empty" in name or "SUCCESS" in name:
            return b""
        self.rows += 1
        sink = io.BytesIO()
        pq.write_table(pa.table({"id": [self.rows], column: ["text"], "last": [1.5]}), sink)
        return sink.getvalue()


Columns = list[tuple[str, str]]


def columns_of(read: Callable[[], DataFrame]) -> tuple[DataFrame, Columns] | Exception:
    try:
        rows = read()
        return rows, [(each.name, each.dataType.simpleString()) for each in rows.schema.fields]
    except Exception as error:  # noqa: BLE001  (of Spark, of py4j or ours)
        return error


def rows_of(frames: Sequence[DataFrame]) -> list[list[str]] | Exception:
    """Return the rows of each frame as texts, in one job."""
    try:
        texts = [
            frame.select(F.lit(at).alias("at"), F.struct("*").cast("string").alias("row"))
            for at, frame in enumerate(frames)
        ]
        rows = [list[str]() for _ in frames]
        for at, text in reduce(type(texts[0]).union, texts).collect():
            rows[at].append(text)
        return [sorted(each) for each in rows]
    except Exception as error:  # noqa: BLE001  (of Spark, of py4j or ours)
        return error


@dataclass
class Read:
    """A read of a folder by both, and what is wrong with it, if anything."""

    names: list[str]
    theirs: tuple[DataFrame, Columns] | Exception
    ours: tuple[DataFrame, Columns] | Exception
    kind: str = ""
    wrong: str = ""

    def compare(self) -> None:
        """Compare the columns, unless rows decide."""
        is_refused = isinstance(self.ours, (InvalidInputError, ObjectNotFoundError))
        is_same = isinstance(self.ours, Exception) and type(self.ours) is type(self.theirs)
        if isinstance(self.theirs, Exception):
            self.kind = "raised by both"
            self.blame(is_refused or is_same)
        elif is_refused:
            self.kind = "refused"
        else:
            self.kind = "equal"
            self.blame(not isinstance(self.ours, Exception) and self.ours[1] == self.theirs[1])

    def blame(self, is_right: bool, more: object = "") -> None:
        what = f"{self.names}: {self.theirs!s:.300} | {self.ours!s:.300} {more}"
        self.wrong = "" if is_right else what

    @property
    def frames(self) -> list[DataFrame]:
        if self.wrong or isinstance(self.theirs, Exception) or isinstance(self.ours, Exception):
            return []
        return [self.theirs[0], self.ours[0]]


def compare_rows(reads: Sequence[Read]) -> None:
    """Compare the rows of many reads in one job, or if it fails, in one for each."""
    reads = [each for each in reads if each.frames]
    if not reads:
        return
    rows = rows_of([frame for each in reads for frame in each.frames])
    if not isinstance(rows, Exception):
        for at, each in enumerate(reads):
            each.blame(rows[2 * at] == rows[2 * at + 1], rows[2 * at : 2 * at + 2])
    elif len(reads) > 1:
        for each in reads:
            compare_rows([each])
    else:
        theirs, ours = (rows_of([each]) for each in reads[0].frames)
        is_refused = isinstance(ours, (InvalidInputError, ObjectNotFoundError))
        is_same = isinstance(theirs, Exception) and type(theirs) is type(ours)
        reads[0].blame(is_refused or is_same, f"{theirs!s:.300} | {ours!s:.300}")
        reads[0].kind = "raised by both" if isinstance(theirs, Exception) else "refused"


def reads_of(
    spark: SparkSession, lake: Lake, repo: Repository, place: Path, folders: list[Files]
) -> list[Read]:
    main = repo.branch("main")
    objects = {
        f"t{at}/{name}": body for at, each in enumerate(folders) for name, body in each.items()
    }
    main.put_many(objects)
    main.commit("odd folders")
    for path, body in objects.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(body)

    def read(at: int) -> list[Read]:
        names = sorted(folders[at])
        theirs = columns_of(lambda: spark.read.parquet(str(place / f"t{at}")))
        ours = [lambda: repo.read("main", f"t{at}")]
        if at % 10 == 0:
            path, table = f"lakefs://{repo.name}/main/t{at}", f"lakefs.`{repo.name}`.main.t{at}"
            ours.append(lambda: lake.read.parquet(path))
            ours.append(lambda: lake.sql(f"SELECT * FROM {table}"))
        reads = [Read(names, theirs, columns_of(each)) for each in ours]
        for each in reads:
            each.compare()
        return reads

    with ThreadPoolExecutor(THREADS) as threads:
        reads = list(chain.from_iterable(threads.map(read, range(len(folders)))))
        list(threads.map(compare_rows, (reads[at : at + JOB] for at in range(0, len(reads), JOB))))
    return reads


def check(
    spark: SparkSession, lake: Lake, repo: Repository, place: Path, folders: list[Files]
) -> Counter[str]:
    reads = reads_of(spark, lake, repo, place, folders)
    assert [each.wrong for each in reads if each.wrong] == []
    return Counter(each.kind for each in reads)


@pytest.mark.system
def test_a_sample_of_odd_folders(
    spark: SparkSession, lake: Lake, repo: Repository, tmp_path: Path
) -> None:
    made = Folders(seed=1)
    folders = [made.folder() for _ in range(25)] + [made.files(each) for each in FOUND]
    counts = check(spark, lake, repo, tmp_path / "local", folders)
    assert counts["equal"] > 12
    assert counts["raised by both"] >= len(FOUND)


@pytest.mark.exhaustive
def test_five_hundred_odd_folders(
    spark: SparkSession, lake: Lake, repo: Repository, tmp_path: Path
) -> None:
    made = Folders(seed=2)
    counts = check(spark, lake, repo, tmp_path / "local", [made.folder() for _ in range(500)])
    assert counts["equal"] > 250
    assert counts["refused"] < 50
