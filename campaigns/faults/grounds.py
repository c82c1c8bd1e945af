"""The servers and folders of a campaign: a Postgres, a folder, an S3 server and Azurite."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from campaigns.faults.forks import forks
from campaigns.faults.trials import Trials
from campaigns.postgres import embedded_home, fresh_database, home_dsn
from sparklake.testing.azurite import azure_environment, azurite_server, fresh_container
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import postgres_lake
from sparklake.testing.s3_server import fresh_bucket, s3_environment, s3_server


@dataclass(frozen=True, slots=True)
class Ground:
    """A Postgres, a folder, and the environment of the stores' servers.

    `home` is that of the campaign's own Postgres, which may be killed.
    """

    dsn: str
    home: Path | None
    folder: Path
    environment: dict[str, str]

    def root(self, store: str) -> str:
        """Return a fresh root in a store."""
        if store == "local":
            return f"file://{self.folder}/local"
        if store == "azure":
            return f"{fresh_container(self.environment)}/campaign"
        return f"s3://{fresh_bucket(self.environment)}/campaign"


@contextmanager
def ground(server: str | None = None, stores: Sequence[str] = ()) -> Iterator[Ground]:
    """Start the servers. `server` is the DSN of a Postgres that runs already."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with ExitStack() as stack:
        home = None
        if server is None:
            home = stack.enter_context(embedded_home())
            dsn = stack.enter_context(home_dsn(home))
        else:
            dsn = stack.enter_context(fresh_database(server))
        folder = stack.enter_context(memory_folder())
        endpoint = stack.enter_context(s3_server())
        environment = s3_environment(endpoint, folder)
        if "azure" in stores:
            environment |= azure_environment(stack.enter_context(azurite_server()))
        stack.enter_context(_environment({**environment, "SPARKLAKE_CACHE_BYTES": "0"}))
        yield Ground(dsn, home, folder, environment)


@contextmanager
def trials(
    servers: Ground, store: str, environment: Mapping[str, str] | None = None
) -> Iterator[Trials]:
    """Prepare the trials in a store. `environment` is that of the children."""
    with (
        forks("campaigns.faults.cases", environment) as children,
        postgres_lake(f"{servers.dsn} options='-c lock_timeout=5s'") as lake,
    ):
        yield Trials(lake, servers.dsn, servers.root(store), children)


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
