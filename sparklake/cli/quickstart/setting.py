"""Where the story plays: whose files, under which name, in which place."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from sparklake.errors import InvalidInputError, MissingDependencyError
from sparklake.uri import SCHEME

if TYPE_CHECKING:
    from sparklake.lake import Lake
    from sparklake.repository import Repository

MAIN = "main"
DEV = "dev:joe-bugfix-1234"
TAG = "v1-imported"
FILES = "files/"
TABLE = "tables/inventory"

_NAME = "quickstart"
_RANGES = 16
_MIN_RANGE_RECORDS, _MAX_RANGE_RECORDS = 32, 2048


@dataclass(frozen=True, slots=True)
class Scene:
    """Is what the steps share: a lake, a place for a new repository in it, and a user's files."""

    lake: Lake
    name: str
    namespace: Path
    source: Path
    files: int

    @property
    def repository(self) -> Repository:
        """Returns the repository, once it is made."""
        return self.lake.repository(self.name)

    @property
    def range_records(self) -> int:
        """Returns a size of ranges that makes some even of few files, so that costs show."""
        return max(_MIN_RANGE_RECORDS, min(self.files // _RANGES, _MAX_RANGE_RECORDS))

    def uri(self, ref: str, key: str | None = None) -> str:
        """Returns the URI of a ref or an object."""
        return f"{SCHEME}{self.name}/{ref}" + ("" if key is None else f"/{key}")

    def next_commands(self) -> list[str]:
        """Returns what to try next."""
        return [
            f"sparklake log {self.uri(MAIN)}",
            f"sparklake ls {self.uri(MAIN, '')}",
            f"sparklake diff {self.uri(TAG)} {self.uri(MAIN)}",
            f"sparklake branch create {self.uri('mine')} --source {self.uri(MAIN)}",
            f"sparklake repo delete {SCHEME}{self.name} && rm -r '{self.namespace}'",
        ]


def source_folder(given: Path | None, home: Path) -> tuple[Path, int]:
    """Returns a folder and how many files it has; raises InvalidInputError for an unfit one."""
    folder = (_pyspark_folder() if given is None else given.expanduser()).absolute()
    if not folder.is_dir():
        raise InvalidInputError(f"{folder} is not a folder: name one with files in it")
    if home.resolve().is_relative_to(folder.resolve()):
        raise InvalidInputError(
            f"{folder} holds the home of the lake, {home}: name another folder, or another --home"
        )
    files = sum(len(names) for _, _, names in os.walk(folder))
    if not files:
        raise InvalidInputError(f"{folder} has no files: name a folder that has some")
    return folder, files


def fresh_place(lake: Lake, home: Path) -> tuple[str, Path]:
    """Returns a name that no repository has, and an unused folder for its objects."""
    taken = {each.name for each in lake.repositories()}
    for number in count(1):
        name = _NAME if number == 1 else f"{_NAME}-{number}"
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
