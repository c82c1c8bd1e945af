"""Iceberg with its jar, which exists for some versions of Spark: `make test-iceberg` has one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.spark import has_iceberg

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

collect_ignore_glob = [] if has_iceberg() else ["test_*.py"]

CATALOG = "outside"


@pytest.fixture(scope="session")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Is the folder of a Hadoop catalog named `outside`, which knows nothing of sparklake."""
    folder = tmp_path_factory.mktemp("outside")
    settings = {"type": "hadoop", "warehouse": folder.as_uri(), "cache-enabled": "false"}
    spark.conf.set(f"spark.sql.catalog.{CATALOG}", "org.apache.iceberg.spark.SparkCatalog")
    for name, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.{CATALOG}.{name}", value)
    return folder


@pytest.fixture
def table_path(names: Any) -> str:
    return f"tables/{next(names)}"


@pytest.fixture
def load(spark: SparkSession) -> Callable[[str], DataFrame]:
    """Read the table of a metadata.json with Iceberg's own reader."""
    return lambda place: spark.read.format("iceberg").load(place)
