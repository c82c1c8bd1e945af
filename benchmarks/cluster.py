"""A Spark cluster on one machine: a master and two workers, as processes on loopback.

Each worker has a host name of its own, because Spark runs no second copy of a task on the host of
the first one. Workers get the package only as users ship it, in a zip for --py-files.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyspark

import sparklake
from benchmarks.spark import spark_environment
from sparklake.session import LOGGING_OPTION

PACKAGE = Path(sparklake.__file__).parent
DEFAULTS = PACKAGE.parent / "conf" / "spark-defaults.conf"
SPARK_HOME = Path(pyspark.__file__).parent
MASTER_HOST, *WORKER_HOSTS = "127.0.0.1", "127.0.0.2", "127.0.0.3"


_START_SECONDS = 120


@dataclass(frozen=True)
class Cluster:
    """A running cluster. Applications are submitted one after the other."""

    master: str
    package: Path
    """A copy of the package, for workers that have it installed."""
    archive: Path
    executor_options: str = ""

    def command(self, app: Path, *arguments: str, **settings: str) -> list[str]:
        """Return the command that submits an application; `_` in a setting's name means `.`."""
        settings = {
            "spark_ui_enabled": "false",
            "spark_sql_shuffle_partitions": "2",
            "spark_executor_memory": "512m",
            "spark_driver_memory": "512m",
            "spark_driver_extraJavaOptions": LOGGING_OPTION,
            "spark_executor_extraJavaOptions": self.executor_options,
            **settings,
        }
        pairs = (f"{name.replace('_', '.')}={value}" for name, value in settings.items())
        return [
            *("bash", str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.master),
            *("--properties-file", str(DEFAULTS)),
            *(word for pair in pairs for word in ("--conf", pair)),
            *("--py-files", str(self.archive), str(app), *arguments),
        ]

    def submit(
        self, app: Path, *arguments: str, **settings: str
    ) -> subprocess.CompletedProcess[str]:
        """Run an application to its end; return its result, also if it fails."""
        command = self.command(app, *arguments, **settings)
        return subprocess.run(
            command, env=driver_environment(), capture_output=True, text=True, check=False
        )


def driver_environment() -> dict[str, str]:
    """Return the environment of a driver that imports the package from the shipped files."""
    environment = {**os.environ, **spark_environment()}
    environment.pop("PYTHONPATH", None)
    return environment


@contextmanager
def running_cluster(folder: Path, memory: str = "1g", java_options: str = "") -> Iterator[Cluster]:
    """Run a master and two workers of one core each. `java_options` are those of all JVMs."""
    daemon = partial(_daemon, memory=memory, java_options=java_options)
    with ExitStack() as stack:
        log = stack.enter_context(daemon(folder / "master", "master.Master", MASTER_HOST))
        master = _logged(log, r"spark://[\d.]+:\d+")
        for number, host in enumerate(WORKER_HOSTS):
            place = folder / f"worker-{number}"
            options = ("--work-dir", str(place / "work"), master)
            log = stack.enter_context(daemon(place, "worker.Worker", host, *options))
            _logged(log, "Successfully registered with master")
        package = folder / "in" / "sparklake"
        shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
        archive = shutil.make_archive(str(folder / "sparklake"), "zip", package.parent)
        yield Cluster(master, package, Path(archive), java_options)


@contextmanager
def _daemon(
    place: Path, name: str, host: str, *options: str, memory: str, java_options: str
) -> Iterator[Path]:
    """Run a master or a worker in its own folder; yield its log."""
    place.mkdir()
    environment = {
        **driver_environment(),
        "SPARK_LOCAL_IP": host,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": java_options,
        "SPARK_WORKER_CORES": "1",
        "SPARK_WORKER_MEMORY": memory,
    }
    spark_class = str(SPARK_HOME / "bin" / "spark-class")
    address = ("--host", host, "--port", "0", "--webui-port", "0")
    command = ["bash", spark_class, f"org.apache.spark.deploy.{name}", *address, *options]
    path = place / "log"
    with path.open("wb") as log:
        process = subprocess.Popen(
            command, cwd=place, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield path
    finally:
        # With its executors, which a worker that is killed would leave behind.
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _logged(log: Path, pattern: str) -> str:
    """Wait until a pattern is in a log; return the match."""
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        text = log.read_text(errors="replace")
        found = re.search(pattern, text)
        if found:
            return found[0]
        time.sleep(0.1)
    raise TimeoutError(f"no {pattern!r} in {log}:\n{text[-5000:]}")
