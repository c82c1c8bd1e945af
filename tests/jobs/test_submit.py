"""Jobs through the real spark-submit, with the package as a zip, as a cluster gets it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyspark
import pytest

import sparklake
from sparklake.session import LOGGING_OPTION
from tests.cli.running import Scene, said
from tests.support.spark import spark_environment

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PACKAGE = Path(sparklake.__file__).parent


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = tmp_path_factory.mktemp("zip")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, tree / "in" / "sparklake", ignore=ignored)
    return Path(shutil.make_archive(str(tree / "sparklake"), "zip", tree / "in"))


def submit(archive: Path, name: str, *arguments: str) -> tuple[int, Any]:
    """Submits a job; returns its exit code and what it prints."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": LOGGING_OPTION,
    }
    ran = subprocess.run(
        [
            *(Path(pyspark.__file__).parent / "bin" / "spark-submit", "--master", "local[2]"),
            *(word for pair in settings.items() for word in ("--conf", "=".join(pair))),
            *("--py-files", archive, PACKAGE / "jobs" / f"{name}.py", *arguments),
        ],
        env={**os.environ, **spark_environment()},
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in ran.stderr, ran.stderr
    return ran.returncode, json.loads(ran.stdout)


def test_import_commit_diff_and_merge(scene: Scene, archive: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("both", "other"):
        (source / name).write_text("base")
    main = scene.uri("main")
    code, made = submit(archive, "import_objects", f"{main}/", "--from", str(source), "-m", "load")
    assert (code, made) == (0, said("log", main)[0])
    dev = scene.branch("dev")
    scene.commit("main", {"both": "main"})
    scene.put("dev", {"both": "dev!", "new": "1"})
    spark = ("--engine", "spark")
    code, made = submit(archive, "commit", dev, "-m", "from dev", "--meta", "k=v", *spark)
    assert (code, made) == (0, said("log", dev)[0])
    assert submit(archive, "diff", main, dev, "--three-way") == (
        0,
        {"added": 1, "removed": 0, "changed": 0, "conflict": 1},
    )
    code, failure = submit(archive, "merge", dev, main, *spark)
    assert (code, failure["kind"], failure["count"]) == (3, "merge_conflict", 1)
    assert said("log", main)[0]["message"] == "change"
