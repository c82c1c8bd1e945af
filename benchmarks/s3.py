"""The cost of S3, with latency: python -m benchmarks.s3 -n 1000000.

The server is moto over HTTP. It takes about 9 ms of CPU for a put, and shares the cores. A proxy
adds the latency to each request. The repository is built without latency, to save time.
"""

from __future__ import annotations

import os
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks import data, ours, report
from benchmarks.endpoint import Endpoint, s3_endpoint
from benchmarks.measuring import open_lake
from sparklake.testing.s3_server import make_bucket, s3_environment

SIZES = ("100", "1%")
BUCKET = "benchmarks"


def main() -> None:
    """Measure the operations and write the table."""
    parser = report.new_parser(__doc__, "s3")
    parser.add_argument("-n", type=int, default=1_000_000, dest="count", help="entries")
    parser.add_argument("--latency", type=float, default=0.02, help="seconds for a request")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="s3-", dir=args.folder) as folder,
        s3_endpoint() as endpoint,
    ):
        environment = s3_environment(endpoint.url, Path(folder))
        os.environ.update(environment, SPARKLAKE_CACHE=str(Path(folder, "cache")))
        make_bucket(environment, BUCKET)
        rows = list(_measure(args, Path(folder), endpoint))
    notes = [
        f"{args.count:,} entries, {args.latency * 1000:.0f} ms of latency added to each request "
        f"but those of the build; random changes, best of {args.reps} repetitions, engine "
        f"{args.engine}.",
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
                open_lake(folder / "home", args.engine) as (uncached, meter),
            ):
                meter.counter = endpoint.requests
                repo = uncached.repository(subject.repo.name)
                other = ours.Subject(uncached, meter, repo, args.count)
                seed = args.seed + 2 * args.reps
                measured = other.random_changes(SIZES, seed, args.reps)
                for (_, changes), some in measured.items():
                    yield _row("none", changes, some, args.latency)


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
        "in turn, s": round(latency * (sum(shown.values()) + sum(calls.values())), 3),
    }


if __name__ == "__main__":
    main()
