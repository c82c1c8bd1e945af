"""Columns of local files, for listings of millions of files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.graveler.compiled import column, text_of
from sparklake.graveler.kernels import Declined, kernel, library
from sparklake.stores.objects.local.files import (
    NO_FILE_ERRORS,
    TEMPORARY,
    is_alias,
    resolve,
    store_errors,
)
from sparklake.uri import is_utf8

_MOST_ROWS = 16_384
_MOST_HASHED = 1024 * 1024  # A kernel cannot be interrupted.
_INT64 = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class FileColumns:
    """Files in columns. `sizes` are in bytes, `mtimes` in unix nanoseconds."""

    keys: pa.StringArray
    sizes: Any
    mtimes: Any


def file_columns(rows: list[tuple[str, int, int]], *, exact: bool = False) -> FileColumns:
    """Return the columns of keys, sizes and times.

    File names that are not UTF-8 are changed, or with `exact` kept as invalid texts.
    """
    names, sizes, mtimes = zip(*rows, strict=True) if rows else ((), (), ())
    try:
        keys = pa.array(names, pa.string())
    except UnicodeEncodeError:
        errors = "surrogateescape" if exact else "replace"
        keys = pa.array([each.encode(errors=errors) for each in names], pa.binary())
        keys = keys.view(pa.string())
    return FileColumns(keys, np.array(sizes, np.int64), _clipped(mtimes))


def _compiled_checksums(paths: pa.StringArray, sizes: Any) -> pa.StringArray:
    digests = text_of(library.md5_files(*column(paths), sizes, _MOST_HASHED))
    return pc.if_else(pc.equal(digests, ""), pa.scalar(None, pa.string()), digests)


@kernel(_compiled_checksums)
def file_checksums(paths: pa.StringArray, sizes: Any) -> pa.StringArray:
    """Return the MD5s of small files; null for others, and without compiled kernels for all.

    Links, and files that cannot be read, have null, too. `sizes` are the expected sizes.
    """
    return pa.nulls(len(paths), pa.string())


def _clipped(times: Sequence[int]) -> Any:
    """Return times as 64 bits, which end in 2262. File systems store later ones."""
    try:
        return np.array(times, np.int64)
    except OverflowError:
        return np.array([min(max(each, _INT64.min), _INT64.max) for each in times], np.int64)


def scan_columns(
    root: Path, folder: str, *, level: bool = False, exact: bool = False
) -> Iterator[FileColumns]:
    """Yield files in columns and without folders, faster than `scan`."""
    if is_alias(root, root / folder):
        return
    waiting = [folder]
    while waiting:
        folder = waiting.pop()
        start, others = f"{folder}/" if folder else "", list[str]()
        with store_errors(root / folder), suppress(*NO_FILE_ERRORS):
            yield from _plain_files(root / folder, start, others)
        rows = []
        with store_errors(root / folder):
            for key in (start + each for each in others if each != TEMPORARY):
                if _is_folder(root / key):
                    waiting += [] if level else [key]
                elif (status := _linked(root, key)) is not None:
                    rows.append((key, status.st_size, status.st_mtime_ns))
        yield file_columns(rows, exact=exact)


def _compiled_files(place: Path, start: str, others: list[str]) -> Iterator[FileColumns]:
    try:
        folder = library.Folder(place, start, TEMPORARY)
    except (OSError, UnicodeEncodeError):
        raise Declined from None
    return _batches(folder, others)


def _batches(folder: Any, others: list[str]) -> Iterator[FileColumns]:
    while True:
        names, sizes, mtimes, rest = folder.read(_MOST_ROWS)
        others += rest
        if len(sizes):
            yield FileColumns(text_of(names), sizes, mtimes)
        elif not rest:
            return


@kernel(_compiled_files)
def _plain_files(place: Path, start: str, others: list[str]) -> Iterator[FileColumns]:
    """Yield the plain files of one folder; collect the names of its other entries.

    Each key is `start` and the name of a file. Names that are not UTF-8 are others, too. The kernel
    also collects the names of files that it cannot read.
    """
    rows: list[tuple[str, int, int]] = []
    with os.scandir(place) as entries:
        for entry in entries:
            is_plain = entry.is_file(follow_symlinks=False) and is_utf8(entry.name)
            if not is_plain or entry.name == TEMPORARY:
                others.append(entry.name)
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except NO_FILE_ERRORS:
                continue  # It was deleted meanwhile.
            rows.append((start + entry.name, status.st_size, status.st_mtime_ns))
            if len(rows) >= _MOST_ROWS:
                yield file_columns(rows)
                rows = []
    yield file_columns(rows)


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except NO_FILE_ERRORS:
        return False


def _linked(root: Path, key: str) -> os.stat_result | None:
    """Return the status of a link's target; None unless it is a file."""
    try:
        status = (root / key).stat()
    except NO_FILE_ERRORS:
        return None
    if stat.S_ISDIR(status.st_mode):
        resolve(root, root / key)  # raises if the link leads out
    return status if stat.S_ISREG(status.st_mode) else None
