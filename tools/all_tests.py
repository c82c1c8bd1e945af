"""Run all tests, one kind after another, and add up what they say: `make test-all`.

The last line is alone: `N passed, N failed`. Errors, and kinds that end in another way, count as
failed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable

KINDS = (
    *("test", "test-system", "test-slow", "test-fallback", "test-iceberg", "test-spark3"),
    *("test-airflow", "test-airflow2", "test-dbt", "test-runtimes"),
)

_SUMMARY = re.compile(r"=* ?(\d+ [a-z]+(?:, \d+ [a-z]+)*) in \d[\d.:]*s\b.*")
_COUNT = re.compile(r"(\d+) (passed|failed|error)s?\b")


def counted(lines: Iterable[str]) -> Counter[str]:
    """Add up the last lines of all runs of pytest in the output of a kind."""
    found: Counter[str] = Counter()
    for line in lines:
        if summary := _SUMMARY.fullmatch(line.strip()):
            for count, what in _COUNT.findall(summary[1]):
                found["passed" if what == "passed" else "failed"] += int(count)
    return found


def run(kind: str) -> Counter[str]:
    """Run one kind, show its output, and return its counts."""
    print(f"--- make {kind}", flush=True)
    make = subprocess.Popen(
        ["make", "--no-print-directory", kind],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    lines = []
    for line in make.stdout or ():
        print(line, end="", flush=True)
        lines.append(line)
    found = counted(lines)
    if (make.wait() and not found["failed"]) or not found:
        found["failed"] += 1  # The set-up, or it found no tests.
    return found


def main() -> int:
    """Run all kinds; return 0 if all tests of all of them passed."""
    results = {kind: run(kind) for kind in KINDS}
    print("---")
    for kind, found in results.items():
        print(f"{kind}: {found['passed']} passed, {found['failed']} failed")
    total = sum(results.values(), Counter())
    print(f"{total['passed']} passed, {total['failed']} failed")
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
