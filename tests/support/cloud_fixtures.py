"""Fixtures for Azure containers and Google buckets, each kind at one endpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.gcs_server import Buckets


@pytest.fixture(scope="session")
def azure_endpoint() -> Iterator[str]:
    from sparklake.testing.azurite import azurite_server

    with azurite_server() as endpoint:
        yield endpoint


@pytest.fixture
def azure_env(azure_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return a test environment with Azurite only, and without settings of the machine."""
    from sparklake.testing.azurite import azure_environment

    return _only(("AZURE_",), azure_environment(azure_endpoint), monkeypatch)


@pytest.fixture(scope="session")
def gcs_double() -> Iterator[tuple[str, Buckets]]:
    from tests.support.gcs_server import gcs_server

    with gcs_server() as server:
        yield server


@pytest.fixture
def gcs_env(gcs_double: tuple[str, Buckets], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return a test environment with the Google Cloud Storage double only."""
    return _only(("GOOGLE_",), {"STORAGE_EMULATOR_HOST": gcs_double[0]}, monkeypatch)


def _only(
    prefixes: tuple[str, ...], environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    for name in [each for each in os.environ if each.startswith(prefixes)]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return environment
