"""Faults in Postgres itself, as wrong commands of an administrator or old backups leave them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg
from psycopg.rows import dict_row

from campaigns.faults.lake_faults import Expected, expected
from sparklake import Repository
from sparklake.graveler.planning.change_summary import ChangeSummary, encode_summary, name_hashes
from sparklake.rows.findings import FindingKind

_TABLES = ("commits", "branches", "tags", "layers", "operations", "expired_commits")


class Database:
    """The rows of one repository in Postgres, changed without foreign keys and triggers."""

    def __init__(self, dsn: str, repo: Repository) -> None:
        self._uid = repo.info.uid
        self._connection = psycopg.connect(dsn, autocommit=True)
        self._connection.execute("SET session_replication_role = replica")
        self._copy = f"backup_{uuid4().hex}"

    def run(self, statement: str, **values: object) -> None:
        """Execute a statement; `%(uid)s` is the repository."""
        self._connection.execute(statement.encode(), {"uid": self._uid, **values})

    def delete(self, table: str, condition: str, **values: object) -> None:
        """Delete rows of the repository."""
        where = f"repository_uid = %(uid)s AND {condition}"
        self.run(f"DELETE FROM sparklake.{table} WHERE {where}", **values)

    def rows(self, table: str, order: str) -> list[dict[str, Any]]:
        """Return the repository's rows of a table."""
        query = f"SELECT * FROM sparklake.{table} WHERE repository_uid = %(uid)s ORDER BY {order}"
        with self._connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(query.encode(), {"uid": self._uid}).fetchall()

    def staged(self) -> list[dict[str, Any]]:
        """Return the staged rows of the repository."""
        query = (
            "SELECT s.* FROM sparklake.staged_rows s JOIN sparklake.layers l ON l.id = s.layer_id"
            " WHERE l.repository_uid = %(uid)s ORDER BY layer_id, key"
        )
        with self._connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(query, {"uid": self._uid}).fetchall()

    def back_up(self) -> None:
        """Copy all rows but staged ones."""
        self.run(f"CREATE SCHEMA {self._copy}")
        for table in _TABLES:
            self.run(
                f"CREATE TABLE {self._copy}.{table} AS SELECT * FROM sparklake.{table}"
                " WHERE repository_uid = %(uid)s"
            )

    def restore(self) -> None:
        """Replace the rows by the copy."""
        with self._connection.transaction():
            for table in _TABLES:
                self.delete(table, "true")
                self.run(
                    f"INSERT INTO sparklake.{table} OVERRIDING SYSTEM VALUE"
                    f" SELECT * FROM {self._copy}.{table}"
                )

    def close(self) -> None:
        """Delete the copy, and close the connection."""
        self.run(f"DROP SCHEMA IF EXISTS {self._copy} CASCADE")
        self._connection.close()


Inject = Callable[[Database, random.Random], Expected]


def _changed_commit(database: Database, rng: random.Random) -> Expected:
    commit = rng.choice(database.rows("commits", "id"))
    change = rng.choice(
        [
            "message = message || '!'",
            "committer = 'somebody else'",
            "creation_date = creation_date + 1",
            'metadata = metadata || \'{"other": "label"}\'',
            "meta_range_id = repeat('0', 64)",
            "parents = parents || repeat('0', 64)",
        ]
    )
    where = "WHERE repository_uid = %(uid)s AND id = %(id)s"
    database.run(f"UPDATE sparklake.commits SET {change} {where}", id=commit["id"])
    return expected(FindingKind.COMMIT_DAMAGED, commit["id"])


def _wrong_generation(database: Database, rng: random.Random) -> Expected:
    commit = rng.choice(database.rows("commits", "id"))
    database.run(
        "UPDATE sparklake.commits SET generation = generation + %(by)s"
        " WHERE repository_uid = %(uid)s AND id = %(id)s",
        by=rng.choice([-1, -7, 2**31]),
        id=commit["id"],
    )
    return expected(FindingKind.GENERATION_WRONG, commit["id"])


def _lost_commit(database: Database, rng: random.Random) -> Expected:
    commit = rng.choice(database.rows("commits", "id"))["id"]
    database.delete("commits", "id = %(id)s", id=commit)
    return expected(FindingKind.COMMIT_LOST, commit)


def _lost_parent(database: Database, rng: random.Random) -> Expected:
    child = rng.choice([each for each in database.rows("commits", "id") if each["parents"]])
    database.delete("commits", "id = %(id)s", id=rng.choice(child["parents"]))
    return expected(FindingKind.PARENT_MISSING, child["id"])


def _any_ref(database: Database, rng: random.Random) -> tuple[str, dict[str, Any]]:
    table = rng.choice(["branches", "tags"])
    return table, rng.choice(database.rows(table, "name"))


def _head_without_commit(database: Database, rng: random.Random) -> Expected:
    _, ref = _any_ref(database, rng)
    database.delete("commits", "id = %(id)s", id=ref["commit_id"])
    return expected(FindingKind.REF_WITHOUT_COMMIT, ref["name"])


def _lost_ref(database: Database, rng: random.Random) -> Expected:
    table, ref = _any_ref(database, rng)
    database.delete(table, "name = %(name)s", name=ref["name"])
    return expected(FindingKind.REF_LOST, ref["name"])


def _lost_default_branch(database: Database, _: random.Random) -> Expected:
    database.delete("branches", "name = 'main'")
    return expected(FindingKind.DEFAULT_BRANCH_MISSING, "main")


def _moved_ref(database: Database, rng: random.Random) -> Expected:
    table, ref = _any_ref(database, rng)
    commits = [each["id"] for each in database.rows("commits", "id")]
    _move(database, table, ref, rng.choice([each for each in commits if each != ref["commit_id"]]))
    return expected(FindingKind.LOG_DIFFERS, ref["name"])


def _move(database: Database, table: str, ref: dict[str, Any], to: str) -> None:
    database.run(
        f"UPDATE sparklake.{table} SET commit_id = %(to)s"
        " WHERE repository_uid = %(uid)s AND name = %(name)s",
        to=to,
        name=ref["name"],
    )


def _branch_behind(database: Database, rng: random.Random) -> Expected:
    parents = {each["id"]: each["parents"] for each in database.rows("commits", "id")}
    branches = [each for each in database.rows("branches", "name") if parents[each["commit_id"]]]
    ref = rng.choice(branches)
    _move(database, "branches", ref, rng.choice(parents[ref["commit_id"]]))
    log = database.rows("operations", "sequence")
    moves = [each["sequence"] for each in log if each["ref"] == ref["name"]]
    database.delete("operations", "sequence >= %(last)s", last=moves[-1])
    return expected(FindingKind.BRANCH_BEHIND, ref["name"])


def _lost_log(database: Database, rng: random.Random) -> Expected:
    _, ref = _any_ref(database, rng)
    database.delete("operations", "ref = %(name)s", name=ref["name"])
    return expected(FindingKind.LOG_DIFFERS, ref["name"])


def _expired_head(database: Database, rng: random.Random) -> Expected:
    _, ref = _any_ref(database, rng)
    database.run(
        "INSERT INTO sparklake.expired_commits VALUES (%(uid)s, %(id)s) ON CONFLICT DO NOTHING",
        id=ref["commit_id"],
    )
    return expected(FindingKind.REF_EXPIRED, ref["name"])


def _wrong_summary(database: Database, rng: random.Random) -> Expected:
    expired = {each["commit_id"] for each in database.rows("expired_commits", "commit_id")}
    commits = database.rows("commits", "id")
    commit = rng.choice([each for each in commits if each["touched"] and each["id"] not in expired])
    database.run(
        "UPDATE sparklake.commits SET touched = %(touched)s"
        " WHERE repository_uid = %(uid)s AND id = %(id)s",
        touched=encode_summary(ChangeSummary(name_hashes([b""]))),
        id=commit["id"],
    )
    return expected(FindingKind.SUMMARY_WRONG, commit["id"])


def _lost_expiry(database: Database, _: random.Random) -> Expected:
    """Delete the rows of expired commits with collected objects."""
    database.delete("expired_commits", "true")
    return expected(FindingKind.OBJECT_MISSING, "")


def _damaged_row(database: Database, rng: random.Random) -> Expected:
    row = rng.choice(database.staged())
    value = bytearray(row["value"])
    way = rng.randrange(3)
    if way == 0:
        value[-rng.randrange(1, 33)] ^= rng.randrange(1, 256)
    elif way == 1:
        del value[rng.randrange(len(value)) :]
    else:
        value = bytearray(rng.randbytes(60))
    database.run(
        "UPDATE sparklake.staged_rows SET value = %(value)s"
        " WHERE layer_id = %(layer)s AND key = %(key)s",
        value=bytes(value),
        layer=row["layer_id"],
        key=row["key"],
    )
    return expected(FindingKind.STAGED_ROW_DAMAGED, "", bytes(row["key"]).decode())


POSTGRES_FAULTS: dict[str, Inject] = {
    each.__name__.removeprefix("_"): each
    for each in (
        _changed_commit,
        _wrong_generation,
        _lost_commit,
        _lost_parent,
        _head_without_commit,
        _lost_ref,
        _lost_default_branch,
        _moved_ref,
        _branch_behind,
        _lost_log,
        _expired_head,
        _wrong_summary,
        _lost_expiry,
        _damaged_row,
    )
}
"""The classes of faults by name."""


@contextmanager
def injected_in_postgres(database: Database, fault: str, rng: random.Random) -> Iterator[Expected]:
    """Inject a fault for the time of a `with` block; yield the expected finding.

    The rows must be backed up before.
    """
    staged = database.staged()
    try:
        yield POSTGRES_FAULTS[fault](database, rng)
    finally:
        database.restore()
        for each in staged:
            database.run(
                "UPDATE sparklake.staged_rows SET value = %(value)s"
                " WHERE layer_id = %(layer_id)s AND key = %(key)s",
                **each,
            )
