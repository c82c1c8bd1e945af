"""Kills of streams at every micro-batch step.

    python -m campaigns.streams.kills --rounds 40 --seed 1 --table figures.md

Each round runs one stream, kills it five times, and starts it again. Between kills, idempotency
keys may expire, and others may commit. Then the table must have every row exactly once. Most kills
raise an error from the step; in rounds of `sigkill`, they end the process of the driver.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import psycopg

import sparklake
from campaigns.faults.rounds import Cell, Figures, Options, parse_options, report, run_rounds
from campaigns.postgres import embedded_home, fresh_database, home_dsn
from campaigns.tables.session import small_session
from sparklake import Branch, Lake, Repository
from sparklake.testing.folders import memory_folder
from sparklake.verbs.tables.stream_writes import EPOCH_METADATA_KEY, EpochWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODULE = "campaigns.streams.kills"
TABLE = "tables/events"
KILLS = 5
"""The kills of a round."""

STEPS = {
    "the write": "sparklake.branch.Branch.write",
    "the staging of Parquet": "sparklake.verbs.tables.write.stage_write",
    "the staging of Delta": "sparklake.verbs.tables.edits.stage_write",
    "the commit": "sparklake.branch.Branch.commit",
    "its publication": "sparklake.verbs.commits.publish",
    "the batch": "sparklake.verbs.tables.stream_writes.EpochWriter.run",
}
"""The killed steps, each before it starts or after it ends."""

_SIGKILL_EVERY = 7
"""One in so many rounds ends processes."""


class KilledError(Exception):
    """A simulated kill."""


@dataclass(frozen=True, slots=True)
class Kill:
    """A kill before or after the `number`-th call of a step."""

    step: str
    is_after: bool
    number: int

    @staticmethod
    def random(random: Random, table_format: str) -> Kill:
        other = "the staging of Delta" if table_format == "parquet" else "the staging of Parquet"
        step = random.choice([each for each in STEPS if each != other])
        return Kill(step, random.random() < 0.5, random.randrange(1, 4))

    def __str__(self) -> str:
        return f"{'after' if self.is_after else 'before'} {self.step}"


@contextmanager
def killed_at(kill: Kill, die: Callable[[], object]) -> Iterator[None]:
    """Die at a call of a step."""
    module, _, name = STEPS[kill.step].rpartition(".")
    owner: Any = {"sparklake.branch.Branch": Branch}.get(module)
    if module.endswith("EpochWriter"):
        owner = EpochWriter
    owner = owner or sys.modules.get(module) or __import__(module, fromlist=[name])
    step, calls = getattr(owner, name), 0

    def run(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        is_last = calls == kill.number
        if is_last and not kill.is_after:
            die()
        result = step(*arguments, **options)
        if is_last:
            die()
        return result

    with patch.object(owner, name, run):
        yield


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of JSON files, one in each micro-batch, into a table."""

    repository: str
    format: str
    every: int
    folder: Path
    has_state: bool

    def run(self, lake: Lake, spark: SparkSession) -> None:
        """Run until all files are in the table."""
        reader = spark.readStream.schema("id int").option("maxFilesPerTrigger", 1)
        rows = reader.json(str(self.folder / "in"))
        query = (
            lake.repository(self.repository)
            .branch("main")
            .write_stream(
                rows.dropDuplicates(["id"]) if self.has_state else rows,
                TABLE,
                checkpoint=str(self.folder / "checkpoint"),
                format=self.format,
                every=self.every,
                trigger={"availableNow": True},
            )
        )
        query.awaitTermination()

    def add(self, first: int, count: int) -> None:
        (self.folder / "in").mkdir(exist_ok=True)
        for each in range(first, first + count):
            (self.folder / "in" / f"{each:06}.json").write_text(f'{{"id": {each}}}')


@dataclass(slots=True)
class Campaign:
    lake: Lake
    spark: SparkSession
    dsn: str
    folder: Path
    kills: Counter[str] = field(default_factory=Counter)

    def run(self, name: str) -> Cell:
        """Run a round by its name: format, batches per commit, kill and number.

        Half of the streams have state.
        """
        table_format, every, kind, number = name.split(":")
        random = Random(name)
        folder = self.folder / name.replace(":", "-")
        folder.mkdir()
        repo = self.lake.create_repository(f"r{name.replace(':', '-')}", str(folder / "namespace"))
        has_state = int(number) // 4 % 2 == 1
        stream = Stream(repo.name, table_format, int(every), folder, has_state)
        others = list[int]()
        files = 0
        for _ in range(KILLS):
            kill, count = Kill.random(random, table_format), random.randrange(2, 5)
            stream.add(files, count)
            files += count
            self._kill(stream, kill, kind)
            self._meddle(repo, random, table_format, others)
        stream.run(self.lake, self.spark)
        check(repo, [*others, *range(files)])
        return f"{table_format}, {every}", kind

    def _kill(self, stream: Stream, kill: Kill, kind: str) -> None:
        if kind == "sigkill":
            is_dead = run_child(stream, kill, self.dsn)
        else:
            is_dead = False
            try:
                with killed_at(kill, _raise):
                    stream.run(self.lake, self.spark)
            except Exception as error:
                if "KilledError" not in str(error):
                    raise
                is_dead = True
        self.kills[str(kill) if is_dead else "none: the stream ended before"] += 1

    def _meddle(
        self, repo: Repository, random: Random, table_format: str, others: list[int]
    ) -> None:
        """Let all idempotency keys expire, and others append to the table and commit."""
        if random.random() < 0.4:
            with psycopg.connect(self.dsn, autocommit=True) as connection:
                connection.execute("DELETE FROM sparklake.once_keys")
            self.kills["keys expired"] += 1
        if random.random() < 0.3:
            others.append(-1 - len(others))
            rows = self.spark.createDataFrame([(others[-1],)], "id int")
            main = repo.branch("main")
            main.write(rows, TABLE, format=table_format, mode="append")
            main.commit("by others")
            self.kills["others committed"] += 1


def check(repo: Repository, expected: list[int]) -> None:
    """Check for lost and repeated rows, and for commits with a repeated micro-batch."""
    repo.branch("main").commit("the staged batches", if_needed=True)
    rows = sorted(row.id for row in repo.read("main", TABLE).collect())
    if rows != sorted(expected):
        counts = Counter(rows)
        repeated = [each for each, count in counts.items() if count > 1]
        missing = sorted({*expected} - {*rows})
        raise AssertionError(f"rows repeated: {repeated}, missing: {missing}")
    log = (each.metadata.get(EPOCH_METADATA_KEY) for each in repo.log("main"))
    epochs = [int(each) for each in log if each is not None]
    if epochs != sorted({*epochs}, reverse=True):
        raise AssertionError(f"the commits have the micro-batches {epochs}")


def _raise() -> None:
    raise KilledError("killed")


# --- a driver of its own --------------------------------------------------------------------------


def run_child(stream: Stream, kill: Kill, dsn: str) -> bool:
    """Run the stream in a child with a kill; return whether it died."""
    terms = {
        "stream": [
            stream.repository,
            stream.format,
            stream.every,
            str(stream.folder),
            stream.has_state,
        ],
        "kill": [kill.step, kill.is_after, kill.number],
    }
    command = [sys.executable, "-m", MODULE, "--child", json.dumps(terms)]
    environment = {**os.environ, "SPARKLAKE_DSN": dsn}
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    if done.returncode not in (0, -signal.SIGKILL):
        raise RuntimeError(f"the driver failed: {done.stderr[-2000:]}")
    return done.returncode != 0


def child(text: str) -> None:
    """Run a stream, and end this process at a step."""
    terms = json.loads(text)
    repository, table_format, every, folder, has_state = terms["stream"]
    stream = Stream(repository, table_format, every, Path(folder), has_state)

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    dsn = os.environ["SPARKLAKE_DSN"]
    with (
        memory_folder() as files,
        small_session(files) as spark,
        sparklake.connect(dsn=dsn, spark=spark) as lake,
        killed_at(Kill(*terms["kill"]), die),
    ):
        stream.run(lake, spark)


def campaign(
    options: Options, spark: SparkSession, dsn: str, folder: Path
) -> tuple[Figures, Counter[str]]:
    """Run rounds in all formats, with one and three micro-batches in a commit."""
    with sparklake.connect(dsn=dsn, spark=spark) as lake:
        state, first = Campaign(lake, spark, dsn, folder), options.seed * 1000
        names = (
            f"{('parquet', 'delta')[at % 2]}:{(1, 3)[at // 2 % 2]}:"
            f"{'sigkill' if number % _SIGKILL_EVERY == 0 else 'raise'}:{number}"
            for at, number in enumerate(range(first, first + options.rounds))
        )
        figures = run_rounds(MODULE, options, names, state.run)
    return figures, state.kills


def main() -> None:
    """Run a campaign, and print its figures."""
    options = parse_options("Kill streams into tables.", 40)
    with (
        memory_folder() as folder,
        small_session(folder) as spark,
        embedded_home() as home,
        home_dsn(home) as server,
        fresh_database(server) as dsn,
    ):
        figures, kills = campaign(options, spark, dsn, folder)
    lines = ["| kill | number |", "| --- | ---: |"]
    lines += [f"| {name} | {number} |" for name, number in sorted(kills.items())]
    print("\n".join(lines))
    try:
        report("Kills of streams", options, figures, f"python -m {MODULE}")
    finally:
        if options.table is not None:
            with options.table.open("a", encoding="utf-8") as out:
                out.write("\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2])
    else:
        main()
