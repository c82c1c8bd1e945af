"""Faults in Postgres itself, as a wrong command of an administrator leaves them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from sparklake import Lake, Repository
from sparklake.errors import CorruptFileError
from sparklake.graveler.retention import Retention, expired_commits
from sparklake.udfs.checks.findings import FindingKind
from tests.support.lakes import commit_all


@pytest.fixture
def postgres_repo(lake: Lake, folder: Path) -> Repository:
    made = lake.create_repository(f"repo-{uuid4().hex}", str(folder / "namespace"))
    main = made.branch("main")
    commit_all(main, {"a": b"1"}, "one")
    commit_all(main, {"a": b"2"}, "two")
    made.create_tag("v1", "main~1")
    commit_all(made.create_branch("dev", "main"), {"b": b"3"}, "three")
    made.branch("dev").put("staged", b"row")
    made.dump_refs()
    return made


STATEMENTS: dict[str, tuple[str, FindingKind]] = {
    "message": (
        "UPDATE sparklake.commits SET message = 'other' WHERE repository_uid = %(uid)s"
        " AND message = 'two'",
        FindingKind.COMMIT_DAMAGED,
    ),
    "generation": (
        "UPDATE sparklake.commits SET generation = 9 WHERE repository_uid = %(uid)s"
        " AND message = 'two'",
        FindingKind.GENERATION_WRONG,
    ),
    "parent": (
        "DELETE FROM sparklake.commits WHERE repository_uid = %(uid)s AND message = 'one'",
        FindingKind.PARENT_MISSING,
    ),
    "head": (
        "DELETE FROM sparklake.commits WHERE repository_uid = %(uid)s AND message = 'three'",
        FindingKind.REF_WITHOUT_COMMIT,
    ),
    "moved branch": (
        "UPDATE sparklake.branches SET commit_id = (SELECT commit_id FROM sparklake.tags"
        " WHERE repository_uid = %(uid)s) WHERE repository_uid = %(uid)s AND name = 'main'",
        FindingKind.LOG_DIFFERS,
    ),
    "lost tag": (
        "DELETE FROM sparklake.tags WHERE repository_uid = %(uid)s",
        FindingKind.REF_LOST,
    ),
    "default branch": (
        "DELETE FROM sparklake.branches WHERE repository_uid = %(uid)s AND name = 'main'",
        FindingKind.DEFAULT_BRANCH_MISSING,
    ),
    "expired head": (
        "INSERT INTO sparklake.expired_commits SELECT repository_uid, commit_id"
        " FROM sparklake.branches WHERE repository_uid = %(uid)s AND name = 'dev'",
        FindingKind.REF_EXPIRED,
    ),
    "staged row": (
        "UPDATE sparklake.staged_rows SET value = substring(value FROM 1 FOR 40) WHERE layer_id IN"
        " (SELECT id FROM sparklake.layers WHERE repository_uid = %(uid)s)",
        FindingKind.STAGED_ROW_DAMAGED,
    ),
}


@pytest.fixture
def execute(dsn: str, postgres_repo: Repository) -> Callable[[str], None]:
    """Return a function that executes a statement without checks of foreign keys."""

    def run(statement: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("SET session_replication_role = replica")
            connection.execute(statement, {"uid": postgres_repo.info.uid})

    return run


@pytest.mark.parametrize("fault", STATEMENTS)
def test_faults_in_postgres_are_found(
    postgres_repo: Repository, execute: Callable[[str], None], fault: str
) -> None:
    assert postgres_repo.check().kinds == {}
    statement, kind = STATEMENTS[fault]
    execute(statement)
    assert kind in postgres_repo.check().kinds


@pytest.mark.parametrize("fault", ["parent", "head"])
def test_retention_names_a_missing_commit(
    postgres_repo: Repository, execute: Callable[[str], None], fault: str
) -> None:
    execute(STATEMENTS[fault][0])
    with pytest.raises(CorruptFileError, match=r"is missing, so retention.*`sparklake check`"):
        expired_commits(postgres_repo._context.refs.snapshot(), Retention(7), 0)
