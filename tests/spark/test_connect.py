"""The contract again, on Spark Connect, in another process, because none can hold both.

`make test` runs one scenario and one test for each part of Spark's API that the package calls: the
tests with the marker `connect`. The others call the same parts in longer sequences, and
`make test-slow` runs them.
"""

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
@pytest.mark.timeout(2400)
@pytest.mark.parametrize(
    "chosen", ["connect", pytest.param("not connect", marks=pytest.mark.exhaustive)]
)
def test_the_contract_holds_on_spark_connect(chosen: str) -> None:
    # Under SPARK_TESTING a local server takes a free port instead of always the same one.
    environment = {**os.environ, REMOTE: "local[2]", "SPARK_TESTING": "1"}
    options = ["-p", "no:cacheprovider", "--tb=short", "--maxfail=5", "--durations=10"]
    command = [sys.executable, "-m", "pytest", *options, "-m", chosen, "tests/spark/contract"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    summary = done.stdout.strip().rpartition("\n")[2]
    if done.returncode or not re.search(r"\d+ passed", summary) or "skipped" in summary:
        pytest.fail(f"on Spark Connect:\n{done.stdout}\n{done.stderr[-5000:]}", pytrace=False)
