"""What the benchmarks measure with: processes below this one, fits, requests through the proxy."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.endpoint import kind_of, s3_endpoint
from benchmarks.measuring import open_meter
from benchmarks.scale import slope
from sparklake.testing.s3_server import aws_client, make_bucket, s3_environment

BUSY = "import time\nheld = bytes(range(256)) * (200 << 12)\nwhile time.process_time() < 1: pass"
MEGABYTES_HELD = 200


def test_worker_processes_and_their_memory_are_measured() -> None:
    with open_meter() as meter:
        done, usage = meter.measure(lambda: subprocess.run([sys.executable, "-c", BUSY]))
        _, after = meter.measure(lambda: None)
    assert done.returncode == 0
    assert usage.cpu >= 0.95
    assert usage.wall >= 0.95
    assert usage.worker_mb >= MEGABYTES_HELD > after.worker_mb
    assert after.cpu < 0.9
    assert after.driver_mb > 10


def test_a_slope_is_computed_from_logarithms() -> None:
    assert slope([(n, 3.0) for n in (10, 100, 1000)]) == 0
    assert slope([(n, 0.5 * n) for n in (10, 100, 1000)]) == 1
    assert slope([(n, n * n) for n in (1, 5, 25)]) == 2
    assert slope([(10, 1.0)]) is None


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (f"GET /b/r/_lakefs/{'0a' * 32} HTTP/1.1", "GET table"),
        (f"PUT /b/r/_lakefs/{'0a' * 32} HTTP/1.1", "PUT table"),
        ("PUT /b/r/_lakefs/dummy HTTP/1.1", "PUT other"),
        ("GET /b?list-type=2&prefix=r HTTP/1.1", "LIST"),
    ],
)
def test_requests_are_classified(head: str, kind: str) -> None:
    assert kind_of(head.encode()) == kind


@pytest.mark.system
def test_the_proxy_counts_and_delays_each_request(tmp_path: Path) -> None:
    body = bytes(300_000)
    with s3_endpoint() as endpoint:
        environment = s3_environment(endpoint.url, tmp_path)
        make_bucket(environment, "bucket")
        client = aws_client("s3", environment)
        before = endpoint.requests()
        endpoint.set_latency(0.2)
        start = time.perf_counter()
        client.put_object(Bucket="bucket", Key="key", Body=body)
        assert client.get_object(Bucket="bucket", Key="key")["Body"].read() == body
        # A put goes there twice: boto3 sends the body when the server has asked for it.
        assert time.perf_counter() - start >= 0.6
        assert endpoint.requests() - before == {"PUT other": 1, "GET other": 1}
