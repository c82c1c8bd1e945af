"""A garbage collection that suspends itself, by SIGSTOP, before its fifth deletion.

Its arguments are those of the command `sparklake`.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count

from sparklake.cli.main import main
from sparklake.stores.objects.local.store import LocalStore

if __name__ == "__main__":
    delete, calls = LocalStore.delete, count(1)

    def suspended(store: LocalStore, key: str) -> None:
        if key.startswith("data/") and next(calls) == 5:
            os.kill(os.getpid(), signal.SIGSTOP)
        delete(store, key)

    LocalStore.delete = suspended  # type: ignore[method-assign]  # it suspends a real process
    sys.exit(main())
