"""The contract again, on Spark Connect: in a process of its own, since one cannot hold both."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.spark import REMOTE

ROOT = Path(__file__).parents[2]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_the_contract_holds_on_spark_connect() -> None:
    # Under SPARK_TESTING a local server takes a free port instead of always the same one.
    environment = {**os.environ, REMOTE: "local[2]", "SPARK_TESTING": "1"}
    options = ["-p", "no:cacheprovider", "--tb=short", "--maxfail=5"]
    command = [sys.executable, "-m", "pytest", *options, "tests/spark/contract"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    summary = done.stdout.strip().rpartition("\n")[2]
    if done.returncode or not re.search(r"\d+ passed", summary) or "skipped" in summary:
        pytest.fail(f"on Spark Connect:\n{done.stdout}\n{done.stderr[-5000:]}", pytrace=False)
