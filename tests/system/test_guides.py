"""The scripts of the guides in docs/runtimes/, run with bash as the platforms run them.

Their installations use the packages that `make setup-tests` has downloaded, and no network.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from benchmarks.cluster import PACKAGE, SPARK_HOME, Cluster, driver_environment
from campaigns.postgres import public_folder
from sparklake.testing.s3_server import aws_client, s3_environment, s3_server
from tests.support.wheels import built_wheel, source_tree

ROOT = PACKAGE.parent
EXAMPLES = ROOT / "examples"
DOWNLOADED = Path(sys.prefix) / "wheelhouse"

MERGED = {"rows": 1000, "amount of 42": 0.0}


def bash(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command without a network; return its result."""
    surroundings = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PIP_")},
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(DOWNLOADED),
        "PIP_CONFIG_FILE": os.devnull,
        "BASE_PYTHON": sys.executable,
        **environment,
    }
    surroundings.pop("PYTHONPATH", None)
    command = [str(each) for each in words]
    return subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a wheel. `make test-runtimes` installs those of a release."""
    tree = source_tree(tmp_path_factory.mktemp("wheels") / "tree")
    return built_wheel(tree, SPARKLAKE_KERNELS="off").parent


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with public_folder() as folder:
        yield folder


def printed(ran: subprocess.CompletedProcess[str]) -> Mapping[str, object]:
    """Return the last line that a run printed, without the commit's id."""
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-5000:]
    document: dict[str, object] = json.loads(ran.stdout.strip().rpartition("\n")[2])
    assert len(str(document.pop("commit"))) == 64
    return document


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_packed_archive_runs_a_first_merge_on_a_cluster(
    cluster: Cluster, wheels: Path, place: Path, dsn: str
) -> None:
    archive, environment = place / "environment.tar.gz", place / "environment"
    packed = bash("bash", EXAMPLES / "emr" / "pack.sh", wheels, archive)
    assert packed.returncode == 0, packed.stderr
    environment.mkdir()
    subprocess.run(["tar", "xzf", str(archive), "-C", str(environment)], check=True)
    ran = subprocess.run(
        [
            *("bash", str(SPARK_HOME / "bin" / "spark-submit"), "--master", cluster.master),
            *("--conf", "spark.ui.enabled=false", "--conf", "spark.executor.memory=512m"),
            *("--archives", f"{archive}#environment"),
            *(str(EXAMPLES / "first_merge.py"), str(place / "packed-lake")),
        ],
        env={
            **driver_environment(),
            "SPARKLAKE_DSN": dsn,
            "PYSPARK_DRIVER_PYTHON": str(environment / "bin" / "python"),
            "PYSPARK_PYTHON": "./environment/bin/python",
        },
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    assert printed(ran) == MERGED


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_job_of_glue_reads_its_dsn_and_merges(wheels: Path, place: Path, dsn: str) -> None:
    """Run it in an environment of install_venv.sh, as an image of Kubernetes has it."""
    target = place / "opt"
    made = bash("bash", EXAMPLES / "install_venv.sh", wheels, target)
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith("sparklake ")
    with s3_server() as endpoint:
        aws = s3_environment(endpoint, place)
        aws_client("secretsmanager", aws).create_secret(Name="lake/dsn", SecretString=dsn)
        ran = subprocess.run(
            [
                *("bash", str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local[2]"),
                *("--conf", "spark.ui.enabled=false"),
                *("--py-files", str(EXAMPLES / "first_merge.py")),
                *(str(EXAMPLES / "glue" / "job.py"), "--JOB_NAME", "first-merge"),
                *("--namespace", str(place / "glue-lake"), "--dsn_secret", "lake/dsn"),
                *("--name", "glue", "--enable-metrics", "true"),
            ],
            env={
                **driver_environment(),
                **aws,
                "PYSPARK_DRIVER_PYTHON": str(target / "bin" / "python"),
                "PYSPARK_PYTHON": str(target / "bin" / "python"),
            },
            cwd=place,
            capture_output=True,
            text=True,
            check=False,
        )
    assert printed(ran) == MERGED
    assert dsn not in ran.stdout + ran.stderr


def test_the_init_script_refuses_to_replace_packages(wheels: Path, tmp_path: Path) -> None:
    script, venv = EXAMPLES / "databricks" / "init.sh", tmp_path / "python"
    python = venv / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    settings = {"WHEELS": str(wheels), "CLUSTER_PYTHON": str(python)}
    assert bash(python, "-m", "pip", "install", "--quiet", "numpy").returncode == 0
    ran = bash("bash", script, **settings)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("sparklake ")

    # A runtime whose rich is too old for sparklake.
    old = _empty_wheel(tmp_path, "rich", "1.0")
    assert bash(python, "-m", "pip", "install", "--quiet", "--no-deps", old).returncode == 0
    ran = bash("bash", script, **settings)
    assert ran.returncode == 1
    assert "sparklake replaced packages of the runtime: rich==1.0" in ran.stderr


def _empty_wheel(folder: Path, name: str, version: str) -> Path:
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path
