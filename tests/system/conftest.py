"""A lake in Postgres, for campaigns against it."""

from __future__ import annotations

from tests.verbs.conftest import dsn, folder, scratch

__all__ = ["dsn", "folder", "scratch"]
