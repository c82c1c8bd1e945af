"""The home of the tests of the command, and its ways to look at what a job has done."""

from __future__ import annotations

from tests.cli.conftest import dsn, environment, home, scene

__all__ = ["dsn", "environment", "home", "scene"]
