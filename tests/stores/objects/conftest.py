from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.support.s3 import make_bucket, s3_environment, s3_server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    with s3_server() as endpoint:
        yield endpoint


@pytest.fixture
def s3_env(
    s3_endpoint: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    # The same for all tests, so that they share a client.
    environment = s3_environment(s3_endpoint, tmp_path_factory.getbasetemp())
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return environment


@pytest.fixture
def bucket(s3_env: dict[str, str]) -> str:
    name = f"lake-{uuid4().hex}"
    make_bucket(s3_env, name)
    return name
