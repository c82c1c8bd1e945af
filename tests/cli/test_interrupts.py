"""Ctrl-C, once, while a command waits: for a bucket, for Postgres, for what it started itself."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

import sparklake
from campaigns.postgres import fresh_database, system_folder
from sparklake.errors import InterruptError
from sparklake.testing.s3_server import REGION, fresh_bucket, s3_environment
from tests.support.silent_server import SilentServer, silent_server

SAID = str(InterruptError())
# Long beyond what a busy machine needs, and far below what the endpoint would be waited for.
BOUND_SECONDS = 60


class Command:
    """A command of the real program, in a process of its own."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], errors: Path) -> None:
        self._errors = errors
        with errors.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "sparklake.cli", *words],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )

    def until(self, condition: Callable[[], Any]) -> None:
        """Wait until something is so, and fail where the command ends before."""
        while not condition():
            assert self.process.poll() is None, self.errors
            time.sleep(0.02)

    def interrupted(self) -> int:
        """Interrupt the command once; return its exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(BOUND_SECONDS)

    @property
    def errors(self) -> str:
        return self._errors.read_text()


@pytest.fixture(scope="module")
def dsn(server_dsn: str) -> Iterator[str]:
    with fresh_database(server_dsn) as fresh:
        yield fresh


@pytest.fixture
def silent() -> Iterator[SilentServer]:
    with silent_server() as server:
        yield server


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Command]]:
    made: list[Command] = []

    def start(*words: str, **environment: str) -> Command:
        environment.setdefault("SPARKLAKE_HOME", str(tmp_path / "home"))
        made.append(Command(words, environment, tmp_path / f"errors-{len(made)}"))
        return made[-1]

    yield start
    for each in made:
        if each.process.poll() is None:
            each.process.kill()
        each.process.communicate()


def of_bucket(server: SilentServer) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": server.url,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@pytest.fixture(scope="module")
def lake_in_bucket(dsn: str, s3_endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Is the DSN of a lake whose repository is in a bucket; no test changes anything in it."""
    environment = s3_environment(s3_endpoint, tmp_path_factory.getbasetemp())
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        make_lake(dsn, fresh_bucket(environment), tmp_path_factory.mktemp("home"))
    return dsn


def make_lake(dsn: str, bucket: str, home: Path) -> None:
    with sparklake.connect(home=home, dsn=dsn) as lake:
        repo = lake.create_repository("lake", f"s3://{bucket}/lake", range_records=2)
        main = repo.branch("main")
        main.put_many({f"k/{number}": b"%d" % number for number in range(20)})
        main.commit("first")
        repo.create_branch("dev", "main").put("k/3", b"theirs")
        repo.branch("dev").commit("theirs")
        main.put("k/7", b"ours")
        main.commit("ours")
        main.put("k/9", b"staged")
        lake.create_repository("here", str(home / "namespace")).branch("main").put("k", b"v")


VERBS = {
    "put": ("put", "{file}", "lakefs://lake/main/new"),
    "put -r": ("put", "-r", "{folder}", "lakefs://lake/main/new"),
    "cat": ("cat", "lakefs://lake/main/k/1"),
    "ls": ("ls", "-r", "lakefs://lake/main/"),
    "diff": ("diff", "lakefs://lake/main", "lakefs://lake/dev"),
    "commit": ("commit", "lakefs://lake/main", "-m", "m"),
    "merge": ("merge", "lakefs://lake/main", "lakefs://lake/dev"),
    "mv": ("mv", "-r", "lakefs://lake/main/k/", "lakefs://lake/main/l/"),
    "import": ("import", "lakefs://lake/dev/in/", "--from", "s3://elsewhere/raw"),
    "export": ("export", "lakefs://lake/main", "--to", "{out}"),
    "export to a bucket": ("export", "lakefs://lake/main", "--to", "s3://elsewhere/out"),
    "gc": ("gc", "run", "--yes", "lakefs://lake"),
    "dump": ("refs", "dump", "lakefs://lake"),
    "create": ("repo", "create", "lakefs://other", "s3://elsewhere/lake"),
    "json": ("put", "{file}", "lakefs://lake/main/new", "--output", "json"),
}


ALWAYS = ("put", "merge", "gc", "json")
"""The verbs that `make test-system` interrupts; `make test-slow` interrupts the others."""


@pytest.mark.parametrize(
    "verb",
    [pytest.param(each, marks=() if each in ALWAYS else pytest.mark.exhaustive) for each in VERBS],
)
def test_a_silent_bucket(
    lake_in_bucket: str,
    silent: SilentServer,
    run: Callable[..., Command],
    tmp_path: Path,
    verb: str,
) -> None:
    (tmp_path / "folder").mkdir()
    for number in range(3):
        (tmp_path / "folder" / f"{number}").write_bytes(bytes(2 << 20))
    places = {
        "file": str(tmp_path / "folder" / "0"),
        "folder": str(tmp_path / "folder"),
        "out": str(tmp_path / "out"),
    }
    words = [each.format(**places) for each in VERBS[verb]]
    settings = {"SPARKLAKE_DSN": lake_in_bucket, "SPARKLAKE_CACHE_BYTES": "0"}
    command = run(*words, **settings, **of_bucket(silent))
    command.until(silent.heard.is_set)
    assert command.interrupted() == 130
    out = command.process.stdout.read().decode()
    said = out if verb == "json" else command.errors
    assert SAID in said
    assert "Traceback" not in command.errors


@pytest.mark.system
def test_what_is_waited_for_is_said(
    lake_in_bucket: str, silent: SilentServer, run: Callable[..., Command], tmp_path: Path
) -> None:
    """And after a few attempts it is given up, sooner where the settings say so."""
    (tmp_path / "file").write_bytes(b"body")
    command = run(
        *("put", str(tmp_path / "file"), "lakefs://lake/main/new"),
        SPARKLAKE_DSN=lake_in_bucket,
        SPARKLAKE_BUCKET_READ_SECONDS="2",
        **of_bucket(silent),
    )
    command.until(lambda: f"waiting for {silent.url}: no response for" in command.errors)
    assert command.process.wait(BOUND_SECONDS) == 12
    assert f"error: {silent.url} does not answer" in command.errors


def test_a_silent_postgres(silent: SilentServer, run: Callable[..., Command]) -> None:
    command = run("repo", "list", SPARKLAKE_DSN=f"postgresql://me@127.0.0.1:{silent.port}/lake")
    command.until(silent.heard.is_set)
    assert command.interrupted() == 130
    assert SAID in command.errors


def test_a_queue_for_a_lock(lake_in_bucket: str, run: Callable[..., Command]) -> None:
    """The server is told, so that no session of a command that has gone stays in the queue."""
    dsn = lake_in_bucket
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with psycopg.connect(dsn) as holder, psycopg.connect(dsn, autocommit=True) as looking:
        holder.execute("LOCK TABLE sparklake.branches IN ACCESS EXCLUSIVE MODE")
        command = run("commit", "lakefs://here/main", "-m", "m", SPARKLAKE_DSN=dsn)
        command.until(lambda: looking.execute(waiting).fetchone() == (1,))
        assert command.interrupted() == 130
        assert SAID in command.errors
        while looking.execute(waiting).fetchone() != (0,):
            time.sleep(0.02)


def initdbs(process: psutil.Process) -> list[psutil.Process]:
    """Return the `initdb` of a command. Other children of it last some milliseconds only."""
    initdbs = []
    for child in process.children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.name() == "initdb":
                initdbs.append(child)
    return initdbs


def test_a_start_of_the_embedded_postgres(run: Callable[..., Command]) -> None:
    """What has begun to be made is ended too, and the next command makes it."""
    with system_folder() as folder:
        home = {"SPARKLAKE_HOME": str(folder / "home")}
        command = run("repo", "list", **home)
        process = psutil.Process(command.process.pid)
        running: list[psutil.Process] = []
        command.until(lambda: running.extend(initdbs(process)) or running)
        assert command.interrupted() == 130
        assert SAID in command.errors
        assert running[0] not in psutil.process_iter()
        assert run("repo", "list", **home).process.wait(BOUND_SECONDS) == 0


INTERRUPTED_IMPORT = """
import os, signal, sys

interrupted = sys.argv.pop(1)

class Interrupting:
    def find_spec(self, name, *_):
        if name == interrupted:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())

from sparklake.cli.start import main

sys.exit(main())
"""


@pytest.mark.parametrize("module", ["sparklake.errors", "typer.main", "json", "psycopg"])
def test_an_interrupt_of_an_import_is_one_line(tmp_path: Path, module: str) -> None:
    """Imports take most of a command's first 0.3 s."""
    run = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT, module, "repo", "list"],
        env={**os.environ, "SPARKLAKE_HOME": str(tmp_path), "SPARKLAKE_DSN": "host=/none"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.stderr, run.stdout) == (f"error: {SAID}\n", "")
    assert run.returncode in (130, -signal.SIGINT)
