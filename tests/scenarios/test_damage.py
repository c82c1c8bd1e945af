"""What others did to the lake's files, disks and servers: found, named, and not made worse."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import sparklake
from campaigns.postgres import fresh_database, public_folder
from sparklake import Lake, Repository, SparklakeError
from sparklake.errors import (
    CorruptFileError,
    InvalidImportError,
    InvalidKeyError,
    LakeClosedError,
    MissingFileError,
    RefStoreUnavailableError,
    StoreError,
    StorePermissionError,
    StoreUnreachableError,
)
from sparklake.layout import NAMESPACE_MARKER_KEY
from sparklake.rows.findings import FindingKind
from sparklake.stores.objects.local.columns import FileColumns
from sparklake.stores.objects.local.files import store_errors
from sparklake.stores.objects.local.store import LocalStore
from sparklake.testing.lakes import (
    commit_all,
    contents,
    files_below,
    memory_lake,
    namespace_of,
    postgres_lake,
    put_all,
)
from tests.support.lakes import refused

ROOT = Path(__file__).parents[2]
NOBODY = 65534
OBJECTS = {f"k/{number:03}": b"%d" % number for number in range(60)}


@pytest.fixture
def repo(small_lake: Lake, folder: Path) -> Repository:
    """Is a repository of many ranges: main, and dev with one change in the middle."""
    made = small_lake.create_repository("lake", str(folder / "namespace"), range_records=4)
    commit_all(made.branch("main"), dict(OBJECTS), "base")
    commit_all(made.create_branch("dev", "main"), {"k/030": b"changed"}, "one change")
    return made


def range_ids(repo: Repository, ref: str) -> list[str]:
    return [each.id for each in repo._context.tree(repo.resolve(ref)).ranges]


def file_of(repo: Repository, table_id: str) -> Path:
    return namespace_of(repo) / "_lakefs" / table_id


def changed_range(repo: Repository) -> str:
    """Return the range of main that a diff with dev must open."""
    (found,) = set(range_ids(repo, "main")) - set(range_ids(repo, "dev"))
    return found


def flip(path: Path) -> None:
    body = bytearray(path.read_bytes())
    body[len(body) // 3] ^= 0xFF
    replace(path, bytes(body))


def cut_short(path: Path) -> None:
    replace(path, path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    replace(path, b"")


def scribble(path: Path) -> None:
    replace(path, b"this is no table" * 100)


def replace(path: Path, body: bytes) -> None:
    """Put another file in its place; links to the old one, if any, stay as they are."""
    path.unlink()
    path.write_bytes(body)


READERS: dict[str, Callable[[Repository], object]] = {
    "objects": lambda repo: list(repo.objects("main")),
    "objects below": lambda repo: list(repo.objects("main", "k/030")),
    "stat": lambda repo: repo.stat("main", "k/030"),
    "read_bytes": lambda repo: repo.read_bytes("main", "k/030"),
    "diff": lambda repo: list(repo.diff("main", "dev")),
    "three-way diff": lambda repo: list(repo.diff("dev", "main", three_way=True)),
}


@pytest.mark.parametrize("damage", [flip, cut_short, empty, scribble])
@pytest.mark.parametrize("reader", ["objects", "objects below", "stat", "read_bytes", "diff"])
def test_a_corrupt_range_is_named(
    small_lake: Lake, repo: Repository, damage: Callable[[Path], None], reader: str
) -> None:
    damaged = changed_range(repo)
    damage(file_of(repo, damaged))
    with refused(small_lake, CorruptFileError, damaged):
        READERS[reader](repo)


GROWN = 6 << 30


def grow(path: Path) -> None:
    """Append a hole, which takes no space."""
    replace(path, path.read_bytes())
    os.truncate(path, GROWN)


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Limit the memory of this process to what it has, and much less than a grown file."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + (3 << 30), -1))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.mark.usefixtures("little_memory")
def test_a_grown_file_is_not_read_whole(small_lake: Lake, repo: Repository) -> None:
    damaged, tree = changed_range(repo), repo.resolve("dev").meta_range_id
    intact = file_of(repo, damaged).read_bytes()
    grow(file_of(repo, damaged))
    for name in ("objects", "objects below", "stat", "read_bytes", "diff"):
        with refused(small_lake, CorruptFileError, damaged):
            READERS[name](repo)
    assert repo.check().kinds == {FindingKind.RANGE_DAMAGED: 1}
    replace(file_of(repo, damaged), intact)

    intact = file_of(repo, tree).read_bytes()
    grow(file_of(repo, tree))
    with refused(small_lake, CorruptFileError, tree):
        small_lake.repository("lake").objects("dev")
    assert repo.check().kinds == {FindingKind.TREE_DAMAGED: 1}
    replace(file_of(repo, tree), intact)

    grow(Path(repo.stat("main", "k/001").address.removeprefix("file://")))
    with refused(small_lake, CorruptFileError, f"has {GROWN} bytes"):
        repo.read_bytes("main", "k/001")
    assert repo.check().kinds == {FindingKind.OBJECT_SIZE_DIFFERS: 1}


@pytest.mark.parametrize("reader", ["objects", "stat", "diff"])
@pytest.mark.parametrize("step", [1, -1, 3])
def test_a_range_that_is_another_one_is_named(
    small_lake: Lake, repo: Repository, reader: str, step: int
) -> None:
    """A valid file, but not the one of its name; and no other file is touched by reading both."""
    ids, damaged = range_ids(repo, "main"), changed_range(repo)
    other = ids[ids.index(damaged) + step]
    replace(file_of(repo, damaged), file_of(repo, other).read_bytes())
    before = {path: path.read_bytes() for path in namespace_of(repo).rglob("*") if path.is_file()}
    with refused(small_lake, CorruptFileError, damaged):
        READERS[reader](repo)
    assert all(path.read_bytes() == body for path, body in before.items())


@pytest.mark.parametrize("reader", list(READERS)[:5])
def test_a_missing_range_is_named(small_lake: Lake, repo: Repository, reader: str) -> None:
    missing = changed_range(repo)
    file_of(repo, missing).unlink()
    with refused(small_lake, MissingFileError, missing):
        READERS[reader](repo)


@pytest.mark.parametrize("damage", [flip, cut_short, empty, scribble, Path.unlink])
def test_a_damaged_metarange_is_named(
    small_lake: Lake, repo: Repository, damage: Callable[[Path], None]
) -> None:
    damaged = repo.resolve("dev").meta_range_id
    damage(file_of(repo, damaged))
    opened = small_lake.repository("lake")  # which has read nothing yet
    error = MissingFileError if damage is Path.unlink else CorruptFileError
    for read in (
        lambda: opened.objects("dev"),
        lambda: opened.diff("main", "dev"),
        lambda: opened.branch("dev").delete_prefix("k/"),
    ):
        with refused(small_lake, error, damaged):
            read()


@pytest.mark.parametrize("damage", [flip, Path.unlink])
def test_writers_stop_at_a_damaged_range(
    small_lake: Lake, repo: Repository, damage: Callable[[Path], None]
) -> None:
    """What is staged stays staged, and goes in once the file is restored."""
    damaged = file_of(repo, changed_range(repo))
    dev, main = repo.branch("dev"), repo.branch("main")
    other = repo.create_branch("other", "main")
    commit_all(other, {"k/02a": b"beside what dev has changed"}, "other")
    main.put("k/031", b"in the damaged range")
    backup = damaged.read_bytes()
    damage(damaged)
    error = MissingFileError if damage is Path.unlink else CorruptFileError

    heads = (main.head, dev.head)
    for verb in (lambda: main.commit("over damage"), lambda: list(main.diff())):
        with pytest.raises(error, match=damaged.name):
            verb()
    with refused(small_lake, error, damaged.name):
        repo.merge("dev", "other")
    assert (main.head, dev.head) == heads

    damaged.unlink(missing_ok=True)
    damaged.write_bytes(backup)
    assert [(each.path, each.type.value) for each in main.diff()] == [("k/031", "changed")]
    main.commit("after the repair")
    assert repo.read_bytes("main@", "k/031") == b"in the damaged range"
    repo.merge("dev", "other")
    assert repo.read_bytes("other", "k/030") == b"changed"


def test_damage_elsewhere_is_no_hindrance(repo: Repository) -> None:
    """A range that both sides share is not read, and may be repaired at leisure."""
    shared = set(range_ids(repo, "main")) & set(range_ids(repo, "dev"))
    for each in shared:
        file_of(repo, each).unlink()
    assert [each.path for each in repo.diff("main", "dev")] == ["k/030"]
    assert repo.read_bytes("dev", "k/030") == b"changed"
    repo.branch("main").put("k/030", b"staged")
    repo.branch("main").commit("one change")
    assert repo.read_bytes("main@", "k/030") == b"staged"


def test_an_object_that_is_gone_or_overwritten(small_lake: Lake, repo: Repository) -> None:
    address = repo.stat("main", "k/001").address
    place = Path(address.removeprefix("file://"))
    place.unlink()
    with refused(
        small_lake, MissingFileError, f"'k/001' at 'main' is missing from {address}.*rest"
    ):
        repo.read_bytes("main", "k/001")
    place.write_bytes(b"something longer")
    with refused(
        small_lake, CorruptFileError, f"'k/001'.*16 bytes at {address}, not 1.*restore the original"
    ):
        repo.read_bytes("main", "k/001")
    assert repo.stat("main", "k/001").size == 1
    assert repo.read_bytes("main", "k/002") == b"2"


# --- the directory of the namespace ---------------------------------------------------------------


WRITERS: dict[str, Callable[[Repository, Path], object]] = {
    "put": lambda repo, source: repo.branch("main").put("k", b"v"),
    "put_file": lambda repo, source: repo.branch("main").put_file("k", source / "file"),
    "delete_prefix": lambda repo, source: repo.branch("main").delete_prefix("k/"),
    "commit": lambda repo, source: repo.branch("staged").commit("m"),
    "merge": lambda repo, source: repo.merge("dev", "other"),
    "import": lambda repo, source: repo.branch("main").import_objects(str(source), "in"),
}


@pytest.fixture
def away(small_lake: Lake, repo: Repository, folder: Path) -> Iterator[Path]:
    """Take the namespace away, as a disk that is not mounted, and looks for what is left."""
    source = folder / "source"
    source.mkdir()
    (source / "file").write_bytes(b"file")
    put_all(repo.create_branch("staged", "main"), {"new": b"new"})
    commit_all(repo.create_branch("other", "main"), {"k/050": b"other"}, "so that both moved")
    namespace = namespace_of(repo)
    namespace.rename(folder / "away")
    yield source
    (folder / "away").rename(namespace)
    assert contents(repo, "main") == OBJECTS
    repo.branch("staged").commit("when it is back")


@pytest.mark.parametrize("writer", WRITERS)
def test_nothing_is_written_where_the_namespace_is_not(
    small_lake: Lake, repo: Repository, folder: Path, away: Path, writer: str
) -> None:
    opened = small_lake.repository("lake")
    heads = opened.branch_states()
    with pytest.raises(StoreUnreachableError, match=r"namespace does not exist.*mount"):
        WRITERS[writer](opened, away)
    assert [each.commit_id for each in opened.branch_states()] == [each.commit_id for each in heads]
    assert not (folder / "namespace").exists()


@pytest.mark.parametrize("writer", WRITERS)
def test_nothing_is_written_into_another_directory(
    small_lake: Lake, repo: Repository, folder: Path, away: Path, writer: str
) -> None:
    """The mount point is there, but the disk is not."""
    (folder / "namespace").mkdir()
    with pytest.raises(StoreError, match="namespace"):
        WRITERS[writer](small_lake.repository("lake"), away)
    assert files_below(folder / "namespace") == {}
    shutil.rmtree(folder / "namespace")


def test_reading_where_the_namespace_is_not(small_lake: Lake, repo: Repository, away: Path) -> None:
    opened = small_lake.repository("lake")
    for reader in READERS.values():
        with refused(small_lake, StoreUnreachableError, r"namespace does not exist.*mount"):
            reader(opened)


# --- permissions ----------------------------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize(
    ("mode", "verb"),
    [
        (0o755, "put"),
        (0o777, "import"),
        *(
            pytest.param(mode, verb, marks=pytest.mark.system)
            for mode, verb in [
                (0o755, "stage"),
                (0o700, "put"),
                (0o000, "stage"),
                (0o755, "create"),
                (0o700, "create"),
                (0o777, "put-file"),
            ]
        ),
    ],
)
def test_no_permission(mode: int, verb: str) -> None:
    """A user without rights: in a read-only namespace, a closed one, and at a closed source."""
    with public_folder() as folder:
        folder.chmod(0o755)
        namespace, source = folder / "namespace", folder / "source"
        for each in (namespace, namespace / "_lakefs", namespace / "data", source):
            each.mkdir()
            each.chmod(0o777)
        if verb != "create":
            (namespace / "_lakefs" / "dummy").write_bytes(b"{}")
        secret = source / "secret"
        secret.write_bytes(b"secret")
        secret.chmod(0o600)
        for each in (namespace / "_lakefs", namespace / "data", namespace):
            each.chmod(mode)
        before = files_below(folder)
        answer = answer_of_a_stranger(namespace, verb)
        assert answer["kind"] == "store_permission", answer
        assert answer["exit_code"] == 11
        assert str(secret if mode == 0o777 else namespace) in answer["words"]
        assert "allow this user" in answer["words"]
        assert files_below(folder) == before


def answer_of_a_stranger(namespace: Path, verb: str) -> dict[str, Any]:
    """Return how a verb ends for a user who may do little."""
    tried = subprocess.run(
        [sys.executable, "-m", "tests.support.other_user", str(NOBODY), str(namespace), verb],
        cwd=ROOT,
        env={**os.environ, "SPARKLAKE_SCRATCH": "/tmp"},
        capture_output=True,
        text=True,
    )
    assert tried.returncode == 0, tried.stderr
    answer: dict[str, Any] = json.loads(tried.stdout)
    return answer


@pytest.mark.system
@pytest.mark.parametrize("verb", ["look", "collect", "dump"])
def test_what_must_write_finds_a_read_only_namespace_at_once(verb: str) -> None:
    with public_folder() as folder:
        namespace = folder / "namespace"
        for each in (namespace, namespace / "_lakefs", namespace / "data"):
            each.mkdir()
        mark = b'{"repository": "lake", "uid": "uid", "lake": "any"}'
        (namespace / "_lakefs" / "dummy").write_bytes(mark)
        for each in (namespace / "_lakefs", namespace / "data", namespace, folder):
            each.chmod(0o755)
        before = files_below(folder)
        answer = answer_of_a_stranger(namespace, verb)
        assert (answer["kind"], answer["exit_code"]) == ("read_only_namespace", 11), answer
        assert f"must write to file://{namespace}, but cannot" in answer["words"]
        assert "allow this user" in answer["words"]
        assert files_below(folder) == before


def test_a_read_only_file_system_is_a_lack_of_rights(tmp_path: Path) -> None:
    read_only = OSError(errno.EROFS, os.strerror(errno.EROFS), str(tmp_path))
    with (
        pytest.raises(StorePermissionError, match=f"{tmp_path} is read-only: mount it"),
        store_errors(tmp_path),
    ):
        raise read_only


# --- what is imported -----------------------------------------------------------------------------


def source_of(folder: Path, names: list[str]) -> Path:
    source = folder / "source"
    source.mkdir()
    for name in names:
        (source / name).write_bytes(name.encode())
    return source


def test_a_file_that_vanishes_between_listing_and_reading(
    small_lake: Lake, repo: Repository, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of(folder, ["a", "b", "c"])
    scan = LocalStore.scan_columns

    def vanishing(store: LocalStore, prefix: str, **options: bool) -> Iterator[FileColumns]:
        for each in scan(store, prefix, **options):
            (source / "b").unlink(missing_ok=True)
            yield each

    monkeypatch.setattr(LocalStore, "scan_columns", vanishing)
    with refused(small_lake, InvalidImportError, "1 missing_object.*source/b does not exist"):
        repo.branch("main").import_objects(str(source), "in")
    monkeypatch.undo()
    repo.branch("main").import_objects(str(source), "in")
    assert [each.path for each in repo.objects("main@", "in/")] == ["in/a", "in/c"]


def test_a_file_whose_name_is_not_text(small_lake: Lake, repo: Repository, folder: Path) -> None:
    source = source_of(folder, ["a"])
    (source / os.fsdecode(b"\xff")).write_bytes(b"")
    with refused(small_lake, InvalidImportError, "1 invalid_path.*not UTF-8; rename") as raised:
        repo.branch("main").import_objects(str(source), "in")
    assert raised.value.errors["path"].to_pylist() == ["in/\\xff"]  # type: ignore[attr-defined]


def test_a_link_out_of_the_source(small_lake: Lake, repo: Repository, folder: Path) -> None:
    source = source_of(folder, ["a"])
    (source / "out").symlink_to(folder)
    with refused(small_lake, InvalidKeyError, "source/out leads outside .*replace it"):
        repo.branch("main").import_objects(str(source), "in")


# --- the ref store --------------------------------------------------------------------------------


def test_a_stale_dsn(server_dsn: str, folder: Path) -> None:
    with fresh_database(server_dsn) as dsn:
        pass
    with pytest.raises(RefStoreUnavailableError, match=r"cannot be used.*Check the server"):
        sparklake.connect(dsn=dsn)


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(
        RefStoreUnavailableError, match=r"127\.0\.0\.1:9/lake cannot be used"
    ) as raised:
        sparklake.connect(dsn="postgresql://me:pass" + "word@127.0.0.1:9/lake")
    assert "password" not in str(raised.value)


def test_a_database_dropped_under_a_lake(server_dsn: str, folder: Path) -> None:
    with fresh_database(server_dsn) as dsn, postgres_lake(dsn) as lake:
        repo = lake.create_repository("lake", str(folder / "namespace"))
        repo.branch("main").put("k", b"v")
        gone = repo
    before = files_below(folder)
    for verb in (
        lambda: gone.branch("main"),
        lambda: gone.branch("main").commit("m"),
        lambda: gone.resolve("main"),
    ):
        with pytest.raises(LakeClosedError):
            verb()
    assert files_below(folder) == before


def test_a_repository_deleted_under_a_handle(small_lake: Lake, repo: Repository) -> None:
    main = repo.branch("main")
    small_lake.delete_repository("lake")
    before = files_below(namespace_of(repo))
    for verb in (
        lambda: main.put("k", b"v"),
        lambda: main.commit("m"),
        lambda: repo.create_branch("x", "main"),
        lambda: repo.objects("main"),
    ):
        with pytest.raises(SparklakeError):
            verb()
    assert files_below(namespace_of(repo)) == before
    assert memory_lake().repositories() == []


def test_a_lost_ownership_marker_is_written_again(small_lake: Lake, folder: Path) -> None:
    """Nothing else is missing, so no backup is needed."""
    repo = small_lake.create_repository("lake", str(folder / "namespace"))
    commit_all(repo.branch("main"), {"k": b"v"}, "m")
    repo.branch("main").put("k", b"w")
    (folder / "namespace" / NAMESPACE_MARKER_KEY).unlink()
    with pytest.raises(StoreUnreachableError, match="tree files are there, so run `sparklake rep"):
        repo.branch("main").commit("m")
    repo.repair()
    repo.branch("main").commit("m")


def test_a_folder_in_place_of_an_object(folder: Path) -> None:
    (folder / "store" / "k").mkdir(parents=True)
    with pytest.raises(MissingFileError, match=r"replaced with a directory .* put the file back"):
        LocalStore(folder / "store").get("k")


def test_an_empty_branch_does_not_commit_into_another_directory(
    small_lake: Lake, folder: Path
) -> None:
    """No range of the branch would be missed, so nothing else would tell."""
    repo = small_lake.create_repository("lake", str(folder / "namespace"))
    repo.branch("main").put("k", b"v")
    (folder / "namespace").rename(folder / "away")
    (folder / "namespace").mkdir()
    with pytest.raises(StoreUnreachableError, match="mount its disk"):
        repo.branch("main").commit("m")
    assert files_below(folder / "namespace") == {}
