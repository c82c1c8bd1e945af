"""lakeFS's own engine as a program, if it is next to the project."""

from __future__ import annotations

import os

import pytest

from benchmarks.peer import PROGRAM

needs_peer = pytest.mark.skipif(
    not os.access(PROGRAM, os.X_OK), reason="lakeFS's engine, shared/peer/peerbench, is not here"
)
