"""Purges: the bytes of chosen paths go, in all of history, and no others."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklake import Lake, Repository
from sparklake.errors import (
    DirtyBranchError,
    InvalidInputError,
    MissingFileError,
    NoChangesError,
    NotFoundError,
    ProtectedError,
    PurgeBlockedError,
    PurgedError,
    ReadOnlyError,
)
from sparklake.graveler.ports.registers import PurgeCounts, PurgeState
from sparklake.layout import NAMESPACE_MARKER_KEY
from sparklake.rows.findings import FindingKind
from sparklake.stores.objects.local.store import LocalStore
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import commit_all, memory_lake, namespace_of, stage_table
from tests.support.crashes import CrashError, dies_at

pytestmark = pytest.mark.both_stores


@pytest.fixture
def repo(any_lake: Lake, folder: Path) -> Repository:
    name = f"purge-{uuid4().hex[:8]}"
    made = any_lake.create_repository(name, str(folder / "namespace"), range_records=2)
    main = made.branch("main")
    commit_all(main, {"users/1": b"one", "users/2": b"two", "kept": b"kept"}, "first")
    commit_all(main, {"users/1": b"one more", "users/3": b"three"}, "second")
    return made


def bytes_of(repo: Repository) -> set[str]:
    """Return the addresses where there is something."""
    root = namespace_of(repo)
    return {f"file://{each}" for each in (root / "data").rglob("*") if each.is_file()}


def receipt(repo: Repository, purge_id: str) -> list[dict[str, Any]]:
    folder = namespace_of(repo) / "_sparklake" / "purges" / purge_id
    assert sorted(each.name for each in folder.iterdir() if any(folder.rglob("*.parquet"))) in (
        ["found", "receipt", "summary.json"],  # an empty folder
        ["receipt", "summary.json"],
    )
    assert not list((folder / "found").glob("*"))
    parts = [pyarrow.parquet.read_table(each) for each in (folder / "receipt").glob("*")]
    return sorted(
        (row for part in parts for row in part.to_pylist()),
        key=lambda row: (row["path"], row["address"]),
    )


@pytest.mark.usefixtures("healthy_at_end")
def test_what_no_branch_has_is_gone_everywhere(repo: Repository) -> None:
    main, second = repo.branch("main"), repo.resolve("main")
    first = repo.resolve("main~1")
    old = {each.path: each for each in repo.objects(first.id)}
    new = {each.path: each for each in repo.objects(second.id)}
    commit_all(main, {"users/1": None, "users/3": None}, "forget")
    made = repo.purge(["users/1", "users/3"], message="request 7")
    assert made.counts == PurgeCounts(paths=3, addresses=3, size=3 + 8 + 5)
    assert (made.state, made.who, made.message) == (PurgeState.DONE, "tester", "request 7")
    assert repo.purges() == [made]
    assert repo.get_purge(made.id) == made
    for ref, path in ((first.id, "users/1"), (second.id, "users/1"), (second.id, "users/3")):
        with pytest.raises(PurgedError, match="request 7") as gone:
            repo.read_bytes(ref, path)
        assert (gone.value.purge_id, gone.value.who) == (made.id, "tester")
    assert repo.read_bytes(first.id, "users/2") == b"two"
    rows = receipt(repo, made.id)
    wanted = [(first.id, old["users/1"]), (second.id, new["users/1"]), (second.id, new["users/3"])]
    assert {
        (row["commit"], row["path"], row["address"], row["checksum"], row["size"]) for row in rows
    } == {(at, each.path, each.address, each.checksum, each.size) for at, each in wanted}
    assert all(row["deleted_at"] is not None for row in rows)
    assert [each.id for each in repo.log("main")][1:3] == [second.id, first.id]


def test_what_is_purged_is_no_fault_of_a_copied_namespace(
    any_lake: Lake, repo: Repository, folder: Path
) -> None:
    commit_all(repo.branch("main"), {"users/4": b"four"}, "another")
    repo.purge(["users/1", "users/2", "users/3"], "asked", commit=True)
    repo.dump_refs()
    for again in ("copy", "copy of the copy"):
        shutil.copytree(namespace_of(repo), folder / again)
        (folder / again / NAMESPACE_MARKER_KEY).unlink()
        repo = any_lake.restore_repository(f"copy-{uuid4().hex[:8]}", str(folder / again))
        found = repo.check("content")
        assert found.is_healthy
        assert found.counts.purged == 4
        with pytest.raises(MissingFileError):
            repo.read_bytes("main~2", "users/1")
        repo.dump_refs()
    (lost,) = bytes_of(repo) & {repo.at("main").stat("users/4").address}
    Path(lost.removeprefix("file://")).unlink()
    assert FindingKind.OBJECT_MISSING in repo.check("content").kinds


@pytest.mark.parametrize("addresses", [[b"\xff"], [1], [None]])
def test_a_receipt_with_other_addresses_is_a_fault(
    repo: Repository, addresses: list[object]
) -> None:
    repo.purge(["users/1"], "asked", commit=True)
    (receipt,) = namespace_of(repo).glob("_sparklake/purges/*/receipt/*.parquet")
    before = pyarrow.parquet.read_table(receipt)
    column = pyarrow.array(addresses * before.num_rows)
    place = before.schema.get_field_index("address")
    pyarrow.parquet.write_table(before.set_column(place, "address", column), receipt)
    assert FindingKind.RECEIPT_DAMAGED in repo.check("objects").kinds


@pytest.mark.usefixtures("healthy_at_end")
def test_what_a_branch_has_is_refused_or_committed_away(repo: Repository) -> None:
    dev = repo.create_branch("dev", "main~1")
    before = bytes_of(repo)
    with pytest.raises(PurgeBlockedError, match="users/"):
        repo.purge(["users/"])
    assert bytes_of(repo) == before
    assert repo.purges() == []
    made = repo.purge(["users/"], commit=True, message="forget users")
    assert made.counts.addresses == 4
    assert [each.path for each in repo.objects("main")] == ["kept"]
    assert dev.head.message == repo.resolve("main").message == "forget users"
    assert repo.read_bytes("main", "kept") == b"kept"
    assert len(bytes_of(repo)) == 1


def test_what_is_staged_is_in_the_way(repo: Repository) -> None:
    repo.purge(["users/"], commit=True)
    repo.branch("main").put("users/9", b"staged")
    with pytest.raises(PurgeBlockedError, match="users/9"):
        repo.purge(["users/9"])
    with pytest.raises(DirtyBranchError):
        repo.purge(["users/9"], commit=True)
    assert repo.read_bytes("main", "users/9") == b"staged"


def test_bytes_of_other_paths_are_kept_unless_asked(repo: Repository) -> None:
    main = repo.branch("main")
    main.copy("users/2", "copy")
    main.commit("a copy")
    commit_all(main, {"users/2": None}, "forget")
    head = repo.resolve("main")
    for paths in (["users/2"], ["users/"]):
        with pytest.raises(PurgeBlockedError, match="users/2"):
            repo.purge(paths, commit=True)
    assert repo.resolve("main") == head
    assert repo.read_bytes("main", "copy") == b"two"
    made = repo.purge(["users/2"], include_shared=True)
    assert (made.counts.shared, made.counts.addresses) == (1, 1)
    with pytest.raises(PurgedError, match="copy"):
        repo.read_bytes("main", "copy")
    Path(repo.stat("main", "kept").address.removeprefix("file://")).unlink()
    with pytest.raises(MissingFileError) as gone:
        repo.read_bytes("main", "kept")
    assert not isinstance(gone.value, PurgedError)


def test_both_paths_of_shared_bytes_may_go(repo: Repository) -> None:
    main = repo.branch("main")
    main.copy("users/2", "copy")
    main.commit("a copy")
    made = repo.purge(["users/2", "cop?"], commit=True)
    assert (made.counts.paths, made.counts.addresses, made.counts.shared) == (2, 1, 0)


@pytest.mark.parametrize("spelling", ["file:///{}", "file://localhost{}", "file:///.{}"])
def test_bytes_are_the_same_however_they_are_spelled(repo: Repository, spelling: str) -> None:
    main = repo.branch("main")
    place = Path(repo.stat("main", "users/2").address.removeprefix("file://"))
    row = {"path": "copy", "size": 1, "checksum": "c", "address": spelling.format(place)}
    main.stage(stage_table([row]))
    main.commit("a copy by another spelling")
    with pytest.raises(PurgeBlockedError, match="other paths share the bytes of 'users/2'"):
        repo.purge(["users/2"], commit=True)
    assert place.is_file()
    made = repo.purge(["users/2", "copy"], commit=True)
    assert (made.counts.addresses, made.counts.external, place.exists()) == (1, 0, False)
    with pytest.raises(PurgedError):
        repo.read_bytes("main~1", "copy")


def test_commits_that_no_ref_has_count(repo: Repository) -> None:
    dev = repo.create_branch("dev", "main")
    lost = commit_all(dev, {"users/7": b"seven"}, "on a branch that goes")
    repo.delete_branch("dev")
    made = repo.purge(["users/7"])
    assert made.counts.addresses == 1
    with pytest.raises(PurgedError):
        repo.read_bytes(lost.id, "users/7")


def test_a_copy_that_is_only_staged_counts(repo: Repository) -> None:
    commit_all(repo.branch("main"), {"users/2": None}, "forget")
    dev = repo.create_branch("dev", "main")
    dev.copy("users/2", "copy", ref="main~1")
    with pytest.raises(PurgeBlockedError, match="users/2"):
        repo.purge(["users/2"])


@pytest.mark.parametrize("also", [False, True])
def test_what_lies_elsewhere_is_listed(repo: Repository, folder: Path, also: bool) -> None:
    source = folder / "source"
    source.mkdir()
    (source / "file").write_bytes(b"imported")
    main = repo.branch("main")
    main.import_objects(str(source), "in")
    commit_all(main, {"in/file": None}, "forget")
    made = repo.purge(["in/**"], include_external=also)
    assert (made.counts.external, made.counts.addresses) == (1, 0)
    (row,) = receipt(repo, made.id)
    assert (row["external"], row["deleted_at"] is not None) == (True, also)
    assert (source / "file").exists() is not also


def test_tables_of_the_repository_are_never_deleted(repo: Repository) -> None:
    main = repo.branch("main")
    tables = sorted(namespace_of(repo).glob("_lakefs/*"))
    rows = [
        {"path": f"odd/{each.name}", "size": 1, "checksum": "c", "address": f"_lakefs/{each.name}"}
        for each in tables
    ]
    main.stage(stage_table(rows))
    main.commit("odd")
    made = repo.purge(["odd/"], commit=True, include_external=True)
    assert made.counts.external == len(tables)
    assert all(each.exists() for each in tables)


def test_a_dry_run_counts(repo: Repository) -> None:
    before = bytes_of(repo)
    said = repo.purge(["users/*"], dry_run=True, commit=True)
    assert (said.counts.paths, said.counts.addresses) == (4, 4)
    assert bytes_of(repo) == before
    assert repo.purges() == []
    assert not list((namespace_of(repo) / "_sparklake").rglob("*.*"))


def test_what_cannot_be_purged(repo: Repository) -> None:
    with pytest.raises(NoChangesError):
        repo.purge(["nothing"])
    for paths in ([], [""], ["a**"]):
        with pytest.raises(InvalidInputError):
            repo.purge(paths)
    for call in (repo.get_purge, repo.resume_purge):
        with pytest.raises(NotFoundError):
            call("0" * 32)
    repo.settings.protect("main")
    with pytest.raises(ProtectedError):
        repo.purge(["users/1"], commit=True)
    repo.settings.unprotect("main")
    repo.settings.set_read_only()
    with pytest.raises(ReadOnlyError):
        repo.purge(["users/1"])
    assert len(bytes_of(repo)) == 5


def test_a_new_object_of_a_purged_path_is_read(repo: Repository) -> None:
    repo.purge(["users/"], commit=True)
    commit_all(repo.branch("main"), {"users/1": b"again"}, "again")
    assert repo.read_bytes("main", "users/1") == b"again"
    repo.branch("main").copy("users/2", "users/2", ref="main~3")
    with pytest.raises(PurgedError):
        repo.read_bytes("main", "users/2")


# --- any history, any crash -----------------------------------------------------------------------


IN_THE_STORE = (
    LocalStore,
    ("put_if_absent", "replace", "delete", "put_many_if_absent", "put_files_if_absent"),
)

NAMES = ["a", "p/1", "p/2", "q/1"]
EDITS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(NAMES), st.binary(max_size=2)),
    st.tuples(st.just("delete"), st.sampled_from(NAMES), st.none()),
    st.tuples(st.just("copy"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
    st.tuples(st.just("branch"), st.none(), st.none()),
)
PATTERNS = st.lists(st.sampled_from(["p/", "*", "q/1", "**", "p/?"]), min_size=1, max_size=2)


def history(repo: Repository, edits: Sequence[Any]) -> None:
    main = repo.branch("main")
    for verb, path, other in edits:
        if verb == "put":
            main.put(path, other)
        elif verb == "delete":
            main.delete(path)
        elif verb == "copy" and path != other and repo.at("main").exists(path):
            main.copy(path, other, force=True)
        elif verb == "branch":
            repo.create_branch(f"branch-{uuid4().hex}", "main")
        with suppress(NoChangesError):
            main.commit(verb)


def is_purged(path: str, patterns: Sequence[str]) -> bool:
    rules = {
        "p/": path.startswith("p/"),
        "*": "/" not in path,
        "q/1": path == "q/1",
        "**": True,
        "p/?": path in ("p/1", "p/2"),
    }
    return any(rules[each] for each in patterns)


@pytest.mark.system
@settings(max_examples=60, deadline=None)
@given(st.lists(EDITS, min_size=1, max_size=8), PATTERNS, st.none() | st.integers(0, 25))
def test_exactly_these_bytes_go(
    edits: Sequence[Any], patterns: list[str], death: int | None
) -> None:
    with memory_folder() as folder:
        repo = memory_lake().create_repository("lake", str(folder / "lake"), range_records=1)
        history(repo, edits)
        named: dict[str, set[str]] = {}
        heads = [each.name for each in repo.branches()]
        commits = {each.id for name in heads for each in repo.log(name)}
        for commit in commits:
            for each in repo.objects(commit):
                named.setdefault(each.address, set()).add(each.path)
        wanted = {
            address
            for address, paths in named.items()
            if any(is_purged(path, patterns) for path in paths)
        }
        shared = {
            address
            for address in wanted
            if not all(is_purged(path, patterns) for path in named[address])
        }
        before = bytes_of(repo)
        terms = {"commit": True, "include_shared": bool(shared)}
        if not wanted:
            with pytest.raises(NoChangesError):
                repo.purge(patterns, **terms)  # type: ignore[arg-type]
            return
        if death is None:
            made = repo.purge(patterns, **terms)  # type: ignore[arg-type]
        else:
            with suppress(CrashError), dies_at(death, *IN_THE_STORE):
                repo.purge(patterns, **terms)  # type: ignore[arg-type]
            for each in heads:
                repo.branch(each).reset()
            if not repo.purges():
                repo.purge(patterns, **terms)  # type: ignore[arg-type]
            (made,) = repo.purges()
            made = repo.resume_purge(made.id)
        assert made.state is repo.get_purge(made.id).state is PurgeState.DONE
        assert bytes_of(repo) == before - wanted
        assert (made.counts.addresses, made.counts.shared) == (len(wanted), len(shared))
        assert {(row["address"], row["path"]) for row in receipt(repo, made.id)} == {
            (address, path)
            for address in wanted
            for path in named[address]
            if is_purged(path, patterns)
        }
        for commit in commits:
            for each in repo.objects(commit):
                if each.address in wanted:
                    with pytest.raises(MissingFileError):
                        repo.read_bytes(commit, each.path)
                else:
                    assert len(repo.read_bytes(commit, each.path)) == each.size
