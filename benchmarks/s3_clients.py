"""Two clients of S3: python -m benchmarks.s3_clients --server PROGRAM.

The store over boto3 and the one over obstore do the same with the same objects, in turns, against
versitygw in a process of its own. CPU is that of the client. See docs/design/066.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.endpoint import versitygw
from benchmarks.remote_s3 import open_remote_s3
from sparklake.graveler.ports import ObjectStore
from sparklake.stores.objects import open_store
from sparklake.testing.s3_server import make_bucket, s3_environment

BUCKET = "benchmarks"
THREADS = 16
RANGE, SMALL = 1_200_000, 4_000
CLIENTS: dict[str, Callable[[str], ObjectStore]] = {"boto3": open_store, "obstore": open_remote_s3}


def main() -> None:
    """Measure both and write the table."""
    parser = report.new_parser(__doc__, "s3-clients")
    parser.add_argument("--server", type=Path, required=True, help="the program of versitygw")
    parser.add_argument("--ranges", type=int, default=120, help="objects of a range's size")
    parser.add_argument("-n", type=int, default=500, dest="count", help="small objects")
    args = parser.parse_args()
    times: dict[str, dict[str, tuple[float, float]]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="s3-", dir=args.folder) as folder,
        versitygw(args.server, Path(folder)) as url,
    ):
        environment = s3_environment(url, Path(folder))
        os.environ.update(environment)
        del os.environ["AWS_MAX_ATTEMPTS"]
        make_bucket(environment, BUCKET)
        for repetition in range(args.reps):
            for client, open_at in CLIENTS.items():
                store = open_at(f"s3://{BUCKET}/{client}-{repetition}")
                store.find("warm")
                for name, call in _calls(store, args.ranges, args.count):
                    measured = _measure(call)
                    before = times.setdefault(name, {}).get(client, measured)
                    times[name][client] = min(before, measured)
    notes = [
        f"Best of {args.reps} repetitions of {THREADS} threads, without latency. The listing by "
        "obstore looks up directory markers, that by boto3 has a parser of its own."
    ]
    rows = [_row(name, clients) for name, clients in times.items()]
    report.write(args, "Clients of S3", notes, rows)


def _calls(
    store: ObjectStore, ranges: int, count: int
) -> Iterator[tuple[str, Callable[[], object]]]:
    large, small = os.urandom(RANGE), os.urandom(SMALL)
    large_keys = [f"_lakefs/{number:064x}" for number in range(ranges)]
    keys = [f"data/{number:05}" for number in range(count)]

    def each(call: Callable[[str], object]) -> object:
        with ThreadPoolExecutor(THREADS) as threads:
            return list(threads.map(call, keys))

    puts = store.put_many_if_absent
    of_ranges, of_small = f"{ranges} x {RANGE // 1000:,} kB", f"{count} x {SMALL // 1000} kB"
    yield f"create {of_ranges}", partial(puts, dict.fromkeys(large_keys, large))
    yield f"get {of_ranges}", lambda: [len(each) for each in store.get_many(large_keys)]
    yield f"create {of_small}", partial(puts, dict.fromkeys(keys, small))
    yield f"get {of_small}", partial(each, store.get)
    yield f"get 100 bytes of {count}", partial(each, lambda key: store.get_part(key, 100, 200))
    yield f"look up {count}", partial(each, store.find)
    yield f"list {ranges + count}", lambda: sum(1 for _ in store.list())
    yield f"delete {count}", partial(each, store.delete)


def _measure(call: Callable[[], object]) -> tuple[float, float]:
    """Return the CPU and wall seconds of this process for a call."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.process_time() - cpu, time.perf_counter() - wall


def _row(name: str, clients: dict[str, tuple[float, float]]) -> dict[str, Any]:
    seconds = {
        f"{client} {what}, s": round(value, 3)
        for client, measured in clients.items()
        for what, value in zip(("CPU", "wall"), measured, strict=True)
    }
    ratio = clients["boto3"][0] / clients["obstore"][0]
    return {"operation": name, **seconds, "CPU ratio": round(ratio, 1)}


if __name__ == "__main__":
    main()
