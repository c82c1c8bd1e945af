"""The lakes of the tests of verbs, for scenarios of several features."""

from __future__ import annotations

from tests.verbs.conftest import (
    any_lake,
    bucket,
    desk,
    dsn,
    folder,
    healthy_at_end,
    lake,
    main,
    pytest_collection_modifyitems,
    repo,
    scratch,
    small_lake,
)

__all__ = [
    "any_lake",
    "bucket",
    "desk",
    "dsn",
    "folder",
    "healthy_at_end",
    "lake",
    "main",
    "pytest_collection_modifyitems",
    "repo",
    "scratch",
    "small_lake",
]
