"""Commits and refs that the ref store has lost: no verb deletes or replaces their only copy."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import uuid4

import pytest

from campaigns.faults.postgres_faults import Database
from sparklake import Lake, Repository
from sparklake.errors import (
    AlreadyExistsError,
    NewerDumpError,
    NoChangesError,
    RefNotFoundError,
    RefsLostError,
)
from sparklake.layout import DUMP_SETTINGS_KEY, REFS_MANIFEST_KEY
from sparklake.rows.findings import FindingKind
from sparklake.testing.lakes import commit_all, namespace_of
from sparklake.verbs.checks import dumps as dump_checks
from sparklake.verbs.dumps import lost_refs

_GARBAGE = {
    FindingKind.OBJECT_UNREFERENCED,
    FindingKind.OBJECT_YOUNG,
    FindingKind.TREE_FILE_UNREFERENCED,
}


@pytest.fixture
def repo(lake: Lake, folder: Path) -> Repository:
    made = lake.create_repository(f"repo-{uuid4().hex}", str(folder / "namespace"))
    main = made.branch("main")
    commit_all(main, {"a": b"1"}, "one")
    commit_all(main, {"b": b"2"}, "two")
    made.create_tag("v1", "main~1")
    commit_all(made.create_branch("dev", "main"), {"c": b"3"}, "three")
    return made


@pytest.fixture
def database(dsn: str, repo: Repository) -> Iterator[Database]:
    made = Database(dsn, repo)
    yield made
    made.close()


def delete(table: str, condition: str) -> str:
    return f"DELETE FROM sparklake.{table} WHERE repository_uid = %(uid)s AND {condition}"


def files_of(repo: Repository) -> set[str]:
    """Return the objects, the tables and the dump of a repository."""
    root = namespace_of(repo)
    files = [each for part in ("data", "_lakefs") for each in (root / part).rglob("*")]
    return {str(each.relative_to(root)) for each in files if each.is_file()}


def age(folder: Path) -> None:
    """Let all files seem to be three days old."""
    for each in folder.rglob("*"):
        before = each.stat().st_mtime - 3 * 24 * 3600
        os.utime(each, (before, before))


LOSSES = {
    "a commit between others": (delete("commits", "message = 'two'"), "commit_lost"),
    "the commit of a head": (delete("commits", "message = 'three'"), "ref_without_commit"),
    "a branch": (delete("branches", "name = 'dev'"), "ref_lost"),
    "a tag": (delete("tags", "name = 'v1'"), "ref_lost"),
    "the content of a commit": (
        "UPDATE sparklake.commits SET meta_range_id = '' WHERE repository_uid = %(uid)s"
        " AND message = 'three'",
        "commit_damaged",
    ),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("trees", [True, False])
def test_what_only_lost_refs_name_is_neither_listed_nor_deleted(
    repo: Repository, database: Database, loss: str, trees: bool
) -> None:
    if trees:
        repo.settings.set_retention(0, tree_days=0)
    repo.dump_refs()
    age(namespace_of(repo))
    before = files_of(repo)
    statement, kind = LOSSES[loss]
    database.run(statement)
    found = repo.check("content")
    assert kind in found.kinds
    assert not _GARBAGE & found.kinds.keys()
    for verb in (
        lambda: repo.collect_garbage(grace=timedelta()),
        lambda: repo.collect_garbage(dry_run=True, grace=timedelta()),
        lambda: repo.purge(["nothing/**"], "asked"),
    ):
        with pytest.raises(RefsLostError, match=r"nothing was deleted: .*`sparklake repair`"):
            verb()
    assert before <= files_of(repo)
    assert repo.repair("content").check.is_healthy
    assert [each.path for each in repo.objects("dev@")] == ["a", "b", "c"]
    assert repo.read_bytes("dev@", "c") == b"3"
    repo.collect_garbage(grace=timedelta())


@pytest.mark.parametrize("loss", LOSSES)
def test_a_dump_with_lost_refs_is_not_replaced(
    repo: Repository, database: Database, loss: str
) -> None:
    repo.dump_refs()
    before = files_of(repo)
    statement, kind = LOSSES[loss]
    database.run(statement)
    if kind == "commit_damaged":
        return  # The dump has its content, and so has the next one.
    with pytest.raises(RefsLostError, match=r"nothing was dumped: .*--overwrite"):
        repo.dump_refs()
    assert files_of(repo) == before
    repo.repair("refs")
    repo.dump_refs()
    assert repo.check("refs").kinds == {}


def test_a_lost_parent_is_noticed_without_a_dump(repo: Repository, database: Database) -> None:
    database.run(delete("commits", "message = 'one'"))
    with pytest.raises(RefsLostError, match="a parent of a commit is missing"):
        repo.collect_garbage(grace=timedelta())


def test_a_purge_that_must_not_wait_is_possible(repo: Repository, database: Database) -> None:
    repo.dump_refs()
    database.run(delete("tags", "name = 'v1'"))
    with pytest.raises(RefsLostError, match="nothing was deleted"):
        repo.purge(["nothing/**"], "asked")
    with pytest.raises(NoChangesError):
        repo.purge(["nothing/**"], "asked", include_shared=True)


def test_lost_refs_can_be_given_up(repo: Repository, database: Database) -> None:
    repo.dump_refs()
    database.run(delete("branches", "name = 'dev'"))
    with pytest.raises(RefsLostError):
        repo.dump_refs()
    repo.dump_refs(overwrite=True)
    assert repo.check("content").is_healthy
    repo.collect_garbage(grace=timedelta())


@pytest.mark.parametrize("works_on", [False, True])
def test_a_database_from_an_older_backup_is_brought_up_to_the_dump(
    repo: Repository, database: Database, works_on: bool
) -> None:
    repo.dump_refs()
    database.back_up()
    main = repo.branch("main")
    commit_all(main, {"later": b"4"}, "later")
    head = repo.resolve("main").id
    repo.create_tag("v2", "main")
    repo.delete_branch("dev")
    repo.dump_refs()
    database.restore()
    assert repo.resolve("main").message == "two"
    if works_on:
        commit_all(main, {"other": b"5"}, "other")
    with pytest.raises(RefsLostError, match="nothing was dumped"):
        repo.dump_refs()
    with pytest.raises(RefsLostError, match="nothing was deleted"):
        repo.collect_garbage(grace=timedelta())
    found = repo.check("refs").kinds
    assert found == {
        FindingKind.COMMIT_LOST: 1,
        FindingKind.REF_LOST: 1,
        FindingKind.BRANCH_BEHIND: 1,
    }
    made = repo.repair("content")
    assert repo.resolve("v2").id == head
    if works_on:
        assert made.check.kinds == {FindingKind.BRANCH_BEHIND: 1}
        assert "merge" in made.results[-1].problem
        repo.merge("v2", "main")
        assert repo.read_bytes("main", "other") == b"5"
    else:
        assert repo.resolve("main").id == head
    assert repo.read_bytes("main", "later") == b"4"
    assert repo.check("content").is_healthy
    repo.dump_refs()


def test_a_deleted_and_created_ref_is_found_lost(repo: Repository, database: Database) -> None:
    repo.delete_branch("dev")
    repo.create_branch("dev", "main")
    repo.delete_tag("v1")
    repo.create_tag("v1", "main")
    repo.dump_refs()
    database.run(delete("branches", "name = 'dev'"))
    database.run(delete("tags", "name = 'v1'"))
    assert repo.check("refs").kinds == {FindingKind.REF_LOST: 2}
    repo.repair("refs")
    assert repo.resolve("dev").message == repo.resolve("v1").message == "two"


def test_what_was_changed_since_the_dump_is_not_lost(repo: Repository) -> None:
    repo.dump_refs()
    repo.delete_branch("dev")
    repo.delete_tag("v1")
    repo.create_tag("v1", "main")
    repo.branch("main").hard_reset("main~1")
    repo.create_branch("dev", "main").hard_reset("main~1")
    assert repo.check("refs").kinds == {}
    repo.collect_garbage(grace=timedelta())
    repo.dump_refs()
    repo.create_tag("dev2", "main")
    assert repo.check("refs").kinds == {}


def test_a_restored_branch_that_falls_behind_its_log_is_noticed(
    lake: Lake, repo: Repository, dsn: str
) -> None:
    """Its log has left the dumped commit, but for another one than the present one."""
    repo.dump_refs()
    namespace = repo.info.storage_namespace
    lake.delete_repository(repo.name)
    again = lake.restore_repository(repo.name, namespace)
    commit_all(again.branch("dev"), {"d": b"4"}, "four")
    assert again.check("refs").is_healthy
    database = Database(dsn, again)
    database.run(
        "UPDATE sparklake.branches SET commit_id = %(two)s"
        " WHERE repository_uid = %(uid)s AND name = 'dev'",
        two=again.resolve("main").id,
    )
    database.close()
    assert again.check("refs").kinds[FindingKind.BRANCH_BEHIND] == 1
    with pytest.raises(RefsLostError, match="dev"):
        again.collect_garbage()


def test_a_branch_that_moves_during_a_check_still_lacks_what_is_lost(
    repo: Repository, database: Database
) -> None:
    """After the log was read."""
    dev = repo.branch("dev")
    database.back_up()
    commit_all(dev, {"d": b"4"}, "four")
    repo.dump_refs()
    database.restore()
    explained = lost_refs._explained

    def then_commit(*arguments: Any) -> Any:
        found = explained(*arguments)
        commit_all(dev, {"e": uuid4().bytes}, "five")
        return found

    with mock.patch.object(lost_refs, "_explained", then_commit):
        assert repo.check("refs").kinds[FindingKind.BRANCH_BEHIND] == 1
    assert repo.resolve("dev").message == "five"


def test_dumps_during_a_check_are_no_dumps_of_others(repo: Repository) -> None:
    """The settings belong to the last two dumps, so that a check may read those of a later one."""
    repo.dump_refs()
    find = dump_checks.find_last_manifest
    tags = ["v2", "v3"]

    def then_dump(*arguments: Any) -> Any:
        found = find(*arguments)
        while tags:
            repo.create_tag(tags.pop(), "main")
            repo.dump_refs()
        return found

    with mock.patch.object(dump_checks, "find_last_manifest", then_dump):
        assert repo.check("refs").kinds == {}
    assert not tags


def test_a_newer_dump_of_another_program_stops_deletions(
    repo: Repository, database: Database, lake: Lake, folder: Path
) -> None:
    """Its commits may name objects that this ref store has never seen."""
    namespace = namespace_of(repo)
    repo.dump_refs()
    shutil.copytree(namespace, folder / "copy")
    (folder / "copy" / "_lakefs" / "dummy").unlink()
    heir = lake.restore_repository(f"heir-{uuid4().hex}", str(folder / "copy"))
    commit_all(heir.branch("main"), {"theirs": b"1"}, "theirs")
    heir.dump_refs()
    for each in (folder / "copy" / "_lakefs").iterdir():
        if each.name not in ("dummy", "sparklake_settings.json"):
            target = namespace / "_lakefs" / each.name
            target.unlink(missing_ok=True)
            target.write_bytes(each.read_bytes())
    found = repo.check("content")
    assert found.kinds == {FindingKind.FOREIGN_DUMP: 1}
    assert "Postgres lacks the commit" in found.findings[0].detail
    with pytest.raises(NewerDumpError):
        repo.dump_refs()
    with pytest.raises(RefsLostError, match="was written by another program"):
        repo.collect_garbage(grace=timedelta())
    repo.dump_refs(overwrite=True)
    repo.collect_garbage(grace=timedelta())


def test_an_older_copy_whose_log_knows_the_ref_is_noticed(
    repo: Repository, database: Database
) -> None:
    """The tag was deleted before the backup, and made again after it; a branch was undone."""
    repo.delete_tag("v1")
    database.back_up()
    repo.create_tag("v1", "dev~2")
    repo.branch("dev").undo()
    repo.dump_refs()
    database.restore()
    repo.settings.set_retention(0, tree_days=0)
    assert repo.check("refs").kinds == {FindingKind.REF_LOST: 1}
    before = files_of(repo)
    with pytest.raises(RefsLostError):
        repo.collect_garbage(grace=timedelta())
    with pytest.raises(RefsLostError):
        repo.dump_refs()
    assert files_of(repo) == before
    assert repo.repair("refs").check.is_healthy
    repo.delete_tag("v1")
    repo.dump_refs()
    assert repo.check("refs").kinds == {}


@pytest.mark.parametrize("has_dump", [True, False])
def test_the_log_knows_which_refs_exist(
    repo: Repository, database: Database, has_dump: bool
) -> None:
    """Also if the dump is damaged, so that it cannot tell."""
    if has_dump:
        repo.dump_refs()
        (namespace_of(repo) / REFS_MANIFEST_KEY).write_bytes(b"{")
    database.run(delete("branches", "name = 'dev'"))
    assert repo.check("refs").kinds[FindingKind.REF_LOST] == 1
    for verb in (repo.collect_garbage, repo.dump_refs):
        with pytest.raises(RefsLostError, match="dev"):
            verb()
    assert repo.repair("refs").check.is_healthy
    assert repo.resolve("dev").message == "three"
    repo.collect_garbage()
    assert repo.check("refs").is_healthy


@pytest.mark.parametrize("since", ["commit", "reset", "no dump"])
def test_a_repair_restores_a_ref_where_its_last_operation_has_left_it(
    repo: Repository, database: Database, since: str
) -> None:
    """The dump has an older commit, or one that was given up."""
    if since != "no dump":
        repo.dump_refs()
    dev = repo.branch("dev")
    if since == "reset":
        dev.hard_reset("dev~1")
    else:
        commit_all(dev, {"d": b"4"}, "four")
    wanted = repo.resolve("dev")
    database.run(delete("branches", "name = 'dev'"))
    database.run(delete("tags", "name = 'v1'"))
    made = repo.repair("refs")
    assert made.check.is_healthy
    assert f"the log of Postgres, at {wanted.id}" in {each.step.source for each in made.results}
    assert repo.resolve("dev") == wanted
    assert repo.resolve("v1").message == "one"
    with pytest.raises(RefNotFoundError):
        repo.branch("v1").commit("a tag is no branch")


def test_a_repair_restores_no_ref_that_was_deleted_meanwhile(
    repo: Repository, database: Database
) -> None:
    repo.dump_refs()
    database.run(delete("branches", "name = 'dev'"))

    def then_deleted(_: object) -> bool:
        repo.create_branch("dev", "main")
        repo.delete_branch("dev")
        return True

    made = repo.repair("refs", accept=then_deleted)
    assert "check again" in made.results[0].problem
    assert [each.name for each in repo.branches()] == ["main"]
    assert repo.check("refs").is_healthy


def test_a_repair_does_not_guess_what_a_restored_ref_was(
    lake: Lake, repo: Repository, dsn: str
) -> None:
    repo.dump_refs()
    namespace = namespace_of(repo)
    lake.delete_repository(repo.name)
    again = lake.restore_repository(repo.name, repo.info.storage_namespace)
    for each in (REFS_MANIFEST_KEY, DUMP_SETTINGS_KEY):
        (namespace / each).unlink()
    database = Database(dsn, again)
    database.run(delete("tags", "name = 'v1'"))
    database.close()
    made = again.repair("refs")
    assert made.check.kinds[FindingKind.REF_LOST] == 1
    assert "lacks the commit or the kind of ref" in made.results[0].problem


def test_what_a_lost_manifest_named_is_not_replaced(repo: Repository, database: Database) -> None:
    """The settings beside a dump name its tables, too."""
    repo.dump_refs()
    database.run(delete("commits", "message = 'two'"))
    (namespace_of(repo) / REFS_MANIFEST_KEY).unlink()
    assert repo.check("refs").kinds[FindingKind.COMMIT_LOST] == 1
    with pytest.raises(RefsLostError):
        repo.dump_refs()
    assert repo.repair("refs").check.is_healthy


def test_a_name_in_use_is_not_taken_by_a_repair(repo: Repository, database: Database) -> None:
    database.back_up()
    repo.create_tag("v2", "main~1")
    repo.dump_refs()
    database.restore()
    repo.create_branch("v2", "main")
    made = repo.repair("refs")
    assert made.check.kinds[FindingKind.REF_LOST] == 1
    assert "the name is used" in made.results[0].problem
    assert [each.name for each in repo.tags()] == ["v1"]
    repo.dump_refs(overwrite=True)
    assert repo.check("refs").is_healthy


def test_a_first_dump_that_is_not_complete_is_no_fault(repo: Repository) -> None:
    repo.dump_refs()
    settings = namespace_of(repo) / DUMP_SETTINGS_KEY
    body = settings.read_bytes()
    (namespace_of(repo) / REFS_MANIFEST_KEY).unlink()
    assert FindingKind.DUMP_DAMAGED in repo.check("refs").kinds
    settings.write_bytes(body.replace(b'"is_first":false', b'"is_first":true'))
    assert repo.check("refs").kinds == {}
    repo.dump_refs()
    assert settings.read_bytes().endswith(b'"is_first":false}')


def test_a_ref_that_is_made_again_meanwhile_is_not_lost(repo: Repository) -> None:
    """Between the reads of the refs and of the log."""
    repo.dump_refs()
    repo.delete_tag("v1")
    log = repo._context.refs.operations
    latest = type(log).latest

    def again(*arguments: object) -> object:
        with suppress(AlreadyExistsError):
            repo.create_tag("v1", "main")
        return latest(*arguments)  # type: ignore[arg-type]

    with mock.patch.object(type(log), "latest", again):
        assert repo.check("refs").kinds == {}
        repo.delete_tag("v1")
        repo.dump_refs()


@pytest.mark.parametrize("is_dumped", [False, True])
def test_a_ref_that_is_deleted_meanwhile_is_not_lost(repo: Repository, is_dumped: bool) -> None:
    """Made after the refs were read, and deleted after the log was."""
    log = repo._context.refs.operations
    latest = type(log).latest

    def then_deleted(*arguments: object) -> object:
        if moves:
            repo.create_tag("v", moves.pop())
        found = latest(*arguments)  # type: ignore[arg-type]
        with suppress(RefNotFoundError):
            repo.delete_tag("v")
        return found

    if is_dumped:
        repo.create_tag("v", "main~1")
    repo.dump_refs()
    if is_dumped:
        repo.delete_tag("v")
    for verb in (lambda: repo.check("refs").is_healthy, repo.collect_garbage, repo.dump_refs):
        moves = ["main"]
        with mock.patch.object(type(log), "latest", then_deleted):
            assert verb()
        assert not moves
