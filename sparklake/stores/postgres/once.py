"""The idempotency keys of one repository, in Postgres."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from sparklake.errors import IdempotencyKeyInUseError, RepositoryNotFoundError
from sparklake.graveler.ports.once import OnceRecord
from sparklake.stores.postgres.branch_rows import RepositoryPart
from sparklake.stores.postgres.leases import leased
from sparklake.stores.postgres.sessions import Session

# An expired key is free again. Some others are deleted in passing, except those that a concurrent
# statement deletes.
_ADD = """
    WITH gone AS (
        DELETE FROM sparklake.once_keys WHERE repository_uid = %(uid)s AND key IN (
            SELECT key FROM sparklake.once_keys
            WHERE repository_uid = %(uid)s AND expires <= clock_timestamp() AND key <> %(key)s
            ORDER BY expires LIMIT 100 FOR UPDATE SKIP LOCKED
        )
    )
    INSERT INTO sparklake.once_keys AS known (repository_uid, key, digest, run, result, expires)
    VALUES (%(uid)s, %(key)s, %(digest)s, %(run)s, %(result)s,
            clock_timestamp() + %(lifetime)s::interval)
    ON CONFLICT (repository_uid, key) DO UPDATE
    SET digest = excluded.digest, run = excluded.run, result = excluded.result,
        expires = excluded.expires
    WHERE known.expires <= clock_timestamp()
"""


class PostgresOnceKeys(RepositoryPart):
    def find(self, key: str) -> OnceRecord | None:
        rows = self._fetch(
            "SELECT key, digest, run, result, expires - clock_timestamp() FROM sparklake.once_keys"
            " WHERE repository_uid = %(uid)s AND key = %(key)s AND expires > clock_timestamp()",
            key=key,
        )
        if not rows:
            return None
        found_key, digest, run, result, lifetime = rows[0]
        return OnceRecord(found_key, digest, run, json.loads(result), lifetime)

    def add(self, record: OnceRecord) -> None:
        with self._connections.transaction() as connection:
            add_once_record(connection, self._uid, record)

    @contextmanager
    def turn(self, key: str, seconds: float) -> Iterator[bool]:
        with leased(self._connections, f"{self._uid} once {key}", seconds) as lease:
            yield lease is not None


def add_once_record(connection: Session, uid: str, record: OnceRecord | None) -> None:
    """Add a record as the first statement: it locks the repository, and waits for the key."""
    if record is None:
        return
    try:
        added = connection.execute(
            _ADD,
            {
                "uid": uid,
                "key": record.key,
                "digest": record.digest,
                "run": record.run,
                "result": json.dumps(dict(record.result)),
                "lifetime": record.lifetime,
            },
        ).rowcount
    except psycopg.errors.ForeignKeyViolation:
        raise RepositoryNotFoundError("the repository was deleted") from None
    if not added:
        raise IdempotencyKeyInUseError.of(record.key)
