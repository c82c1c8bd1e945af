"""A real cluster: spark-submit, a driver, and executors that are processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pyspark
import pytest

from tests.support.postgres import public_folder, system_folder
from tests.support.spark import SHORT_LIVED, spark_environment

APP = Path(__file__).with_name("cluster_app.py")
MASTER = "local-cluster[2,1,1024]"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_cluster_imports_commits_and_merges() -> None:
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    with system_folder(), public_folder() as folder:
        settings = {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.extraJavaOptions": SHORT_LIVED,
            "spark.executor.extraJavaOptions": SHORT_LIVED,
        }
        options = [text for pair in settings.items() for text in ("--conf", "=".join(pair))]
        command = ["bash", submit, "--master", MASTER, *options, str(APP), str(folder)]
        environment = {**os.environ, **spark_environment()}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-5000:]
    said = json.loads(done.stdout.strip().rpartition("\n")[2])
    assert said["master"] == MASTER, "what spark-submit says is not overridden"
    assert said["executors"] == 2
    assert said["trees"]["spark"] == said["trees"]["local"]
    assert len(set(said["trees"]["spark"])) == 4
    assert said["a task died"], "after it had written, and it ran again"
    assert not said["near the ref store"]
