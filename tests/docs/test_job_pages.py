"""The pages whose snippets submit jobs. Each spark-submit starts a JVM."""

from __future__ import annotations

import pytest

from tests.docs.conftest import RunPage, pages_with

pytestmark = [pytest.mark.spark, pytest.mark.system]


@pytest.mark.parametrize("name", pages_with(spark=False, submits=True))
def test_the_snippets_of_a_page_run(name: str, run: RunPage) -> None:
    run(name)
