from __future__ import annotations

import fcntl
import os
import pickle
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

import pytest

from sparklake.errors import (
    InvalidKeyError,
    MissingFileError,
    StoreError,
    StorePermissionError,
    StoreUnreachableError,
)
from sparklake.graveler.kernel_choice import only_definitions
from sparklake.graveler.ports import StoredObject
from sparklake.stores.objects.destinations import ExpectedObject
from sparklake.stores.objects.local import columns as local_columns
from sparklake.stores.objects.local.destination import LocalDestination
from sparklake.stores.objects.local.files import TEMPORARY, LocalFile
from sparklake.stores.objects.local.store import LocalStore
from sparklake.testing.object_store import ObjectStoreContract, keys

RACER = """
import sys, time
from pathlib import Path
from sparklake.stores.objects import open_store

root, name, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = open_store(root)
print("ready", flush=True)
sys.stdin.readline()
body = name.encode() * 9999
print(*(key for key in range(rounds) if store.put_if_absent(f"_lakefs/{key}", body)))
"""

LARGE_PUT = """
import sys
from sparklake.stores.objects import open_store

open_store(sys.argv[1]).put_if_absent("data/large", bytes(256 << 20))
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    folder.mkdir()
    return folder


@pytest.fixture
def store(root: Path) -> LocalStore:
    return LocalStore(root)


class TestLocalStore(ObjectStoreContract):
    pass


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def leftovers(root: Path) -> list[Path]:
    return [each for each in (root / TEMPORARY).rglob("*") if each.is_file()]


# --- atomicity ------------------------------------------------------------------------------------


def test_one_of_racing_processes_wins(store: LocalStore, root: Path) -> None:
    racers = {name: start(RACER, root, name, 40) for name in "abcd"}
    for each in racers.values():
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in racers.values():
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    won = {name: each.communicate(timeout=60)[0].split() for name, each in racers.items()}
    assert sorted(int(key) for keys_won in won.values() for key in keys_won) == list(range(40))
    for name, keys_won in won.items():
        for key in keys_won:
            assert store.get(f"_lakefs/{key}") == name.encode() * 9999
    assert leftovers(root) == []


def test_a_killed_put_is_invisible(store: LocalStore, root: Path) -> None:
    writer = start(LARGE_PUT, root)
    while not any(each.stat().st_size for each in leftovers(root)):
        assert writer.poll() is None
        assert store.find("data/large") is None
    writer.send_signal(signal.SIGKILL)
    writer.communicate(timeout=60)
    assert writer.returncode == -signal.SIGKILL
    assert leftovers(root)
    assert keys(store) == []
    assert store.find("data/large") is None
    assert store.put_if_absent("data/large", b"whole")
    assert store.get("data/large") == b"whole"


def test_leftovers_of_a_killed_put_are_removed_after_a_day(store: LocalStore, root: Path) -> None:
    (root / TEMPORARY).mkdir()
    now = int(time.time())
    for hours in (23, 25):
        (root / TEMPORARY / f"{now - hours * 3600}-{hours}-0").write_bytes(b"part")
    store.put_if_absent("x", b"body")
    assert [each.name[-4:] for each in (root / TEMPORARY).iterdir()] == ["23-0"]


def test_a_failed_put_leaves_no_file(store: LocalStore, root: Path) -> None:
    with pytest.raises(StoreError):
        store.put_files_if_absent({"x": root / "gone"})
    assert list((root / TEMPORARY).iterdir()) == []


def test_temporary_files_are_not_objects(store: LocalStore, root: Path) -> None:
    for folder in (root / TEMPORARY, root / "nested" / TEMPORARY):
        folder.mkdir(parents=True)
        (folder / "part").write_bytes(b"part")
    assert keys(store) == []
    assert keys(store, f"{TEMPORARY}/") == []
    assert keys(store, f"nested/{TEMPORARY}/") == []
    for call in (store.get, store.find, store.delete):
        with pytest.raises(InvalidKeyError, match="reserved"):
            call(f"{TEMPORARY}/part")


# --- links ----------------------------------------------------------------------------------------


def test_files_are_hard_linked_in_both_directions(
    store: LocalStore, root: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"body")
    store.put_files_if_absent({"x": source})
    store.get_to_file("x", tmp_path / "copy")
    numbers = {each.stat().st_ino for each in (source, root / "x", tmp_path / "copy")}
    assert len(numbers) == 1


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    here = tmp_path.stat().st_dev
    others = [each for each in map(Path, ("/dev/shm", "/tmp")) if each.is_dir()]
    other = next((each for each in others if each.stat().st_dev != here), None)
    if other is None:
        pytest.skip("needs a second file system at /dev/shm or /tmp")
    return other / f"sparklake-{os.getpid()}-{time.time_ns()}"


def test_files_on_another_file_system_are_copied(
    store: LocalStore, tmp_path: Path, elsewhere: Path
) -> None:
    other = LocalStore(elsewhere)
    try:
        other.put_if_absent("x", b"body")
        store.put_files_if_absent({"y": elsewhere / "x"})
        other.get_to_file("x", tmp_path / "copy")
        with pytest.raises(MissingFileError):
            other.get_to_file("gone", tmp_path / "gone")
    finally:
        shutil.rmtree(elsewhere)
    assert store.get("y") == b"body"
    assert (tmp_path / "copy").read_bytes() == b"body"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["copy", "lake"]


def test_writes_do_not_follow_links_out_of_the_root(
    store: LocalStore, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_bytes(b"theirs")
    (root / "data").symlink_to(outside)
    for key in ("data/x", "data/new", "data/deep/new"):
        with pytest.raises(InvalidKeyError, match="leads out"):
            store.put_if_absent(key, b"body")
        with pytest.raises(InvalidKeyError, match="leads out"):
            store.delete(key)
    assert [each.name for each in outside.iterdir()] == ["x"]
    assert store.get("data/x") == b"theirs"
    for prefix in ("", "data/"):
        with pytest.raises(InvalidKeyError, match="leads out"):
            keys(store, prefix)


def test_a_listing_contains_each_file_once(store: LocalStore, root: Path) -> None:
    store.put_if_absent("data/2024/x", b"body")
    (root / "data" / "latest").symlink_to("2024")
    (root / "data" / "2024" / "up").symlink_to(root)
    (root / "data" / "dangling").symlink_to("nowhere")
    assert keys(store) == ["data/2024/x"]
    assert keys(store, "data/latest/") == []
    assert store.get("data/latest/x") == b"body"


def test_a_root_may_be_a_symbolic_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    linked = LocalStore(tmp_path / "link")
    assert linked.put_if_absent("data/x", b"body")
    assert keys(linked) == ["data/x"]


# --- failures -------------------------------------------------------------------------------------


def test_a_missing_root_is_reported(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "lake")
    calls = [
        lambda: store.get("x"),
        lambda: store.get_to_file("x", tmp_path / "copy"),
        lambda: store.find("x"),
        lambda: store.checksum("x"),
        store.list,
        lambda: store.delete("x"),
    ]
    for call in calls:
        with pytest.raises(StoreUnreachableError, match="lake does not exist: correct the path"):
            call()
    assert list(tmp_path.iterdir()) == []


def test_the_first_put_creates_the_root(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "deep" / "lake")
    assert store.put_if_absent("data/x", b"body")
    assert keys(store) == ["data/x"]


def test_a_file_as_the_root_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "lake").write_bytes(b"")
    store = LocalStore(tmp_path / "lake")
    with pytest.raises(StoreUnreachableError):
        store.get("x")
    with pytest.raises(StoreError, match="lake"):
        store.put_if_absent("x", b"body")


def test_a_directory_that_blocks_a_key_is_reported(store: LocalStore) -> None:
    store.put_if_absent("a/b", b"body")
    with pytest.raises(StoreError, match="blocks the key"):
        store.put_if_absent("a", b"body")
    with pytest.raises(StoreError, match="a/b"):
        store.put_if_absent("a/b/c", b"body")
    assert keys(store) == ["a/b"]


def test_a_file_name_that_is_not_utf8_is_rejected(store: LocalStore, root: Path) -> None:
    (root / os.fsdecode(b"latin-\xe9")).write_bytes(b"")
    with pytest.raises(InvalidKeyError, match="not UTF-8"):
        keys(store)


def test_a_key_may_contain_a_line_break(store: LocalStore) -> None:
    store.put_if_absent("data/new\nline", b"body")
    assert keys(store, "data/new\n") == ["data/new\nline"]


@pytest.mark.parametrize("key", ["a//b", "a/", "x" * 300])
def test_keys_that_no_file_can_have_are_rejected(store: LocalStore, key: str) -> None:
    with pytest.raises((InvalidKeyError, StoreError)):
        store.put_if_absent(key, b"body")
    assert keys(store) == []


def test_missing_permissions_are_reported(store: LocalStore, root: Path) -> None:
    """Root, whom no permission stops, becomes another user for it."""
    if os.geteuid() != 0:
        check_permissions(store, root)
        return
    code = """
import os, sys
from pathlib import Path
from sparklake.graveler.ports import StoredObject
from sparklake.stores.objects.local.store import LocalStore
from tests.stores.objects.test_local import check_permissions

root = Path(sys.argv[1])
os.chown(root, 65534, 65534)
for folder in root.parents:
    folder.chmod(folder.stat().st_mode | 0o011)
os.setgid(65534)
os.setuid(65534)
check_permissions(LocalStore(root), root)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(root)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert done.returncode == 0, done.stderr


def check_permissions(store: LocalStore, root: Path) -> None:
    store.put_if_absent("data/x", b"body")
    (root / "data").chmod(0o500)
    with pytest.raises(StorePermissionError, match="data"):
        store.put_if_absent("data/y", b"body")
    with pytest.raises(StorePermissionError, match="data/x"):
        store.delete("data/x")
    (root / "data").chmod(0o400)
    for way in (nullcontext, only_definitions):
        with way(), pytest.raises(StorePermissionError, match="data/x"):
            list(store.scan_columns(""))
    (root / "data").chmod(0)
    for call in (store.get, store.find):
        with pytest.raises(StorePermissionError, match="data"):
            call("data/x")
    with pytest.raises(StorePermissionError, match="data"):
        keys(store)
    (root / "data").chmod(0o700)


@pytest.mark.parametrize("way", [nullcontext, only_definitions])
@pytest.mark.parametrize("mtime", [1 << 63, 1 << 80, -1 << 63, -1 << 64])
def test_times_beyond_64_bits_are_clamped(
    mtime: int, way: Callable[[], AbstractContextManager[None]], store: LocalStore, root: Path
) -> None:
    store.put_if_absent("a/1", b"body")
    with suppress(OverflowError, OSError):  # A file system may refuse a time, or change it.
        os.utime(root / "a" / "1", ns=(0, mtime))
    stored = (root / "a" / "1").stat().st_mtime_ns
    with way():
        (listing,) = (each for each in store.scan_columns("") if len(each.keys))
    assert listing.mtimes.tolist() == [min(max(stored, -1 << 63), (1 << 63) - 1)]


def test_a_file_that_vanishes_during_a_listing_is_skipped(store: LocalStore, root: Path) -> None:
    for number in range(300):
        store.put_if_absent(f"{number % 3}/{number}", b"")
    listing = store.list()
    first = next(listing)
    for number in range(300):
        if f"{number % 3}/{number}" != first.key:
            store.delete(f"{number % 3}/{number}")
    for number in range(3):
        if not first.key.startswith(f"{number}/"):
            (root / f"{number}").rmdir()
    assert list(listing) == []


def test_a_store_can_be_pickled(store: LocalStore) -> None:
    assert pickle.loads(pickle.dumps(store)) == store


# --- contents -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_content_is_read_from_the_opened_file(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    body = bytes(range(10)) * (size // 10)
    path.write_bytes(body)
    content = LocalFile(path)
    path.unlink()
    path.write_bytes(b"another")
    assert len(content) == size
    assert content[:] == body
    assert content[5 : size - 5] == body[5 : size - 5]


def test_a_truncated_file_returns_fewer_bytes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(1_000_000))
    content = LocalFile(path)
    os.truncate(path, 500_000)
    assert len(content[400_000:600_000]) == 100_000
    assert content[600_000:700_000] == b""


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_small_files_are_closed_at_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"small")
    before = open_files()
    contents = [LocalFile(path) for _ in range(50)]
    assert open_files() == before
    assert {each[:] for each in contents} == {b"small"}


@pytest.mark.parametrize("size", [5, 1_000_000])
def test_a_pickled_content_has_its_own_descriptor(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * size)
    content = LocalFile(path)
    copied = pickle.loads(pickle.dumps(content))
    assert copied[:] == b"x" * size
    del copied
    assert content[-3:] == b"xxx"


def test_a_folder_has_no_content(store: LocalStore) -> None:
    store.put_if_absent("folder/x", b"")
    with pytest.raises(StoreError):
        list(store.get_many(["folder"]))


@pytest.mark.parametrize("way", [nullcontext, only_definitions])
@pytest.mark.parametrize("batch", [2, 16_384])
def test_column_scans_agree_with_plain_scans(
    way: Callable[[], AbstractContextManager[None]],
    batch: int,
    store: LocalStore,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local_columns, "_MAX_ROWS", batch)
    for number in range(3):
        store.put_if_absent(f"a/{number}", b"x" * number)
        store.put_if_absent(f"a/b/{number}", b"y")
    (root / "a" / "link").symlink_to(root / "a" / "1")
    (root / "a" / "folder").symlink_to(root / "a" / "b")
    (root / "a" / "gone").symlink_to(root / "nothing")
    (root / "a" / TEMPORARY).mkdir()
    (root / "a" / TEMPORARY / "half").write_bytes(b"half")
    with (root / "a" / os.fsdecode(b"\xff")).open("wb") as file:
        file.write(b"no UTF-8")
    folder = root / "a" / os.fsdecode(b"\xfe")
    folder.mkdir()
    (folder / "inside").write_bytes(b"inside")
    (root / "a" / "b" / TEMPORARY).write_bytes(b"no object")
    os.mkfifo(root / "a" / "pipe")
    os.utime(root / "a" / "2", ns=(0, -1_500_000_001))
    for prefix, level in (("", False), ("a/", False), ("a/", True), ("nowhere/", False)):
        scanned = (each for each in store.scan(prefix, level=level))
        objects = [
            (each.key.encode(errors="replace").decode(), each.size, each.mtime)
            for each in scanned
            if isinstance(each, StoredObject)
        ]
        with way():
            columns = [
                row
                for each in store.scan_columns(prefix, level=level)
                for row in zip(
                    each.keys.to_pylist(), each.sizes.tolist(), each.mtimes.tolist(), strict=True
                )
            ]
        assert sorted(columns) == sorted(objects)
        assert len(columns) == len(set(columns))


# --- special files --------------------------------------------------------------------------------


READS: dict[str, Callable[[LocalStore, Path], object]] = {
    "get": lambda store, _: store.get("a"),
    "part": lambda store, _: store.get_part("a", 0, 1),
    "many": lambda store, _: list(store.get_many(["a"])),
    "file": lambda store, place: store.get_to_file("a", place / "copy"),
    "checksum": lambda store, _: store.checksum("a"),
    "copy": lambda store, place: LocalDestination(place / "out").copy(
        "a", ExpectedObject("a", f"{store.uri}/a", 1, "", ""), store, "a"
    ),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(
    "make",
    [
        os.mkfifo,
        lambda path: os.mknod(path, stat.S_IFSOCK | 0o600),
        lambda path: path.symlink_to("/dev/null"),
    ],
    ids=["fifo", "socket", "device"],
)
def test_special_files_are_rejected_before_they_are_read(
    make: Callable[[Path], object], read: str, store: LocalStore, root: Path, tmp_path: Path
) -> None:
    make(root / "a")
    assert store.find("a") is None
    with pytest.raises(MissingFileError, match="a FIFO, a socket or a device"):
        READS[read](store, tmp_path)
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("read", READS)
def test_a_missing_file_error_has_a_finite_chain_of_causes(
    read: str, store: LocalStore, root: Path, tmp_path: Path
) -> None:
    root.mkdir(exist_ok=True)
    with pytest.raises(MissingFileError) as raised:
        READS[read](store, tmp_path)
    cause = raised.value.__cause__
    assert isinstance(cause, FileNotFoundError)
    assert cause.__cause__ is None, "a walk over the causes never ended"


@pytest.mark.skipif(not hasattr(fcntl, "F_SETLEASE"), reason="leases are of Linux")
def test_a_leased_file_is_read_after_its_lease_is_released(store: LocalStore, root: Path) -> None:
    store.put_if_absent("a", b"content")
    with (root / "a").open("r+b") as file:
        earlier = signal.signal(
            signal.SIGIO, lambda *_: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        )
        try:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            assert store.get("a") == b"content"
        finally:
            signal.signal(signal.SIGIO, earlier)
