"""The home of the tests of the command."""

from __future__ import annotations

from tests.cli.conftest import environment, home

__all__ = ["environment", "home"]
