from __future__ import annotations

import pytest

from sparklake.testing.s3_server import fresh_bucket


@pytest.fixture
def bucket(s3_env: dict[str, str]) -> str:
    return fresh_bucket(s3_env)
