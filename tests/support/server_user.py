"""A process that uses an embedded server until its standard input ends.

Its arguments are a home and, to run as an ordinary user, a user id and a group id. Permissions are
dropped after the imports, so that the interpreter may be in a private folder.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psycopg

from sparklake.stores.embedded import embedded_dsn


def main() -> None:
    home, *ids = sys.argv[1:]
    if ids:
        user, group = map(int, ids)
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)
    server = embedded_dsn(Path(home))
    with psycopg.connect(server.dsn) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(1)")  # making a table is no safe race
        connection.execute("CREATE TABLE IF NOT EXISTS visits (visitor int)")
        connection.execute("INSERT INTO visits VALUES (%s)", (os.getpid(),))
    print(server.dsn, flush=True)  # noqa: T201 - for the process that waits for it
    sys.stdin.read()


if __name__ == "__main__":
    main()
