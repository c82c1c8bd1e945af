"""A download of the jars that the tests of Spark need besides Spark.

These are Delta, Avro, Hadoop's S3 client, and for Spark 3.5 the server of Spark Connect.
`python -m tests.support.jars` installs those of tests/jars/spark-N.xml into its environment, with
Spark's own resolver. Spark 4.1 has a list of its own, with Iceberg's jar. Hadoop's client of Azure
is in a folder of its own, because most tests need a session without it.
"""

from __future__ import annotations

import subprocess
from importlib.metadata import version
from pathlib import Path

from benchmarks.spark import JARS, found_jars
from sparklake.session import find_java_home


def main() -> None:
    import pyspark

    (ivy,) = Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")
    java = find_java_home() / "bin" / "java"
    major, minor, *_ = version("pyspark").split(".")
    lists = Path(__file__).parents[1] / "jars"
    own = lists / f"spark-{major}.{minor}.xml"
    wanted = own if own.exists() else lists / f"spark-{major}.xml"
    for each, folder in ((wanted, JARS), (lists / f"{wanted.stem}-azure.xml", JARS / "azure")):
        if not each.exists():
            continue
        command = [java, "-jar", ivy, "-warn", "-cache", JARS / ".ivy", "-ivy", each]
        fetched = [
            "-types",
            "jar",
            "bundle",
            "-retrieve",
            folder / "[artifact]-[revision].[ext]",
            "-sync",
        ]
        subprocess.run([*map(str, command), *map(str, fetched)], check=True)
    found_jars()


if __name__ == "__main__":
    main()
