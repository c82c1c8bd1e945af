"""Collections of a namespace without room for their lists."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from sparklake import Lake, Repository
from sparklake.errors import InvalidInputError, StoreError
from sparklake.testing.lakes import commit_all, contents, files_below, memory_lake, namespace_of
from sparklake.verbs.gc import collect
from tests.support.interleaved_calls import just_before

PROJECT = Path(__file__).parents[3]
NO_GRACE = timedelta()
OWN_DISK = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=3m none "$0" && exec "$@"']


@pytest.fixture
def repo(any_lake: Lake, folder: Path) -> Repository:
    repo = any_lake.create_repository(f"full-{os.urandom(4).hex()}", str(folder / "ns"))
    main = repo.branch("main")
    commit_all(main, {"kept": b"1"}, "keep")
    for number in range(50):
        main.put(f"gone/{number}", b"2")
    main.reset()
    return repo


def test_only_small_files_are_written_into_the_namespace(repo: Repository, tmp_path: Path) -> None:
    before = files_below(namespace_of(repo))
    found = repo.collect_garbage(dry_run=True, grace=NO_GRACE, work=str(tmp_path / "work")).run
    new = {name: size for name, (size, _) in files_below(namespace_of(repo)).items()}
    assert {name for name in new if name not in before} == {
        f"_sparklake/gc/{found.id}/summary.json"
    }
    assert all(size < 1000 for name, size in new.items() if name not in before)
    assert len(list(repo.garbage(found.id))) == 50
    assert repo.collect_garbage(sweep=found.id, grace=NO_GRACE).run.objects == 50
    assert contents(repo, "main") == {"kept": b"1"}
    assert repo.check("content").is_healthy


def test_an_interrupted_collection_is_completed_by_its_lists(
    repo: Repository, tmp_path: Path
) -> None:
    def die() -> None:
        raise KeyboardInterrupt

    with just_before(collect._GcWork, "sweep", die), pytest.raises(KeyboardInterrupt):
        repo.collect_garbage(grace=NO_GRACE, work=str(tmp_path / "work"))
    assert repo.collect_garbage(grace=NO_GRACE).run.objects == 0
    assert contents(repo, "main") == {"kept": b"1"}
    assert len(files_below(namespace_of(repo) / "data")) == 1


def test_lists_of_an_interrupted_collection_that_are_gone(repo: Repository, tmp_path: Path) -> None:
    """They may be on another machine. Nothing is deleted without them, and the error names them."""

    def die() -> None:
        raise KeyboardInterrupt

    work, away = tmp_path / "work", tmp_path / "away"
    with just_before(collect._GcWork, "sweep", die), pytest.raises(KeyboardInterrupt):
        repo.collect_garbage(grace=NO_GRACE, work=str(work))
    work.rename(away)
    with pytest.raises(
        StoreError, match=r"lists of .* are in file:///.*/work \(its --work\).*make that location"
    ):
        repo.collect_garbage(grace=NO_GRACE)
    assert len(files_below(namespace_of(repo) / "data")) > 50
    away.rename(work)
    assert repo.collect_garbage(grace=NO_GRACE).run.objects == 0
    assert len(files_below(namespace_of(repo) / "data")) == 1


def test_places_of_lists_that_are_refused(repo: Repository, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="overlaps the storage namespace"):
        repo.collect_garbage(work=str(namespace_of(repo) / "work"))
    found = repo.collect_garbage(dry_run=True, grace=NO_GRACE).run
    with pytest.raises(InvalidInputError, match="the list to sweep already exists"):
        repo.collect_garbage(sweep=found.id, work=str(tmp_path))


def fill_and_collect(disk: Path, work: Path) -> None:
    """Fill a disk with garbage; collect it with lists on the disk, and then elsewhere."""
    repo = memory_lake().create_repository("lake", str(disk / "ns"))
    main = repo.branch("main")
    commit_all(main, {"kept": b"1"}, "keep")
    (disk / "other").write_bytes(bytes(32_000))

    def fill() -> None:
        for number in range(1000):
            main.put(f"gone/{number}", os.urandom(3000))

    with pytest.raises(StoreError, match="No space left"):
        fill()
    main.reset()
    (disk / "other").unlink()
    with pytest.raises(StoreError, match=r"gc run.* with --work"):
        repo.collect_garbage(grace=NO_GRACE)
    os.environ["SPARKLAKE_SCRATCH"] = str(disk)
    with pytest.raises(StoreError, match=r"No space left.*set SPARKLAKE_SCRATCH"):
        repo.collect_garbage(grace=NO_GRACE, work=str(work))
    os.environ["SPARKLAKE_SCRATCH"] = str(work)
    assert repo.collect_garbage(grace=NO_GRACE, work=str(work)).run.objects > 500
    main.put("more", os.urandom(20_000))
    main.commit("there is room again")
    assert repo.check("content").is_healthy


@pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run([*OWN_DISK[:2], "true"], capture_output=True).returncode != 0,
    reason="needs root that may `unshare`",
)
def test_a_full_disk_is_freed(tmp_path: Path) -> None:
    (disk := tmp_path / "disk").mkdir()
    command = [sys.executable, "-m", "tests.verbs.gc.test_full_namespace"]
    done = subprocess.run(
        [*OWN_DISK, str(disk), *command, str(disk), str(tmp_path / "work")],
        capture_output=True,
        text=True,
        cwd=PROJECT,
    )
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    fill_and_collect(Path(sys.argv[1]), Path(sys.argv[2]))
