"""The cost of a table write beyond Spark's own: python -m benchmarks.write_staging.

Files are put where Spark would put them. The measured time starts when the last file is there, and
ends when the branch has them: listing, checksums, the run, and the removal of old files.
"""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks import report
from benchmarks.measuring import in_own_process, open_lake
from sparklake.repository import Repository
from sparklake.verbs.base.context import Context
from sparklake.verbs.tables import write as writes
from sparklake.verbs.tables.write_request import WriteMode, WriteRequest

TARGET_SECONDS = 2
_FILE_BYTES = 4096
_DAYS = 100
_PATH = "tables/orders"
_MODES = (WriteMode.APPEND, WriteMode.OVERWRITE_PARTITIONS, WriteMode.OVERWRITE)


def main() -> None:
    """Measure writes in each mode and write the table."""
    parser = report.new_parser(__doc__, "write-staging")
    help_text = "numbers of files"
    parser.add_argument("-n", type=int, nargs="+", default=[10_000, 50_000], help=help_text)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="writes-", dir=args.folder) as folder:
        rows = in_own_process(_measure, Path(folder), args)
    notes = [
        f"Files of {_FILE_BYTES:,} bytes in {_DAYS} partitions, in a local directory, where their "
        f"checksums are computed; best of {args.reps} repetitions, engine {args.engine}. A write "
        "in one of the last two modes replaces as many files as it writes. The time asked for at "
        f"10,000 files is {TARGET_SECONDS} s."
    ]
    report.write(args, "Staging what Spark has written", notes, rows)


def _measure(folder: Path, args: Namespace) -> list[dict[str, Any]]:
    return list(_rows(folder, args))


def _rows(folder: Path, args: Namespace) -> Iterator[dict[str, Any]]:
    with open_lake(folder / "home", args.engine) as (lake, _):
        for count in args.n:
            name = f"lake-{count}"
            repo = lake.create_repository(name, str(folder / name))
            found = [_round(repo, f"{rep}", count) for rep in range(args.reps)]
            for mode, walls in zip(_MODES, zip(*found, strict=True), strict=True):
                yield {"mode": mode.value, "files": count, "wall, s": round(min(walls), 3)}


def _round(repo: Repository, name: str, count: int) -> Sequence[float]:
    branch = repo.create_branch(f"branch-{name}", "main").name
    return [_write(repo, branch, mode, count) for mode in _MODES]


def _write(repo: Repository, branch: str, mode: WriteMode, count: int) -> float:
    """Write a table; return the time since its files were there."""
    written_at = 0.0
    request = WriteRequest(branch, _PATH, "parquet", mode, ("day",))
    root = Path(repo.info.storage_namespace.removeprefix("file://"))

    def save(context: Context, rows: Any, request: WriteRequest, place: str) -> Any:
        nonlocal written_at
        for number in range(count):
            file = root / place / f"day={number % _DAYS}" / f"part-{number:05d}-{place[5:]}.parquet"
            if number < _DAYS:
                file.parent.mkdir(parents=True)
            file.write_bytes(number.to_bytes(8, "big") * (_FILE_BYTES // 8))
        written_at = time.perf_counter()
        return lambda names: None

    with mock.patch.object(writes, "save_rows", save):
        nothing: Any = None
        done = writes.write_files(repo._context, nothing, request)
    assert done.files == count
    return time.perf_counter() - written_at


if __name__ == "__main__":
    main()
