"""An archive of Spark's Java classes, mapped into memory by the JVMs of tests.

With it, Spark starts and runs its first queries in half the time. `python -m
tests.support.java_classes` runs some queries and writes the archive into its environment. A JVM of
another version, or with other jars, ignores the archive.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"

# Without logging: a JVM that cannot use the archive would say so on standard output.
SHORT_LIVED = (
    f"-Xlog:disable -XX:SharedArchiveFile={ARCHIVE} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    # With the small defaults, 10% of the time goes into collections and sweeps of compiled code.
    " -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m -Xmn256m"
)
"""The options of a JVM that does not run long enough to repay better compilation or collection."""


def main() -> None:
    import pyspark

    from benchmarks.spark import spark_environment
    from sparklake.session import LOGGING_OPTION

    options = f"-Xlog:disable -XX:ArchiveClassesAtExit={ARCHIVE} -XX:+UseSerialGC {LOGGING_OPTION}"
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    with TemporaryDirectory() as folder:
        command = ["bash", submit, "--master", "local[2]", "--conf", "spark.ui.enabled=false"]
        command += ["--conf", "spark.log.level=ERROR", "--conf", "spark.sql.shuffle.partitions=2"]
        run = subprocess.run(
            [*map(str, command), str(Path(__file__).with_name("java_queries.py")), folder],
            cwd=folder,
            env={**os.environ, **spark_environment(), "SPARK_SUBMIT_OPTS": options},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
    # Java warns of a module that Spark loads, also where everything works.
    if run.returncode:
        sys.exit(run.stderr.decode(errors="replace"))


if __name__ == "__main__":
    main()
