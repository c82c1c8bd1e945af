"""MD5 sums of small files from a compiled kernel, compared with hashlib."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sparklake.graveler import kernel_choice
from sparklake.stores.objects.local.columns import file_checksums

PART = 64 * 1024
MOST = 1024 * 1024
SIZES = (0, 1, 1000, PART - 1, PART, PART + 1, 3 * PART, MOST)


def checksums(paths: list[Path], sizes: list[int]) -> list[str | None]:
    column = file_checksums(pa.array(map(str, paths), pa.string()), np.array(sizes, np.int64))
    result: list[str | None] = column.to_pylist()
    return result


@pytest.mark.parametrize("by", [0, -1, 1, 1000])
def test_whole_files_are_hashed_despite_a_wrong_listed_size(tmp_path: Path, by: int) -> None:
    paths = []
    for number in range(40 * len(SIZES)):
        path = tmp_path / f"file-{number}"
        path.write_bytes(bytes([number % 251]) * SIZES[number % len(SIZES)])
        paths.append(path)
    exact = [hashlib.md5(path.read_bytes()).hexdigest() for path in paths]
    sums = checksums(paths, [path.stat().st_size + by for path in paths])
    assert sums == (exact if kernel_choice.is_compiled() else [None] * len(paths))


@pytest.mark.timeout(20)
def test_large_and_special_files_are_not_hashed(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(MOST + 1))
    (tmp_path / "plain").write_bytes(b"plain")
    (tmp_path / "link").symlink_to("plain")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    names = ("large", "link", "folder", "fifo", "missing", "plain/below")
    assert checksums([tmp_path / name for name in names], [5] * len(names)) == [None] * len(names)


def test_nothing_is_hashed_without_kernels(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"plain")
    with kernel_choice.only_definitions():
        assert checksums([tmp_path / "plain"], [5]) == [None]
