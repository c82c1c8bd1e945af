"""Tables in a container of Azurite, written and read by Spark's own client, hadoop-azure.

`python -m tests.support.azure_tables CONTAINER_URI HOSTS_FILE` is a process of its own, because the
session of the tests has no such client. Its Java resolves only the hosts of the file.
"""

from __future__ import annotations

import os
import sys

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

import sparklake
from benchmarks.spark import JARS, found_jars, spark_environment
from sparklake import Lake
from sparklake.session import DELTA_CATALOG, DELTA_EXTENSION

AZURE_JARS = JARS / "azure"


def start_session(endpoint: str, hosts: str) -> SparkSession:
    """Start a session with a client for the Blob API of Azurite, without TLS."""
    os.environ.update(spark_environment())
    place = endpoint.partition("://")[2].partition("/")[0]
    key = os.environ["AZURE_STORAGE_ACCOUNT_KEY"]
    client = {
        "fs.abfss.impl": "org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem",
        "fs.AbstractFileSystem.abfss.impl": "org.apache.hadoop.fs.azurebfs.Abfs",
        "fs.azure.abfs.endpoint": place,
        "fs.azure.always.use.https": "false",
        "fs.azure.account.auth.type": "SharedKey",
        "fs.azure.account.key.devstoreaccount1.dfs.core.windows.net": key,
        "fs.azure.account.key.devstoreaccount1.blob.core.windows.net": key,
        "fs.azure.account.hns.enabled": "false",
        "fs.azure.fns.account.service.type": "BLOB",
        "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
        "fs.azure.ssl.channel.mode": "Default_JSSE",
    }
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.jars": ",".join(map(str, [*found_jars(), *AZURE_JARS.glob("*.jar")])),
        "spark.driver.extraJavaOptions": f"-Djdk.net.hosts.file={hosts}",
        **dict((DELTA_EXTENSION, DELTA_CATALOG)),
        **{f"spark.hadoop.{name}": value for name, value in client.items()},
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def check_tables(spark: SparkSession, lake: Lake, container: str) -> None:
    """Write, merge and read a Parquet table and a Delta table."""
    place = f"abfss://{container.rpartition('/')[2]}@devstoreaccount1.dfs.core.windows.net"
    repo = lake.create_repository("tables", f"{place}/lake", range_records=8)
    main = repo.branch("main")
    rows = [(1, "one"), (2, None), (3, "three")]
    frame = spark.createDataFrame(rows, "id int, name string").coalesce(1)
    assert main.write(frame, "tables/x").files == 2  # With _SUCCESS.
    main.write(frame, "tables/d", "delta")
    main.commit("Write tables")
    assert {each.address.rpartition("/data/")[0] for each in repo.objects("main")} == {
        f"{container}/lake"
    }
    assert sorted(map(tuple, repo.read("main", "tables/x").collect())) == rows

    dev = repo.create_branch("dev", "main")
    dev.write(spark.createDataFrame([(4, "dev")], frame.schema), "tables/d", "delta", mode="append")
    dev.commit("Append on the branch")
    with main.edit_delta("tables/d") as location:
        assert location.startswith(f"{place}/lake/")
        DeltaTable.forPath(spark, location).delete("id = 1")
    main.commit("Delete on main")
    repo.merge("dev", "main")
    for ref, ids in (("main", [2, 3, 4]), ("dev", [1, 2, 3, 4]), ("main~1", [2, 3])):
        table = repo.read(ref, "tables/d")
        assert all(each.startswith(f"{place}/lake/") for each in table.inputFiles())
        assert sorted(row.id for row in table.collect()) == ids


def main(container: str, hosts: str) -> None:
    spark = start_session(os.environ["AZURE_STORAGE_ENDPOINT"], hosts)
    with sparklake.connect(dsn=os.environ["SPARKLAKE_DSN"], spark=spark) as lake:
        check_tables(spark, lake, container)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
