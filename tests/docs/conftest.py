"""Fixtures of the tests of pages: a fresh lake in Postgres for each page."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.spark import spark_environment
from campaigns.postgres import fresh_database, home_dsn, system_folder
from sparklake.testing.folders import memory_folder
from tests.docs.pages import PAGES, Page, SnippetError, read_page
from tests.docs.scene import run_page, scene_of
from tests.support.spark import IS_3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RunPage = Callable[..., None]


QUICK = {
    *("README.md", "docs/history.md"),
    *("docs/fsspec.md", "docs/import.md", "docs/postgres.md"),
}
"""The pages that `make test` runs; `make test-system` runs the others."""


def pages_with(*, spark: bool, submits: bool) -> list[Any]:
    """Return the names of pages with snippets that run, by what they start."""
    return [
        pytest.param(name, marks=[] if name in QUICK else pytest.mark.system)
        for name in PAGES
        if _kind_of(name) == (spark and not submits, submits)
    ]


def _kind_of(name: str) -> tuple[bool, bool] | None:
    """Tell whether a page uses a session, and whether it submits jobs; None if nothing runs."""
    try:
        page = read_page(name)
    except SnippetError:
        return False, False  # Its own test fails with the reason.
    if not page.steps or (IS_3 and "spark 4" in page.needs):
        return None
    return bool({"spark", "spark 4"} & page.needs) and not page.submits, page.submits


@pytest.fixture
def run(request: pytest.FixtureRequest, s3_env: dict[str, str]) -> Iterator[RunPage]:
    """Return a function that runs a page, with a session if there is one."""
    with ExitStack() as closing:

        def run_one(name: str | Page, spark: SparkSession | None = None) -> None:
            page = read_page(name) if isinstance(name, str) else name
            folder = closing.enter_context(memory_folder())
            home = folder / "home"
            home.mkdir()
            dsn, variables = _postgres(request, page, closing, home)
            if page.submits or spark is not None:
                variables |= spark_environment()
            with scene_of(page, home, dsn, s3_env | variables, spark) as scene:
                run_page(page, scene)

        yield run_one


def _postgres(
    request: pytest.FixtureRequest, page: Page, closing: ExitStack, home: Path
) -> tuple[str, dict[str, str]]:
    """Return the DSN of a page, and the variables of its embedded server if it needs one."""
    if "embedded" not in page.needs:
        return closing.enter_context(fresh_database(request.getfixturevalue("server_dsn"))), {}
    closing.enter_context(system_folder())
    # It stays up, so that not every command starts it.
    dsn = closing.enter_context(home_dsn(home / ".sparklake"))
    return dsn, {"SPARKLAKE_SYSTEM_FOLDER": os.environ["SPARKLAKE_SYSTEM_FOLDER"]}
