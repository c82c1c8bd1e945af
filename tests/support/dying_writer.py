"""The driver of a table write, killed by SIGKILL before its files are staged.

Its arguments are those of a job.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from sparklake.jobs.run import main
from sparklake.stores.objects.local.store import LocalStore


def die(*_: Any) -> None:
    # Spark commits its files first; the ranges of the staged run are the first files put after it.
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    for name in ("put_if_absent", "put_many_if_absent", "put_files_if_absent"):
        setattr(LocalStore, name, die)
    sys.exit(main())
