"""The connection of a lake, as an Airflow hook."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparklake.airflow.names import CONNECTION_TYPE, DEFAULT_CONNECTION, FIELDS, HOME
from sparklake.airflow.versions import BaseHook, mask_secret
from sparklake.choices import Engine
from sparklake.errors import InvalidInputError, SparklakeError
from sparklake.visible import count_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sparklake.lake import Lake


@dataclass(frozen=True, slots=True)
class LakePlace:
    """The location of a lake's refs. None means the environment or the settings file."""

    home: Path | None = None
    dsn: str | None = field(default=None, repr=False)

    @property
    def environment(self) -> dict[str, str]:
        """The location as environment variables of a process."""
        variables = {"SPARKLAKE_HOME": self.home, "SPARKLAKE_DSN": self.dsn}
        return {name: str(value) for name, value in variables.items() if value is not None}

    def open(self, spark: SparkSession | None = None) -> Lake:
        """Open the lake. No JVM starts unless a session is given."""
        # Lazy import: DAG files import this module, but only tasks open lakes.
        from sparklake.lake import connect

        engine = Engine.LOCAL if spark is None else None
        return connect(home=self.home, dsn=self.dsn, spark=spark, engine=engine)


class SparklakeHook(BaseHook):
    """The lake of a `sparklake` connection.

    The connection's password is the DSN, and `home` in its extra is the home folder. Without a
    connection id, the worker's environment applies, as for the command.
    """

    conn_name_attr = "sparklake_conn_id"
    default_conn_name = DEFAULT_CONNECTION
    conn_type = CONNECTION_TYPE
    hook_name = CONNECTION_TYPE

    def __init__(self, sparklake_conn_id: str | None = DEFAULT_CONNECTION) -> None:
        super().__init__()
        self.sparklake_conn_id = sparklake_conn_id

    @property
    def place(self) -> LakePlace:
        """The location of the lake. Airflow masks the DSN and its password in later logs.

        Raises InvalidInputError for a connection without a DSN and a home.
        """
        if self.sparklake_conn_id is None:
            return LakePlace()
        connection = self.get_connection(self.sparklake_conn_id)
        home = connection.extra_dejson.get(HOME)
        dsn = connection.password or None
        if not home and dsn is None:
            raise InvalidInputError(
                f"the connection {self.sparklake_conn_id!r} has no DSN and no home folder: set its "
                "password to the DSN. To use the worker's environment, pass sparklake_conn_id=None"
            )
        if dsn is not None:
            _mask(dsn)
        return LakePlace(Path(home) if home else None, dsn)

    def get_conn(self, spark: SparkSession | None = None) -> Lake:
        """Open the lake; use it in a `with` statement. No JVM starts unless a session is given."""
        return self.place.open(spark)

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the lake can be opened, and a message for the UI."""
        try:
            with self.get_conn() as lake:
                count = len(lake.repositories())
        except SparklakeError as error:
            return False, str(error)
        return True, f"the lake has {count_of(count, 'repository', 'repositories')}"

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return the fields of a connection's form."""
        return {name.replace("-", "_"): value for name, value in FIELDS.items()}


def _mask(dsn: str) -> None:
    """Mask a DSN and its password in Airflow's logs."""
    # Lazy import: only tasks need it.
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    mask_secret(dsn)
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        return  # Opening the lake reports it.
    if parts.get("password"):
        mask_secret(str(parts["password"]))
