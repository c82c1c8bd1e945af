"""Iceberg with its jar, which exists for some versions of Spark: `make test-iceberg` has one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sparklake import Repository
from sparklake.metadata.iceberg.file_names import METADATA_FOLDER, current_metadata
from sparklake.rows.objects import ObjectInfo
from tests.support.spark import has_iceberg

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


def metadata_of(repo: Repository, ref: str, path: str) -> ObjectInfo:
    """Return the object of a table's current metadata."""
    folder = f"{path}/{METADATA_FOLDER}"
    objects = {each.path.removeprefix(folder): each for each in repo.objects(ref, folder)}
    return objects[current_metadata(objects)]
