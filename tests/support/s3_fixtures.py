"""Fixtures for buckets, all at one endpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    # Not at the top: it takes longer to load than many tests run.
    from sparklake.testing.s3_server import s3_server

    with s3_server() as endpoint:
        yield endpoint


@pytest.fixture
def s3_env(
    s3_endpoint: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """Return a test environment with the endpoint only, and without settings of the machine."""
    from sparklake.testing.s3_server import s3_environment

    # The same for all tests, so that they share a client.
    environment = s3_environment(s3_endpoint, tmp_path_factory.getbasetemp())
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return environment


class Bucket:
    """A bucket, seen through a plain client."""

    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self.name = name

    def put(self, objects: Mapping[str, bytes]) -> None:
        for key, body in objects.items():
            self._client.put_object(Bucket=self.name, Key=key, Body=body)

    def get(self, key: str) -> bytes:
        body: bytes = self._client.get_object(Bucket=self.name, Key=key)["Body"].read()
        return body

    def delete(self, key: str) -> None:
        self._client.delete_object(Bucket=self.name, Key=key)

    def objects(self, prefix: str = "") -> dict[str, str]:
        """Return the ETags of all objects."""
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self.name, Prefix=prefix
        )
        return {each["Key"]: each["ETag"] for page in pages for each in page.get("Contents", ())}
