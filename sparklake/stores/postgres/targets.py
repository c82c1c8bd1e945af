"""Connection strings: what they point at, said without their secrets."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PGconn, Ping
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from sparklake.errors import InvalidInputError

CONNECT_SECONDS = 10

_START_SECONDS = 30.0
"""How long a connection waits for a server that starts up or recovers."""

_WAIT_SECONDS = 0.02
_MAX_WAIT_SECONDS = 0.5
_STARTING = re.compile(r"starting up|not (?:yet )?accepting|shutting down|in recovery mode")
_SECRETS = {"password", "sslpassword", "oauth_client_secret"}
_PORTS = re.compile(r"[\d,]*")


@dataclass(frozen=True, slots=True)
class Target:
    """Is the database that a connection string points at; its text and repr hold no secret."""

    name: str
    conninfo: str = field(repr=False)
    password: str = field(repr=False)

    def __str__(self) -> str:
        return self.name

    def connect(self) -> psycopg.Connection:
        """Return a new connection; wait while the server starts up, for a bounded time.

        Raises psycopg's errors.
        """
        retrying = Retrying(
            stop=stop_after_delay(_START_SECONDS),
            wait=wait_random_exponential(multiplier=_WAIT_SECONDS, max=_MAX_WAIT_SECONDS),
            retry=retry_if_exception(self._is_starting),
            reraise=True,
        )
        # Server-side prepared statements would not survive a pooler between here and the server.
        return retrying(psycopg.connect, self.conninfo, autocommit=True, prepare_threshold=None)

    def _is_starting(self, error: BaseException) -> bool:
        """Tell whether a connection failed because the server does not accept any yet."""
        if not isinstance(error, psycopg.OperationalError) or _timed_out(error):
            return False
        if _STARTING.search(str(error)):
            return True
        # The words are in the server's language; the answer to a ping is not.
        return PGconn.ping(self.conninfo.encode()) == Ping.REJECT

    def explain(self, error: Exception) -> str:
        """Returns the driver's words about an error, with the password blotted out."""
        words = " ".join(str(error).split()) or type(error).__name__
        return words.replace(self.password, "***") if self.password else words


def _timed_out(error: psycopg.OperationalError) -> bool:
    return isinstance(error, psycopg.errors.ConnectionTimeout)


def public_dsn(dsn: str) -> str:
    """Returns a connection string without its secrets; raises InvalidInputError as `parse_dsn`."""
    parts = _parts(dsn)
    if not _SECRETS & parts.keys():
        return dsn
    return make_conninfo("", **{name: parts[name] for name in parts if name not in _SECRETS})


def parse_dsn(dsn: str) -> Target:
    """Returns what a connection string points at; raises InvalidInputError, which echoes nothing.

    A password with unquoted '@' or '/' would end up in host, port or database name, and so in
    messages: such a string is refused.
    """
    parts = _parts(dsn)
    defaults = {"connect_timeout": str(CONNECT_SECONDS), "application_name": "sparklake"}
    return Target(
        name=_name(parts),
        conninfo=make_conninfo("", **(defaults | parts)),
        password=parts.get("password", ""),
    )


def _parts(dsn: str) -> dict[str, str]:
    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    except psycopg.Error:
        raise _malformed() from None
    names = parts.get("host", "") + parts.get("dbname", "")
    if "@" in names or not _PORTS.fullmatch(parts.get("port", "")):
        raise _malformed()
    return parts


def _malformed() -> InvalidInputError:
    return InvalidInputError(
        "the DSN is not a Postgres connection string: write postgresql://user@host:5432/database "
        "or 'host=... dbname=...', with special characters in the user and password "
        "percent-encoded"
    )


def _name(parts: dict[str, str]) -> str:
    if "service" in parts and "host" not in parts:
        return f"service {parts['service']}"
    host = parts.get("host") or parts.get("hostaddr") or os.environ.get("PGHOST", "local socket")
    port = parts.get("port") or os.environ.get("PGPORT", "")
    database = parts.get("dbname") or os.environ.get("PGDATABASE", "")
    return f"{host}{':' if port else ''}{port}/{database}"
