"""The pages whose snippets use a Spark session. They share the one of all tests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.docs.conftest import RunPage, pages_with
from tests.docs.pages import Kind, read_page
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
        for view in spark.sql("SHOW VIEWS").collect():
            spark.catalog.dropTempView(view.viewName)


@pytest.mark.system
def test_the_python_block_of_the_readme_runs_twice(
    spark: SparkSession, run: RunPage, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reader runs it again after a mistake, or the next day."""
    page = read_page("README.md")
    (block,) = [each for each in page.steps if each.kind is Kind.PYTHON]
    twice = replace(block, text=f"{block.text}\n{block.text}")
    steps = tuple(twice if each is block else each for each in page.steps)
    run(replace(page, steps=steps), spark)
    lines = [each for each in capsys.readouterr().out.splitlines() if each[:1] in "0123456789|"]
    first, second = lines[: len(lines) // 2], lines[len(lines) // 2 :]
    assert (int(first[0]) > 0, second[0]) == (True, "0")
    assert first[1:] == second[1:] != []
