"""The pages whose snippets use a Spark session. They share the one of all tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.docs.conftest import RunPage, pages_with
from tests.support.s3_server import s3a_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("name", pages_with(spark=True, submits=False))
def test_the_snippets_of_a_page_run(
    name: str, spark: SparkSession, run: RunPage, s3_env: dict[str, str]
) -> None:
    settings = s3a_settings(s3_env)
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        run(name, spark)
    finally:
        for key in settings:
            spark.conf.unset(key)
