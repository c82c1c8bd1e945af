"""Every snippet of the documentation runs, page by page. These pages start no JVM."""

from __future__ import annotations

import pytest

from tests.docs.conftest import RunPage, pages_with


@pytest.mark.parametrize("name", pages_with(spark=False, submits=False))
def test_the_snippets_of_a_page_run(name: str, run: RunPage) -> None:
    run(name)
