"""The files, name and folder that the guided demo uses."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from sparklake.cli.text import number, one_line, size
from sparklake.errors import InvalidInputError, MergeConflictError, MissingDependencyError
from sparklake.uri import SCHEME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sparklake.graveler.commits import Commit
    from sparklake.lake import Lake
    from sparklake.repository import Repository
    from sparklake.udfs.read import DiffRow

MAIN = "main"
DEV = "dev:joe-bugfix-1234"
TAG = "v1-imported"
FILES = "files/"
TABLE = "tables/inventory"

_NAME = "quickstart"
_RANGES = 16
_MIN_RANGE_RECORDS, _MAX_RANGE_RECORDS = 32, 2048


@dataclass(frozen=True, slots=True)
class Demo:
    """The shared state of the steps: a lake, a new repository's place, and files."""

    lake: Lake
    name: str
    namespace: Path
    source: Path
    files: int

    @property
    def repository(self) -> Repository:
        """The repository, after its creation."""
        return self.lake.repository(self.name)

    @property
    def range_records(self) -> int:
        """A range size that gives several ranges even for few files."""
        return max(_MIN_RANGE_RECORDS, min(self.files // _RANGES, _MAX_RANGE_RECORDS))

    def uri(self, ref: str, key: str | None = None) -> str:
        """Return the URI of a ref or an object."""
        return f"{SCHEME}{self.name}/{ref}" + ("" if key is None else f"/{key}")

    def next_commands(self) -> list[str]:
        """Return commands to try next."""
        return [
            f"sparklake log {self.uri(MAIN)}",
            f"sparklake ls {self.uri(MAIN, '')}",
            f"sparklake diff {self.uri(TAG)} {self.uri(MAIN)}",
            f"sparklake branch create {self.uri('mine')} --source {self.uri(MAIN)}",
            f"sparklake repo delete {SCHEME}{self.name} && rm -r '{self.namespace}'",
        ]


def source_folder(given: Path | None, home: Path) -> tuple[Path, int]:
    """Return a folder and its number of files; raise InvalidInputError."""
    folder = (_pyspark_folder() if given is None else given.expanduser()).absolute()
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


def fresh_place(lake: Lake, home: Path) -> tuple[str, Path]:
    """Return an unused repository name, and an unused folder for its objects."""
    taken = {each.name for each in lake.repositories()}
    for attempt in count(1):
        name = _NAME if attempt == 1 else f"{_NAME}-{attempt}"
        namespace = home / _NAME / name
        if name not in taken and not namespace.exists():
            return name, namespace
    raise AssertionError("numbers do not end")


def _pyspark_folder() -> Path:
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise MissingDependencyError(
            "Spark is not installed: pip install 'sparklake[spark]' to run the quickstart"
        )
    return Path(found.origin).parent


_LINES = 4
_SMALL, _LARGE = 10_000, 1_000_000
"""The limits of the size classes, in bytes."""


def inventory(scene: Demo) -> DataFrame:
    """Return a table of the imported files, computed by Spark from the listing of the tag."""
    from pyspark.sql.functions import col, when

    size_class = (
        when(col("size") < _SMALL, "small").when(col("size") < _LARGE, "medium").otherwise("large")
    )
    objects = scene.repository.objects(TAG, FILES).to_df()
    columns = objects.select("path", "size", size_class.alias("size_class"))
    return columns.coalesce(1)


def ranges(scene: Demo, made: Commit) -> str:
    """Return how many ranges a commit wrote, and how many it shares with its parents."""
    tree = scene.repository.tree(made.id).ranges
    parents = (scene.repository.tree(parent).ranges for parent in made.parents)
    known = {each.id for ranges in parents for each in ranges}
    new = sum(each.id not in known for each in tree)
    return f"{number(new, 'range')} written, {len(tree) - new} reused by id"


def changes(rows: Iterable[DiffRow]) -> list[str]:
    """Return the first lines of a diff and its counts."""
    counts: Counter[str] = Counter()
    first: list[str] = []
    for row in rows:
        counts[row.type.value] += 1
        if len(first) < _LINES:
            first.append(f"{row.type.value:<8} {size(row.size):>9}  {one_line(row.path)}")
    more = counts.total() - len(first)
    sums = ", ".join(f"{found:,} {kind}" for kind, found in sorted(counts.items()))
    return [*first, *([f"... and {more:,} more"] if more else []), sums]


def diff_rows(error: MergeConflictError) -> list[DiffRow]:
    """Return the conflicts of a failed merge as rows."""
    rows: list[DiffRow] = error.conflicts  # type: ignore[assignment]  # errors.py knows no rows
    return rows
