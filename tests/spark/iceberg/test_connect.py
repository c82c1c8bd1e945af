"""Writes to Iceberg tables on Spark Connect, in another process, because none can hold both."""

from __future__ import annotations

import pytest

from tests.support.spark import check_on_connect


@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_writes_on_spark_connect() -> None:
    check_on_connect("tests/spark/iceberg", "connect")
