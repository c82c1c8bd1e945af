"""Schema migrations up to this version of sparklake."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

from sparklake.errors import RefStoreUnavailableError
from sparklake.stores.postgres.connections import Connections
from sparklake.stores.postgres.sessions import Session

# Any constant works that no other program in the same database uses.
_LOCK = 0x737061726B6C616B


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    script: bytes


def known_migrations() -> tuple[Migration, ...]:
    folder = resources.files("sparklake.stores") / "migrations"
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".sql")),
        key=lambda file: file.name,
    )
    return tuple(
        Migration(int(file.name.split("_")[0]), file.name[: -len(".sql")], file.read_bytes())
        for file in files
    )


def migrate(connections: Connections) -> None:
    """Apply the missing migrations in one transaction; concurrent processes wait."""
    migrations = known_migrations()
    newest = migrations[-1].version
    with connections.transaction() as connection:
        if _version(connection, str(connections.target), newest) == newest:
            return

    def apply_missing(connection: Session) -> None:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        version = _version(connection, str(connections.target), newest)
        if version is None:
            _bootstrap(connection)
        for migration in migrations:
            if migration.version > (version or 0):
                _apply(connection, migration)

    connections.retried(apply_missing)


def _version(connection: Session, target: str, newest: int) -> int | None:
    match = connection.execute(
        "SELECT 1 FROM pg_catalog.pg_tables"
        " WHERE schemaname = 'sparklake' AND tablename = 'schema_migrations'"
    ).fetchone()
    if match is None:
        return None
    row = connection.execute("SELECT max(version) FROM sparklake.schema_migrations").fetchone()
    version: int = (row[0] if row else None) or 0
    if version > newest:
        raise RefStoreUnavailableError(
            f"the ref store at {target} has schema version {version}, but this sparklake "
            f"supports versions up to {newest}: upgrade sparklake"
        )
    return version


def _bootstrap(connection: Session) -> None:
    # CREATE SCHEMA IF NOT EXISTS requires the right to create a schema even if it exists.
    match = connection.execute("SELECT to_regnamespace('sparklake') IS NOT NULL").fetchone()
    if match is None or not match[0]:
        connection.execute("CREATE SCHEMA sparklake")
    connection.execute(
        "CREATE TABLE sparklake.schema_migrations ("
        " version integer PRIMARY KEY,"
        " name text NOT NULL,"
        " applied timestamptz NOT NULL DEFAULT now())"
    )


def _apply(connection: Session, migration: Migration) -> None:
    connection.execute(migration.script)
    connection.execute(
        "INSERT INTO sparklake.schema_migrations (version, name) VALUES (%s, %s)",
        (migration.version, migration.name),
    )
