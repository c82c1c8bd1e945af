"""A driver with a pool, for tests that interrupt or kill it. Its tasks wait for a file.

Its argument is a folder. It prints the ids of its workers when both have a task.
"""

from __future__ import annotations

import sys
import threading
import time
from functools import partial
from pathlib import Path

from sparklake.engine.pool import PoolRunner
from tests.support.pool_bodies import waiting_body, work_of


def report(folder: Path) -> None:
    while len(begun := list(folder.glob("begun-*"))) < 2:
        time.sleep(0.01)
    print(*(each.name.rpartition("-")[2] for each in begun), flush=True)  # noqa: T201


def main() -> None:
    folder = Path(sys.argv[1])
    threading.Thread(target=report, args=(folder,), daemon=True).start()
    runner = PoolRunner(2)
    try:
        list(runner.collect(partial(waiting_body, folder), work_of(5)))
    except KeyboardInterrupt:
        print("interrupted", runner.is_warm, flush=True)  # noqa: T201
        sys.exit(130)


if __name__ == "__main__":
    main()
