"""A home for all tests of the command, with a real embedded Postgres that keeps running."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from campaigns.postgres import fresh_database, home_dsn
from tests.cli.running import Scene


@pytest.fixture(scope="session")
def home(server_home: Path) -> Path:
    return server_home


@pytest.fixture(scope="session")
def dsn(home: Path) -> Iterator[str]:
    """Another database on the server of the home, for tests that want a lake of their own."""
    with home_dsn(home) as server, fresh_database(server) as database:
        yield database


@pytest.fixture(autouse=True)
def environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every command find the home, and see no terminal and no settings of this machine."""
    for name in ("SPARKLAKE_DSN", "SPARKLAKE_CONFIG", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARKLAKE_HOME", str(home))
    monkeypatch.setenv("SPARKLAKE_COMMITTER", "tester")
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)
