"""The cost of S3, with latency: python -m benchmarks.s3 -n 1000000.

The server is moto over HTTP, or the program that `--server` names. moto takes about 9 ms of CPU for
a put, and both share the cores. A proxy adds the latency to each request. The repository is built
without latency, to save time.
"""

from __future__ import annotations

import os
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import sparklake
from benchmarks import data, ours, report
from benchmarks.endpoint import Endpoint, s3_endpoint
from benchmarks.measuring import Meter, open_lake
from benchmarks.remote_s3 import open_remote_s3
from sparklake.stores.objects import open_store
from sparklake.stores.objects.s3.provider import S3
from sparklake.testing.s3_server import make_bucket, s3_environment

SIZES = ("100", "1%")
BUCKET = "benchmarks"
CLIENTS = {"boto3": S3.open, "obstore": open_remote_s3}


def main() -> None:
    """Measure the operations and write the table."""
    parser = report.new_parser(__doc__, "s3")
    parser.add_argument("-n", type=int, default=1_000_000, dest="count", help="entries")
    parser.add_argument("--latency", type=float, default=0.02, help="seconds for a request")
    parser.add_argument("--server", type=Path, help="the program of versitygw, instead of moto")
    parser.add_argument("--client", choices=CLIENTS, default="boto3")
    parser.add_argument(
        "--imported", type=int, default=20_000, help="imported and collected objects"
    )
    args = parser.parse_args()
    object.__setattr__(S3, "open", CLIENTS[args.client])
    with (
        tempfile.TemporaryDirectory(prefix="s3-", dir=args.folder) as folder,
        tempfile.TemporaryDirectory(prefix="s3-", dir=args.folder) as buckets,
        s3_endpoint(args.server, Path(buckets)) as endpoint,
    ):
        environment = s3_environment(endpoint.url, Path(folder))
        os.environ.update(environment, SPARKLAKE_CACHE=str(Path(folder, "cache")))
        make_bucket(environment, BUCKET)
        rows = list(_measure(args, Path(folder), endpoint))
    notes = [
        f"{args.count:,} entries, {args.latency * 1000:.0f} ms of latency added to each request "
        f"but those of the build; random changes, best of {args.reps} repetitions, engine "
        f"{args.engine}; the client is {args.client}, the server "
        f"{args.server.name if args.server else 'moto'}.",
        "Requests are those of the best repetition: by method, and whether they were about a table "
        "(a range or a metarange). A full cache of tables holds what was written from here.",
        "In turn: how long the latency would take if no two requests overlapped.",
    ]
    report.write(args, "On S3, with latency", notes, rows)


def _measure(args: Namespace, folder: Path, endpoint: Endpoint) -> Iterator[dict[str, Any]]:
    with open_lake(folder / "home", args.engine) as (lake, meter):
        ours.warm(lake, meter, folder, args.count)
        meter.counter = endpoint.requests
        base = data.write_base(folder / "base.arrow", args.count)
        with ours.new_subject(lake, meter, f"s3://{BUCKET}", args.count) as subject:
            yield _row("full", "all", [subject.build(base)], 0.0)
            endpoint.set_latency(args.latency)
            measured = subject.random_changes(SIZES, args.seed, args.reps)
            for (_, changes), some in measured.items():
                yield _row("full", changes, some, args.latency)
            with (
                mock.patch.dict(os.environ, SPARKLAKE_CACHE_BYTES="0"),
                open_lake(folder / "home", args.engine) as (uncached, other_meter),
            ):
                other_meter.counter = endpoint.requests
                repo = uncached.repository(subject.repo.name)
                other = ours.Subject(uncached, other_meter, repo, args.count)
                seed = args.seed + 2 * args.reps
                measured = other.random_changes(SIZES, seed, args.reps)
                for (_, changes), some in measured.items():
                    yield _row("none", changes, some, args.latency)
            yield from _bulk(args, lake, meter, endpoint)


def _bulk(
    args: Namespace, lake: sparklake.Lake, meter: Meter, endpoint: Endpoint
) -> Iterator[dict[str, Any]]:
    """Import objects by listing, then collect what a deleted branch has written."""
    endpoint.set_latency(0)
    store = open_store(f"s3://{BUCKET}/raw")
    for start in range(0, args.imported, 1000):
        names = [f"{number // 100:06}/{number:020x}" for number in range(start, start + 1000)]
        store.put_many_if_absent(dict.fromkeys(names, b"0123456789"))
    repo = lake.create_repository("bulk", f"s3://{BUCKET}/bulk")
    for number in range(args.imported // 10):
        name = f"data/orphans/{number // 100:06}/{number:020x}"
        open_store(f"s3://{BUCKET}/bulk").put_if_absent(name, b"0123456789")
    endpoint.set_latency(args.latency)
    main = repo.branch("main")
    _, usage = meter.measure(lambda: main.import_objects(f"s3://{BUCKET}/raw", "raw"))
    listed = ours.Measured("import", "listing", args.imported, usage)
    yield _row("none", "listing", [listed], args.latency)
    found, usage = meter.measure(lambda: repo.collect_garbage(grace=timedelta()))
    print(found.run)
    collected = ours.Measured("gc", "orphans", args.imported // 10, usage)
    yield _row("none", "orphans", [collected], args.latency)


def _row(
    cache: str, changes: str, measured: Sequence[ours.Measured], latency: float
) -> dict[str, Any]:
    best = ours.quickest(measured)
    calls = best.usage.calls
    shown = {kind: calls.pop(kind, 0) for kind in ("GET table", "PUT table", "PUT other")}
    return {
        "op": best.op,
        "cache": cache,
        "changes": changes,
        "d": best.d,
        "wall, s": round(best.wall, 3),
        "CPU, s": round(best.usage.cpu, 3),
        "ranges read": best.ranges_read,
        "ranges written": best.ranges_written,
        **shown,
        "other": sum(calls.values()),
        "memory, MB": round(best.usage.driver_mb),
        "in turn, s": round(latency * (sum(shown.values()) + sum(calls.values())), 3),
    }


if __name__ == "__main__":
    main()
