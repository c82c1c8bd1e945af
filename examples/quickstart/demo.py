"""The lake, repository name, files and sample that the guided demo uses."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from examples.quickstart.orders import write_orders
from examples.quickstart.samples import OWN_FILES, SAMPLE_ORDERS, Sample
from sparklake.errors import InvalidInputError, MissingDependencyError
from sparklake.stores.objects import normalise_store_uri, open_store
from sparklake.uri import SCHEME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sparklake.lake import Lake
    from sparklake.repository import Repository

MAIN = "main"
DEV = "dev:joe-bugfix-1234"
TAG = "v1-imported"
FILES = "files/"

_NAME = "quickstart"
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that runs for a minute: better compilation would not pay off."""
_RANGES = 16
_MIN_RANGE_RECORDS, _MAX_RANGE_RECORDS = 32, 2048


@dataclass(frozen=True, slots=True)
class Demo:
    """The shared state of the steps: a lake, a new repository's place, files, and Spark."""

    lake: Lake
    name: str
    place: Path
    namespace: str
    source: Path
    files: int
    sample: Sample
    session: Future[SparkSession]

    @property
    def repository(self) -> Repository:
        """The repository, after its creation."""
        return self.lake.repository(self.name)

    @property
    def range_records(self) -> int:
        """A range size that gives several ranges even for few files."""
        return max(_MIN_RANGE_RECORDS, min(self.files // _RANGES, _MAX_RANGE_RECORDS))

    @property
    def description(self) -> str:
        """The number, kind and folder of the files."""
        return f"{self.files:,} {self.sample.files} in {self.source}"

    @property
    def repository_uri(self) -> str:
        """The URI of the repository."""
        return f"{SCHEME}{self.name}"

    def uri(self, ref: str, key: str | None = None) -> str:
        """Return the URI of a ref or an object."""
        return f"{SCHEME}{self.name}/{ref}" + ("" if key is None else f"/{key}")

    def next_commands(self) -> list[str]:
        """Return the arguments of commands to try next."""
        return [
            f"log {self.uri(MAIN)}",
            f"ls {self.uri(MAIN, '')}",
            f"diff {self.uri(TAG)} {self.uri(MAIN)}",
            f"branch create {self.uri('mine')} --source {self.uri(MAIN)}",
        ]


def check_spark() -> None:
    """Raise MissingDependencyError before the demo writes anything."""
    if find_spec("pyspark") is None:
        raise MissingDependencyError(
            "Spark is not installed: pip install 'sparklake[spark]' to run the quickstart"
        )


def new_demo(lake: Lake, home: Path, folder: Path | None, store: str | None) -> Demo:
    """Return a demo on the files of a folder, or on new sample orders.

    `store` is where its repository gets a folder. By default, it is in the home.
    """
    own = None if folder is None else source_folder(folder, home)
    name, place, namespace = fresh_place(lake, home, store)
    orders = place / "orders"
    source, files = own or (orders, write_orders(orders))
    sample = SAMPLE_ORDERS if own is None else OWN_FILES
    return Demo(lake, name, place, namespace, source, files, sample, start_session())


def start_session() -> Future[SparkSession]:
    """Start Spark in a thread, because the first steps do not need it."""
    os.environ.setdefault("SPARK_SUBMIT_OPTS", _SHORT_LIVED)
    pool = ThreadPoolExecutor(1)
    session = pool.submit(_short_lived_session)
    pool.shutdown(wait=False)
    return session


def _short_lived_session() -> SparkSession:
    from sparklake.session import spark_session

    session = spark_session("quickstart")
    # A query of a few rows runs in less time than Java needs to compile it.
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    return session


def source_folder(given: Path, home: Path) -> tuple[Path, int]:
    """Return a folder and its number of files; raise InvalidInputError."""
    folder = given.expanduser().absolute()
    if not folder.is_dir():
        raise InvalidInputError(f"{folder} is not a folder: choose a folder with files")
    if home.resolve().is_relative_to(folder.resolve()):
        raise InvalidInputError(
            f"{folder} contains the home of the lake, {home}: choose another folder or --home"
        )
    files = sum(len(names) for _, _, names in os.walk(folder))
    if not files:
        raise InvalidInputError(f"{folder} has no files: choose a folder with files")
    return folder, files


def fresh_place(lake: Lake, home: Path, store: str | None) -> tuple[str, Path, str]:
    """Return an unused repository name, folder for its files, and storage namespace."""
    taken = {each.name for each in lake.repositories()}
    for attempt in count(1):
        name = _NAME if attempt == 1 else f"{_NAME}-{attempt}"
        place = home.absolute() / _NAME / name
        if name in taken or place.exists():
            continue
        if store is None:
            return name, place, str(place / "storage")
        if next(open_store(store).list(f"{name}/"), None) is None:
            return name, place, f"{normalise_store_uri(store)}/{name}"
    raise AssertionError("numbers do not end")
