"""Columns of local files, for very large listings."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sparklake.graveler import kernels
from sparklake.stores.objects.local import files as local_files
from sparklake.uri import is_utf8

_MAX_ROWS = 16_384
_INT64 = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class FileColumns:
    """Files in columns. `sizes` are in bytes, `mtimes` in unix nanoseconds."""

    keys: pa.StringArray
    sizes: Any
    mtimes: Any


def file_columns(rows: list[tuple[str, int, int]], *, exact: bool = False) -> FileColumns:
    """Return the columns of files. `exact` keeps names that are not UTF-8 as invalid strings."""
    names, sizes, mtimes = zip(*rows, strict=True) if rows else ((), (), ())
    try:
        keys = pa.array(names, pa.string())
    except UnicodeEncodeError:
        errors = "surrogateescape" if exact else "replace"
        keys = pa.array([each.encode(errors=errors) for each in names], pa.binary())
        keys = keys.view(pa.string())
    return FileColumns(keys, np.array(sizes, np.int64), _clipped(mtimes))


@kernels.defines(kernels.file_checksums)
def file_checksums(paths: pa.StringArray, sizes: Any) -> pa.StringArray:
    """Return MD5s; null for large files, links and unreadable files, or without kernels."""
    return pa.nulls(len(paths), pa.string())


def _clipped(times: Sequence[int]) -> Any:
    """Clip times to 64 bits, which end in 2262. File systems store later ones."""
    try:
        return np.array(times, np.int64)
    except OverflowError:
        return np.array([min(max(each, _INT64.min), _INT64.max) for each in times], np.int64)


def scan_columns(
    root: Path, folder: str, *, level: bool = False, exact: bool = False
) -> Iterator[FileColumns]:
    """Yield files in columns and without folders, faster than `scan`."""
    if local_files.is_alias(root, root / folder):
        return
    waiting = [folder]
    while waiting:
        folder = waiting.pop()
        start, others = f"{folder}/" if folder else "", list[str]()
        with local_files.store_errors(root / folder), suppress(*local_files.NO_FILE_ERRORS):
            yield from _plain_files(root / folder, start, others)
        rows = []
        with local_files.store_errors(root / folder):
            for key in (start + each for each in others if each != local_files.TEMPORARY):
                if _is_folder(root / key):
                    waiting += [] if level else [key]
                elif (status := _linked(root, key)) is not None:
                    rows.append((key, status.st_size, status.st_mtime_ns))
        yield file_columns(rows, exact=exact)


def _compiled_files(place: Path, start: str, others: list[str]) -> Iterator[FileColumns]:
    folder = kernels.open_folder(place, start, local_files.TEMPORARY)
    return starmap(FileColumns, kernels.read_folder(folder, _MAX_ROWS, others))


@kernels.defines(_compiled_files)
def _plain_files(place: Path, start: str, others: list[str]) -> Iterator[FileColumns]:
    """Yield the plain files of a folder; collect the other names.

    Each key is `start` and the name of a file. Others include names that are not UTF-8 and, in the
    kernel, unreadable files.
    """
    rows: list[tuple[str, int, int]] = []
    with os.scandir(place) as entries:
        for entry in entries:
            is_plain = entry.is_file(follow_symlinks=False) and is_utf8(entry.name)
            if not is_plain or entry.name == local_files.TEMPORARY:
                others.append(entry.name)
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except local_files.NO_FILE_ERRORS:
                continue  # It was deleted concurrently.
            rows.append((start + entry.name, status.st_size, status.st_mtime_ns))
            if len(rows) >= _MAX_ROWS:
                yield file_columns(rows)
                rows = []
    yield file_columns(rows)


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except local_files.NO_FILE_ERRORS:
        return False


def _linked(root: Path, key: str) -> os.stat_result | None:
    """Return the status of a link's target; None unless it is a file."""
    try:
        status = (root / key).stat()
    except local_files.NO_FILE_ERRORS:
        return None
    if stat.S_ISDIR(status.st_mode):
        local_files.check_inside(root, root / key)
    return status if stat.S_ISREG(status.st_mode) else None
