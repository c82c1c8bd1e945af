"""The CPU time of a client that lists a bucket: python -m benchmarks.bucket_listing -n 3000.

The server is moto over HTTP, in a process of its own, so that its time does not count. Readings by
botocore's parser and by sparklake take turns.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import report
from benchmarks.endpoint import s3_endpoint
from sparklake.stores.objects import open_store
from sparklake.testing.s3_server import aws_client, make_bucket, s3_environment

BUCKET = "benchmarks"
_FOLDER_FILES = 100


def main() -> None:
    """Measure both and write the table."""
    parser = report.new_parser(__doc__, "bucket-listing")
    parser.add_argument("-n", type=int, default=3000, dest="count", help="objects")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="listing-", dir=args.folder) as folder,
        s3_endpoint() as endpoint,
    ):
        environment = s3_environment(endpoint.url, Path(folder))
        os.environ.update(environment)
        make_bucket(environment, BUCKET)
        client = aws_client("s3", environment)
        for number in range(args.count):
            key = f"lake/data/{number // _FOLDER_FILES:020x}/{number:020x}"
            client.put_object(Bucket=BUCKET, Key=key, Body=b"0123456789")
        store = open_store(f"s3://{BUCKET}/lake")
        ways: dict[str, Callable[[], int]] = {
            "a paginator of boto3": lambda: sum(
                len(page["Contents"])
                for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
            ),
            "sparklake's store": lambda: sum(1 for _ in store.scan("")),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(args.reps + 1):
            for name, listing in ways.items():
                times[name].append(_cpu(listing, args.count))
    rows = []
    for name, seconds in times.items():
        micros = min(seconds[1:]) / args.count * 1e6
        rows.append(
            {
                "way": name,
                "CPU of an object, us": round(micros, 1),
                "objects/s": round(1e6 / micros),
            }
        )
    notes = [
        f"CPU time of the client for each of {args.count:,} objects in pages of 1,000, best of "
        f"{args.reps} repetitions after one to warm up."
    ]
    report.write(args, "The CPU time of listing a bucket", notes, rows)


def _cpu(listing: Callable[[], int], count: int) -> float:
    """Return the CPU seconds of this process for one listing."""
    begun = time.process_time()
    if listing() != count:
        raise AssertionError(f"the listing does not have {count} objects")
    return time.process_time() - begun


if __name__ == "__main__":
    main()
