"""The files and rows of a table at a ref."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from campaigns.tables.choices import Features
from campaigns.tables.log_reader import Contents, Log, WrongTableError, contents_of
from sparklake import Repository

PATH = "tables/t"
_LOG = "_delta_log/"
_COMMIT_NAME = len(f"{_LOG}{0:020}.json")


def files_of(repo: Repository, ref: str) -> dict[str, Path]:
    """Return the files of the table by their paths in it."""
    objects = repo.objects(ref, f"{PATH}/")
    return {
        each.path.removeprefix(f"{PATH}/"): Path(urlsplit(each.address).path) for each in objects
    }


def read_table(repo: Repository, ref: str) -> Contents:
    """Return the rows of the table, by the campaign's own reader, and check its metadata."""
    files = files_of(repo, ref)
    log = Log.of(
        {
            int(name[len(_LOG) :].removesuffix(".json")): file.read_bytes()
            for name, file in files.items()
            if name.startswith(_LOG) and name.endswith(".json") and len(name) == _COMMIT_NAME
        }
    )
    log.check()

    def read(path: str) -> bytes:
        if path not in files:
            raise WrongTableError(f"the tree has no {path}")
        return files[path].read_bytes()

    return contents_of(log, read)


def export_table(repo: Repository, ref: str, folder: Path) -> Path:
    """Link the files of the table into a folder."""
    for path, file in files_of(repo, ref).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(file, target)
    return folder


def read_elsewhere(
    repo: Repository, ref: str, features: Features, expected: Contents, folder: Path
) -> bool:
    """Compare with the rows that deltalake reads; return whether it supports the features."""
    if features.vectors or features.mapping:
        return False
    from deltalake import DeltaTable

    with tempfile.TemporaryDirectory(dir=folder) as copy:
        table = DeltaTable(export_table(repo, ref, Path(copy)))
        rows = table.to_pyarrow_table().to_pylist()
    found = sorted((tuple(sorted(each.items())) for each in rows), key=repr)
    if found != expected:
        raise WrongTableError(f"deltalake's rows differ:\n{compared(expected, found)}")
    return True


def compared(expected: Contents, found: Contents) -> str:
    """Return the differences of rows, as lines."""
    lines = [f"  missing: {dict(each)}" for each in expected if each not in found]
    lines += [f"  wrong:   {dict(each)}" for each in found if each not in expected]
    return "\n".join(lines or [f"  {len(expected)} rows expected, {len(found)} found"])
